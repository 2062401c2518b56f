//! The sandbox that the operating system puts around a local command.
//!
//! Everything is readable but secret stores. The project, temporary folders, build caches and folders that
//! the user names are writable. The kernel enforces this for the command and all processes it starts:
//! Landlock restricts files (`landlock`), a filter restricts system calls (`seccomp`), and where the system
//! permits it, a mount namespace prevents writes to hooks (`mounts`). Files of a repository that make git run
//! programs are restored after the command where they changed (`repositories`). Landlock can only allow, so
//! where something within a folder is denied, its siblings are allowed one by one, or it is hidden by mounts
//! where there are many (`allowed_paths`). Refused operations are recognized from the command's error
//! messages (`refusal`).

mod access;
mod allowed_paths;
mod cache;
#[cfg(target_os = "linux")]
mod capabilities;
mod child_sandbox;
#[cfg(target_os = "linux")]
mod folder_view;
mod git;
mod handle;
#[cfg(target_os = "linux")]
mod landlock;
mod limits;
mod links;
#[cfg(target_os = "linux")]
mod mounts;
mod prepared_sandbox;
mod process_monitor;
mod refusal;
mod repositories;
mod rules;
#[cfg(target_os = "linux")]
mod seccomp;
mod secret;
#[cfg(target_os = "linux")]
mod sockets;
mod startup_files;
mod stores;
mod thread;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use access::SandboxAccess;
pub(crate) use child_sandbox::{ChildSandbox, ExpectedRuntime};
pub use limits::WriteRule;
use prepared_sandbox::PreparedCache;
pub(crate) use process_monitor::{BoundToParent, monitor};
pub use refusal::SandboxRefusal;
pub use thread::SandboxedThread;

/// The setting `terminal.sandbox`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxActivation {
    /// Commands run in a sandbox where the kernel supports it.
    #[default]
    Auto,
    /// Commands always run in a sandbox; where the kernel does not support it, they are not run.
    On,
    Off,
}

/// Limits the connections of a command: the setting `terminal.sandbox_network`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NetworkReach {
    #[default]
    Everywhere,
    /// Only connections to sockets that are files of this machine are allowed.
    ThisMachine,
}

/// The folders from which the sandbox is made.
#[derive(Debug, Clone, Default)]
pub struct SandboxPaths {
    pub user_home: PathBuf,
    pub hermes_home: PathBuf,
    /// The folders for temporary files.
    pub temporary: Vec<PathBuf>,
    /// The folders to which the user lets commands write.
    pub writable: Vec<PathBuf>,
    /// The folders in which programs are searched: the PATH.
    pub programs: Vec<PathBuf>,
}

/// Selects whether a sandbox may use mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MountPolicy {
    WherePossible,
    Never,
}

/// The degree to which a sandbox is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxState {
    Full,
    /// The sandbox is in force without the protection that mounts would add.
    Partial,
    Off,
}

/// Describes whether and how commands are sandboxed. Clones share their state.
#[derive(Debug, Clone)]
pub struct Sandbox {
    mode: SandboxActivation,
    network_reach: NetworkReach,
    mounting: MountPolicy,
    paths: Arc<SandboxPaths>,
    /// The prepared sandboxes for commands, and for threads.
    command_cache: Arc<PreparedCache>,
    thread_cache: Arc<PreparedCache>,
}

/// Describes how the sandbox affected a command that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxReport {
    pub refused: Option<SandboxRefusal>,
    /// The changes that the command made in a repository and that were undone.
    pub restored: Vec<String>,
}

impl SandboxReport {
    /// Returns the report as one line to append to an output.
    pub(crate) fn note(&self) -> Option<String> {
        let refused = self.refused.as_ref().map(|SandboxRefusal { path, rule, setting }| {
            let what = path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default();
            format!("{what}{rule}; {setting} would allow it")
        });
        let restored =
            (!self.restored.is_empty()).then(|| format!("put back as it was: {}", self.restored.join(", ")));
        let parts: Vec<String> = refused.into_iter().chain(restored).collect();
        (!parts.is_empty()).then(|| format!("\n[sandbox: {}]", parts.join("; ")))
    }
}

impl Sandbox {
    pub fn off() -> Self {
        Self::new(SandboxActivation::Off, SandboxPaths::default())
    }

    pub fn new(mode: SandboxActivation, places: SandboxPaths) -> Self {
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let places = SandboxPaths {
            user_home: real(places.user_home),
            hermes_home: real(places.hermes_home),
            temporary: places.temporary.into_iter().map(real).collect(),
            writable: places.writable.into_iter().map(real).collect(),
            programs: places.programs.into_iter().map(real).collect(),
        };
        let mounting = MountPolicy::WherePossible;
        Self {
            mode,
            network_reach: NetworkReach::default(),
            mounting,
            paths: Arc::new(places),
            command_cache: Arc::default(),
            thread_cache: Arc::default(),
        }
    }

    #[must_use]
    pub fn with_network_reach(self, reach: NetworkReach) -> Self {
        Self { network_reach: reach, ..self }
    }

    /// Returns a sandbox that uses no mounts, as on a system without user namespaces.
    #[must_use]
    pub fn without_mounts(self) -> Self {
        Self { mounting: MountPolicy::Never, command_cache: Arc::default(), ..self }
    }

    /// Tells whether the sandbox is in force without the protection that mounts would add.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_active() && !self.can_mount()
    }

    fn can_mount(&self) -> bool {
        self.mounting == MountPolicy::WherePossible && can_mount()
    }

    /// Tells whether this system supports sandboxes for commands.
    pub fn is_possible() -> bool {
        is_possible()
    }

    /// Returns a private folder that no sandboxed command can write to; `None` where there is no sandbox.
    pub(crate) fn private_folder(&self) -> Option<PathBuf> {
        use std::os::unix::fs::DirBuilderExt as _;
        let shelf = self.is_active().then(|| self.paths.hermes_home.join("sandboxes/shells"))?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&shelf).ok()?;
        Some(shelf)
    }

    pub(crate) fn is_active(&self) -> bool {
        self.mode != SandboxActivation::Off && is_possible()
    }

    /// Lets commands write to one more folder.
    #[must_use]
    pub(crate) fn with_temporary(self, folder: &Path) -> Self {
        let mut places = (*self.paths).clone();
        places.temporary.push(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
        Self { paths: Arc::new(places), command_cache: Arc::default(), thread_cache: Arc::default(), ..self }
    }

    /// Returns the degree to which the sandbox is in force, with a short description.
    pub fn state(&self) -> (SandboxState, &'static str) {
        match (self.mode, is_possible()) {
            (SandboxActivation::Off, _) => (SandboxState::Off, "switched off (`terminal.sandbox: off`)"),
            (SandboxActivation::Auto, false) => {
                (SandboxState::Off, "not possible: this kernel has no Landlock")
            }
            (SandboxActivation::On, false) => {
                (SandboxState::Off, "not possible: this kernel has no Landlock; no command is run")
            }
            (_, true) if self.is_partial() => (
                SandboxState::Partial,
                "in force, but weaker: without user namespaces sockets of other programs can be reached, and repositories are put back afterwards",
            ),
            (_, true) => (SandboxState::Full, "in force"),
        }
    }

    /// Returns a sentence for the user that says whether commands are sandboxed; `None` when the sandbox was
    /// switched off on purpose.
    pub(crate) fn notice(&self) -> Option<String> {
        let network = match self.network_reach {
            NetworkReach::Everywhere => "",
            NetworkReach::ThisMachine => ", have no network",
        };
        match (self.mode, is_possible()) {
            (SandboxActivation::Off, _) => None,
            (_, true) => {
                let weaker = if self.is_partial() { PARTIAL } else { "" };
                Some(format!(
                    "Commands run in a sandbox: they write only to the project, temporary folders and caches{network}, and \
                     cannot read secret stores. `hermes config set terminal.sandbox off` switches it off.{weaker}"
                ))
            }
            (SandboxActivation::Auto, false) => {
                Some("This kernel has no Landlock; commands run without a sandbox.".to_owned())
            }
            (SandboxActivation::On, false) => Some(REFUSED.to_owned()),
        }
    }

    /// Returns the sandbox for a command that starts in `directory`, in a conversation about the project that
    /// contains `anchor`. The directory does not affect what the command may write, because a model chooses
    /// it.
    pub(crate) fn for_command(
        &self,
        anchor: &Path,
        directory: &Path,
        stay: ExpectedRuntime,
    ) -> Result<Option<ChildSandbox>, String> {
        match (self.mode, is_possible()) {
            (SandboxActivation::Off, _) | (SandboxActivation::Auto, false) => return Ok(None),
            (SandboxActivation::On, false) => return Err(REFUSED.to_owned()),
            (_, true) => {}
        }
        // An error must refuse the command; otherwise a command could escape the sandbox by filling a folder
        // or a disk.
        ChildSandbox::build(self, anchor, directory, stay)
            .map(Some)
            .map_err(|reason| format!("no sandbox could be made: {reason}"))
    }
}

/// The text for a sandbox in which only the rules for files are in force.
const PARTIAL: &str = " It is weaker here: this system gives programs no user namespaces, so commands can reach sockets of \
                       other programs (the session bus, editors, tmux, ssh and gpg agents, Docker) and change modes and times \
                       of your files anywhere, and what they change in a repository's settings is put back afterwards \
                       instead of being prevented. Allowing unprivileged user \
                       namespaces (`kernel.unprivileged_userns_clone=1`, `kernel.apparmor_restrict_unprivileged_userns=0`) \
                       closes this.";

const REFUSED: &str =
    "`terminal.sandbox` is on, but this system has no Landlock; set it to auto or off to run commands";

/// Tells whether a command can have a mount namespace of its own.
#[cfg(target_os = "linux")]
fn can_mount() -> bool {
    mounts::Mounts::are_possible()
}

#[cfg(not(target_os = "linux"))]
fn can_mount() -> bool {
    false
}

#[cfg(target_os = "linux")]
fn is_possible() -> bool {
    landlock::is_possible()
}

#[cfg(not(target_os = "linux"))]
fn is_possible() -> bool {
    false
}
