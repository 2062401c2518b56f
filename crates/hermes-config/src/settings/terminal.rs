//! The settings of the environment in which commands run.

use std::cell::RefCell;
use std::time::Duration;

use crate::env::split_list;
use crate::yaml::YamlValue;
use crate::{Config, Env};
use hermes_types::Secret;

/// Decides whether local commands run inside the OS sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxMode {
    /// Commands are sandboxed where the kernel supports it.
    Auto,
    /// Commands run only inside the sandbox.
    On,
    Off,
}

/// The access to sandboxes of Modal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModalMode {
    /// The access for which there are credentials.
    Auto,
    Direct,
    Managed,
}

/// Decides whether commands in the OS sandbox have network access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxNetwork {
    On,
    Off,
}

/// The terminal section, or the `TERMINAL_*` variables where the file has no such section.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "one field per key of the section")]
pub struct TerminalSettings {
    pub backend: String,
    pub cwd: Option<String>,
    pub timeout: Duration,
    pub lifetime: Duration,
    pub env_passthrough: Vec<String>,
    pub credential_files: Vec<String>,
    pub docker_image: String,
    pub singularity_image: String,
    pub modal_image: String,
    pub daytona_image: String,
    pub docker_forward_env: Vec<String>,
    pub docker_volumes: Vec<String>,
    pub docker_mount_cwd_to_workspace: bool,
    pub docker_read_only: bool,
    pub docker_network: bool,
    pub container_cpu: f64,
    pub container_memory_mb: usize,
    pub container_disk_mb: usize,
    pub container_persistent: bool,
    pub persistent_shell: bool,
    pub sandbox_dir: Option<String>,
    pub ssh_host: Option<String>,
    pub ssh_user: Option<String>,
    pub ssh_port: u16,
    pub ssh_key: Option<String>,
    pub sudo_password: Option<Secret>,
    pub sandbox: SandboxMode,
    pub sandbox_network: SandboxNetwork,
    pub sandbox_writable: Vec<String>,
    pub modal_mode: ModalMode,
    /// The invalid values, each with its variable and the remedy. Only settings that the backend uses are checked.
    pub problems: Vec<String>,
}

/// A place where commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandBackend {
    Local,
    Docker,
    Ssh,
    Singularity,
    Modal,
    Daytona,
}

/// What is known about a place where commands run.
#[derive(Debug)]
pub struct BackendFacts {
    pub backend: CommandBackend,
    /// The name, as it is configured.
    pub name: &'static str,
    /// Where commands run, for a list of choices.
    pub summary: &'static str,
    /// The programs of which one must be installed on this machine.
    pub programs: &'static [&'static str],
    /// Whether commands run in an image, which `terminal.<name>_image` names.
    pub has_image: bool,
}

/// The places where commands can run.
pub const BACKEND_FACTS: [BackendFacts; 6] = [
    BackendFacts {
        backend: CommandBackend::Local,
        name: "local",
        summary: "on this machine, in a sandbox",
        programs: &[],
        has_image: false,
    },
    BackendFacts {
        backend: CommandBackend::Docker,
        name: "docker",
        summary: "in a container",
        programs: &["docker"],
        has_image: true,
    },
    BackendFacts {
        backend: CommandBackend::Ssh,
        name: "ssh",
        summary: "on another machine",
        programs: &["ssh"],
        has_image: false,
    },
    BackendFacts {
        backend: CommandBackend::Singularity,
        name: "singularity",
        summary: "in a container without a daemon",
        programs: &["apptainer", "singularity"],
        has_image: true,
    },
    BackendFacts {
        backend: CommandBackend::Modal,
        name: "modal",
        summary: "in Modal's cloud",
        programs: &[],
        has_image: true,
    },
    BackendFacts {
        backend: CommandBackend::Daytona,
        name: "daytona",
        summary: "in Daytona's cloud",
        programs: &[],
        has_image: true,
    },
];

impl BackendFacts {
    /// Returns what is known about the backend with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        BACKEND_FACTS.iter().find(|facts| facts.name == name)
    }
}

/// Returns the names of the table, in its order.
#[expect(clippy::indexing_slicing, reason = "the index stays below the length, at compile time")]
const fn backend_names() -> [&'static str; BACKEND_FACTS.len()] {
    let mut names = [""; BACKEND_FACTS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = BACKEND_FACTS[at].name;
        at += 1;
    }
    names
}

impl CommandBackend {
    /// The names of the backends, as they are configured.
    pub const NAMES: &'static [&'static str] = &backend_names();

    /// Parses a configured name.
    pub fn parse(name: &str) -> Option<Self> {
        BackendFacts::find(name).map(|facts| facts.backend)
    }
}

impl TerminalSettings {
    /// Tells whether commands run on this machine.
    pub fn is_local(&self) -> bool {
        CommandBackend::parse(&self.backend) == Some(CommandBackend::Local)
    }

    pub fn resolve(config: &Config, env: &Env) -> Self {
        let file_decides = matches!(config.raw().get("terminal"), Some(YamlValue::Map(_)));
        let read = Reader { config, env, file_decides, problems: RefCell::default() };
        let backend = read.backend();
        // A value for another backend is not used, so it is not checked.
        let known = CommandBackend::parse(&backend);
        let ssh = known == Some(CommandBackend::Ssh);
        let contained = !ssh && known != Some(CommandBackend::Local);
        let mut settings = Self {
            cwd: read.text("cwd", "TERMINAL_CWD").filter(|cwd| !matches!(cwd.as_str(), "." | "auto" | "cwd")),
            timeout: read.seconds("timeout", "TERMINAL_TIMEOUT"),
            lifetime: read.seconds("lifetime_seconds", "TERMINAL_LIFETIME_SECONDS"),
            env_passthrough: config.list("terminal.env_passthrough"),
            credential_files: config.list("terminal.credential_files"),
            docker_image: read.text("docker_image", "TERMINAL_DOCKER_IMAGE").unwrap_or_default(),
            singularity_image: read
                .text("singularity_image", "TERMINAL_SINGULARITY_IMAGE")
                .unwrap_or_default(),
            modal_image: read.text("modal_image", "TERMINAL_MODAL_IMAGE").unwrap_or_default(),
            daytona_image: read.text("daytona_image", "TERMINAL_DAYTONA_IMAGE").unwrap_or_default(),
            docker_forward_env: read.list("docker_forward_env", "TERMINAL_DOCKER_FORWARD_ENV"),
            docker_volumes: read.list("docker_volumes", "TERMINAL_DOCKER_VOLUMES"),
            docker_mount_cwd_to_workspace: read
                .flag("docker_mount_cwd_to_workspace", "TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE"),
            docker_read_only: config.flag("terminal.docker_read_only"),
            docker_network: config.flag("terminal.docker_network"),
            container_cpu: read
                .number_if(contained, "container_cpu", "TERMINAL_CONTAINER_CPU")
                .filter(|cpu| *cpu > 0.0)
                .unwrap_or(1.0),
            container_memory_mb: read.count_if(contained, "container_memory", "TERMINAL_CONTAINER_MEMORY"),
            container_disk_mb: read.count_if(contained, "container_disk", "TERMINAL_CONTAINER_DISK"),
            container_persistent: read.flag("container_persistent", "TERMINAL_CONTAINER_PERSISTENT"),
            persistent_shell: read.flag("persistent_shell", "TERMINAL_PERSISTENT_SHELL"),
            sandbox_dir: read.text("sandbox_dir", "TERMINAL_SANDBOX_DIR"),
            ssh_host: read.text("ssh_host", "TERMINAL_SSH_HOST"),
            ssh_user: read.text("ssh_user", "TERMINAL_SSH_USER"),
            ssh_port: read.port_if(ssh),
            ssh_key: read.text("ssh_key", "TERMINAL_SSH_KEY"),
            sudo_password: read.text("sudo_password", "SUDO_PASSWORD").map(Secret::new),
            sandbox: match config.text("terminal.sandbox").as_str() {
                "on" => SandboxMode::On,
                "off" => SandboxMode::Off,
                _ => SandboxMode::Auto,
            },
            sandbox_network: match config.text("terminal.sandbox_network").as_str() {
                "off" => SandboxNetwork::Off,
                _ => SandboxNetwork::On,
            },
            sandbox_writable: config.list("terminal.sandbox_writable"),
            modal_mode: read.modal_mode_if(known == Some(CommandBackend::Modal)),
            problems: Vec::new(),
            backend,
        };
        settings.problems = read.problems.into_inner();
        settings
    }
}

/// Reads the settings: with a terminal section the file decides about every key; without one, variables override
/// defaults.
struct Reader<'a> {
    config: &'a Config,
    env: &'a Env,
    file_decides: bool,
    problems: RefCell<Vec<String>>,
}

impl Reader<'_> {
    fn variable(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    fn text(&self, key: &str, name: &str) -> Option<String> {
        let from_file = || self.config.non_empty_text(&format!("terminal.{key}"));
        let from_env = || self.variable(name).map(str::to_owned);
        if self.file_decides { from_file().or_else(from_env) } else { from_env().or_else(from_file) }
    }

    /// Returns the backend. An unknown one is kept as written: a misspelled `docker` must not become `local`.
    fn backend(&self) -> String {
        let backend = self.written("backend").or_else(|| self.text("backend", "TERMINAL_ENV"));
        backend.unwrap_or_else(|| "local".to_owned()).trim().to_lowercase()
    }

    /// Returns the text in the file, valid or not.
    fn written(&self, key: &str) -> Option<String> {
        let section = self.config.user().as_map().and_then(|user| user.get("terminal"));
        let written = section.and_then(YamlValue::as_map).and_then(|terminal| terminal.get(key)?.as_str());
        written.filter(|text| !text.trim().is_empty()).map(str::to_owned)
    }

    fn number(&self, key: &str, name: &str) -> Option<f64> {
        let from_file = || self.config.number(&format!("terminal.{key}"));
        let from_env =
            || self.parsed(name, "a number", |text| text.parse().ok().filter(|n: &f64| n.is_finite()));
        if self.file_decides { from_file().or_else(from_env) } else { from_env().or_else(from_file) }
    }

    fn number_if(&self, wanted: bool, key: &str, name: &str) -> Option<f64> {
        if wanted { self.number(key, name) } else { None }
    }

    fn count_if(&self, wanted: bool, key: &str, name: &str) -> usize {
        let asked = wanted && !self.file_decides;
        let from_env =
            if asked { self.parsed(name, "a whole number", |text| text.parse().ok()) } else { None };
        from_env.unwrap_or_else(|| self.config.count(&format!("terminal.{key}")))
    }

    fn port_if(&self, wanted: bool) -> u16 {
        const USUAL: u16 = 22;
        if !wanted {
            return USUAL;
        }
        let from_file = || self.config.int("terminal.ssh_port").and_then(|port| u16::try_from(port).ok());
        let from_env = || self.parsed("TERMINAL_SSH_PORT", "a port number", |text| text.parse().ok());
        let port =
            if self.file_decides { from_file().or_else(from_env) } else { from_env().or_else(from_file) };
        port.unwrap_or(USUAL)
    }

    fn modal_mode_if(&self, wanted: bool) -> ModalMode {
        let written = self.written("modal_mode").or_else(|| self.text("modal_mode", "TERMINAL_MODAL_MODE"));
        match written.filter(|_| wanted).unwrap_or_default().trim().to_lowercase().as_str() {
            "direct" => ModalMode::Direct,
            "managed" => ModalMode::Managed,
            "" | "auto" => ModalMode::Auto,
            other => {
                self.problems.borrow_mut().push(format!(
                    "terminal.modal_mode (or TERMINAL_MODAL_MODE) is `{other}`; it can be auto, direct or managed"
                ));
                ModalMode::Auto
            }
        }
    }

    /// Parses a variable; a value that cannot be parsed is recorded as a problem with the variable's name.
    fn parsed<T>(&self, name: &str, what: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let text = self.variable(name)?;
        let parsed = parse(text);
        if parsed.is_none() {
            self.problems
                .borrow_mut()
                .push(format!("{name} is `{text}`, which is not {what}; correct it or remove it"));
        }
        parsed
    }

    fn seconds(&self, key: &str, name: &str) -> Duration {
        let default =
            || crate::keys::default_of(&format!("terminal.{key}")).and_then(|value| value.as_float());
        self.number(key, name)
            .filter(|seconds| *seconds > 0.0)
            .or_else(default)
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .unwrap_or(Duration::from_mins(3))
    }

    fn flag(&self, key: &str, name: &str) -> bool {
        self.env
            .bool(name)
            .filter(|_| !self.file_decides)
            .unwrap_or_else(|| self.config.flag(&format!("terminal.{key}")))
    }

    /// Reads a list; variables hold it as JSON, or separated by commas.
    fn list(&self, key: &str, name: &str) -> Vec<String> {
        match self.variable(name).filter(|_| !self.file_decides) {
            Some(text) => serde_json::from_str::<Vec<String>>(text).unwrap_or_else(|_| split_list(text)),
            None => self.config.list(&format!("terminal.{key}")),
        }
    }
}
