//! Builds the configured backend for commands: this machine, a container, another machine, a service.
//!
//! Starts no process and makes no request. A missing setting becomes an error that names it; commands meant for a
//! remote backend never run on this machine instead.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::settings::{CommandBackend, TerminalSettings};
use hermes_config::{Env, expand_tilde};
use hermes_exec::{
    Backend, ContainerNetwork, CredentialFiles, DaytonaAccount, DaytonaBackend, DaytonaOptions,
    DockerBackend, DockerEngine, DockerOptions, ForwardedVariables, InstanceRetention, OutputBounds,
    RemoteBackend, ResourceLimits, RootFilesystem, SingularityBackend, SingularityHost,
    SingularityHostOptions, SingularityOptions, SshHost, SshOptions, Variables, scratch_folder,
};
use hermes_net::HttpClient;
use hermes_types::{Clock, Secret};

use super::child_variables;
use super::model::net_config;
use super::sandbox;
use crate::context::ProgramContext;

const DISK_WARNING_GB: u64 = 500;

/// The prefixes of variables that configure how a backend is reached.
const CLIENT_SETTINGS: [&str; 6] = ["DOCKER_", "CONTAINER_", "PODMAN_", "APPTAINER_", "SINGULARITY_", "SSH_"];

/// The inputs of a backend.
pub(crate) struct BackendBuilder<'a> {
    pub(crate) settings: &'a TerminalSettings,
    pub(crate) context: &'a ProgramContext,
    /// The folder the program was started in.
    pub(crate) folder: &'a Path,
    /// The value of `code_execution.python`.
    pub(crate) python: Option<String>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Returns the environment of client programs, such as `docker`. Their settings may also be in the home's `.env`.
pub(crate) fn client_variables(env: &Env) -> Variables {
    let is_clients = |name: &&str| CLIENT_SETTINGS.iter().any(|prefix| name.starts_with(prefix));
    let passed: Vec<String> =
        env.iter().map(|(name, _)| name).filter(is_clients).map(str::to_owned).collect();
    child_variables(env, &passed)
}

impl BackendBuilder<'_> {
    /// Returns the configured backend, or an error that names the missing setting.
    pub(crate) fn remote_backend(&self) -> Result<RemoteBackend, String> {
        if let Some(problem) = self.settings.problems.first() {
            return Err(problem.clone());
        }
        let backend = match CommandBackend::parse(&self.settings.backend) {
            Some(CommandBackend::Docker) => self.docker()?,
            Some(CommandBackend::Ssh) => self.ssh()?,
            Some(CommandBackend::Singularity) => self.singularity()?,
            Some(CommandBackend::Daytona) => self.daytona()?,
            Some(CommandBackend::Modal) => self.modal()?,
            Some(CommandBackend::Local) | None => {
                let (given, names) = (&self.settings.backend, CommandBackend::NAMES.join(", "));
                return Err(format!("terminal.backend is `{given}`; it can be one of {names}"));
            }
        };
        Ok(RemoteBackend { backend, credentials: self.credentials() })
    }

    /// Returns the notice the user sees at the start.
    pub(crate) fn notice(&self) -> String {
        let settings = self.settings;
        match CommandBackend::parse(&settings.backend) {
            Some(CommandBackend::Docker) => {
                format!("Commands and files: a container of {}", settings.docker_image)
            }
            Some(CommandBackend::Ssh) => {
                let name = |given: &Option<String>| given.clone().unwrap_or_else(|| "?".to_owned());
                format!("Commands and files: {}@{}", name(&settings.ssh_user), name(&settings.ssh_host))
            }
            _ => format!("Commands and files: {}", settings.backend),
        }
    }

    fn docker(&self) -> Result<Arc<dyn Backend>, String> {
        let settings = self.settings;
        let engine = DockerEngine::find(client_variables(&self.context.env), self.clock.clone())
            .map_err(|error| error.to_string())?;
        let options = DockerOptions {
            task: String::new(),
            image: settings.docker_image.clone(),
            directory: settings.cwd.clone(),
            mount: settings.docker_mount_cwd_to_workspace.then(|| self.host_folder()),
            sandboxes: self.sandboxes(),
            volumes: settings.docker_volumes.clone(),
            credentials: Vec::new(),
            exports: self.exports(&settings.docker_forward_env),
            limits: self.limits(),
            network: if settings.docker_network { ContainerNetwork::On } else { ContainerNetwork::Off },
            root: if settings.docker_read_only { RootFilesystem::ReadOnly } else { RootFilesystem::Writable },
            retention: self.retention(),
            bounds: OutputBounds::default(),
        };
        Ok(Arc::new(DockerBackend { engine, options }))
    }

    fn ssh(&self) -> Result<Arc<dyn Backend>, String> {
        let settings = self.settings;
        let options = SshOptions {
            host: settings.ssh_host.clone().unwrap_or_default(),
            user: settings.ssh_user.clone().unwrap_or_default(),
            port: settings.ssh_port,
            key: settings.ssh_key.as_deref().map(|key| self.expanded(key)),
            directory: settings.cwd.clone(),
            exports: ForwardedVariables::default(),
            known_hosts: None,
            temp: sandbox::temp_folder(self.context),
            bounds: OutputBounds::default(),
        };
        SshHost::new(options, client_variables(&self.context.env), self.clock.clone())
            .map(|host| Arc::new(host) as Arc<dyn Backend>)
            .map_err(|error| error.to_string())
    }

    fn singularity(&self) -> Result<Arc<dyn Backend>, String> {
        let (settings, env) = (self.settings, &self.context.env);
        let scratch = env.get("TERMINAL_SCRATCH_DIR").map(|folder| self.expanded(folder));
        let warning = env.number("TERMINAL_DISK_WARNING_GB").and_then(|gb| format!("{gb:.0}").parse().ok());
        let host = SingularityHostOptions {
            scratch: scratch_folder(scratch.as_deref(), env.get("USER"), &self.sandboxes()),
            cache: env.get("APPTAINER_CACHEDIR").map(PathBuf::from),
            records: self.context.home.join("singularity_snapshots.json"),
            disk_warning: warning.unwrap_or(DISK_WARNING_GB),
        };
        let host = SingularityHost::find(host, client_variables(&self.context.env), self.clock.clone())
            .map_err(|error| error.to_string())?;
        let options = SingularityOptions {
            task: String::new(),
            image: settings.singularity_image.clone(),
            directory: settings.cwd.clone(),
            exports: self.exports(&[]),
            limits: self.limits(),
            retention: self.retention(),
            bounds: OutputBounds::default(),
        };
        Ok(Arc::new(SingularityBackend { host, options }))
    }

    fn daytona(&self) -> Result<Arc<dyn Backend>, String> {
        let (settings, env) = (self.settings, &self.context.env);
        let key = Secret::new(env.get("DAYTONA_API_KEY").unwrap_or_default());
        let account =
            DaytonaAccount::new(self.client()?, env.get("DAYTONA_API_URL"), key, self.clock.clone())
                .map_err(|error| error.to_string())?;
        let options = DaytonaOptions {
            task: String::new(),
            image: settings.daytona_image.clone(),
            directory: settings.cwd.clone(),
            exports: self.exports(&[]),
            limits: self.limits(),
            retention: self.retention(),
            bounds: OutputBounds::default(),
        };
        Ok(Arc::new(DaytonaBackend { account, options }))
    }

    pub(super) fn client(&self) -> Result<HttpClient, String> {
        HttpClient::new(net_config(&self.context.env, &self.clock)).map_err(|error| error.to_string())
    }

    /// Returns the variables commands get: only those that are named. The process environment wins over `.env`.
    pub(super) fn exports(&self, more: &[String]) -> ForwardedVariables {
        let env = &self.context.env;
        let names = self.settings.env_passthrough.iter().chain(more).map(String::as_str);
        let live = |name: &str| env.shell_value(name).map(str::to_owned);
        ForwardedVariables::select(names, live, |name| env.get(name).map(str::to_owned))
    }

    fn credentials(&self) -> CredentialFiles {
        let credentials = CredentialFiles::new(self.context.home.path());
        for name in &self.settings.credential_files {
            if let Err(problem) = credentials.add(name) {
                tracing::warn!(problem, "terminal.credential_files");
            }
        }
        credentials
    }

    pub(super) fn limits(&self) -> ResourceLimits {
        let settings = self.settings;
        ResourceLimits {
            cpus: settings.container_cpu,
            memory_mb: settings.container_memory_mb,
            disk_mb: settings.container_disk_mb,
        }
    }

    pub(super) fn retention(&self) -> InstanceRetention {
        if self.settings.container_persistent {
            InstanceRetention::Persistent
        } else {
            InstanceRetention::Ephemeral
        }
    }

    fn sandboxes(&self) -> PathBuf {
        match self.settings.sandbox_dir.as_deref() {
            Some(folder) => self.expanded(folder),
            None => self.context.home.sandboxes(&self.context.env),
        }
    }

    /// Returns the user's home folder, for a container that mounts it.
    fn host_folder(&self) -> PathBuf {
        let named = self.settings.cwd.as_deref().map(|cwd| self.expanded(cwd));
        named.filter(|folder| folder.is_dir()).unwrap_or_else(|| self.folder.to_owned())
    }

    pub(super) fn expanded(&self, path: &str) -> PathBuf {
        expand_tilde(path, &self.context.env).unwrap_or_else(|_| PathBuf::from(path))
    }
}
