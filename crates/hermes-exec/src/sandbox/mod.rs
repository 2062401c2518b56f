//! The fence the operating system puts around a local command.
//!
//! Everything is readable but secret stores; writable are the project, temporary folders, build caches and what the user
//! names. The kernel enforces it, for the command and all it starts: Landlock says which files (`landlock`), a filter says
//! which system calls (`calls`), and a view of the folders of its own keeps hooks from being written (`mounts`), where the
//! system lets us. What in a repository makes git run programs is put back after the command where it changed
//! (`repository`). Landlock can only allow, so where something within a folder is kept out, its neighbours are let in one
//! by one, or hidden by mounts where there are many (`openings`). What was refused is read from the command's complaint (`refusal`).

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

/// `terminal.sandbox`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxActivation {
    /// Where the kernel can.
    #[default]
    Auto,
    /// Always; where the kernel cannot, commands are not run.
    On,
    Off,
}

/// How far a command's connections go: `terminal.sandbox_network`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NetworkReach {
    #[default]
    Everywhere,
    /// Only to sockets that are files of this machine.
    ThisMachine,
}

/// What the fence must know.
#[derive(Debug, Clone, Default)]
pub struct SandboxPaths {
    pub user_home: PathBuf,
    pub hermes_home: PathBuf,
    /// Folders for temporary files.
    pub temporary: Vec<PathBuf>,
    /// Folders the user lets commands write to.
    pub writable: Vec<PathBuf>,
    /// Folders programs are looked for in: the PATH.
    pub programs: Vec<PathBuf>,
}

/// Whether a fence may use mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MountPolicy {
    WherePossible,
    Never,
}

/// How far a sandbox is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxState {
    Full,
    /// Without what mounts would add.
    Partial,
    Off,
}

/// Whether and how commands are fenced in. Clones are the same.
#[derive(Debug, Clone)]
pub struct Sandbox {
    mode: SandboxActivation,
    network_reach: NetworkReach,
    mounting: MountPolicy,
    paths: Arc<SandboxPaths>,
    /// What was made ready for commands, and for threads.
    command_cache: Arc<PreparedCache>,
    thread_cache: Arc<PreparedCache>,
}

/// What a fence had to do with a command that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxReport {
    pub refused: Option<SandboxRefusal>,
    /// What the command changed in a repository and was put back.
    pub restored: Vec<String>,
}

impl SandboxReport {
    /// The same as one line behind an output.
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

    /// Does without mounts, as a system without user namespaces has to.
    #[must_use]
    pub fn without_mounts(self) -> Self {
        Self { mounting: MountPolicy::Never, command_cache: Arc::default(), ..self }
    }

    /// Whether it is in force, but without what mounts would add.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_active() && !self.can_mount()
    }

    fn can_mount(&self) -> bool {
        self.mounting == MountPolicy::WherePossible && can_mount()
    }

    /// Whether this system can fence commands in.
    pub fn is_possible() -> bool {
        is_possible()
    }

    /// A private folder no fenced command can write to; nothing where there is no fence.
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

    /// How far it is in force, in a few words.
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

    /// Whether commands are fenced in, in a sentence for the user; none when it was switched off on purpose.
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

    /// The fence for a command that starts in `directory`, in a conversation about the project `anchor` lies in. Where the
    /// command goes makes no difference to what it may write: a model chooses that.
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
        // Without it, what fills a folder or a disk would be the way out.
        ChildSandbox::build(self, anchor, directory, stay)
            .map(Some)
            .map_err(|reason| format!("no sandbox could be made: {reason}"))
    }
}

/// What is said where only the rules for files hold.
const PARTIAL: &str = " It is weaker here: this system gives programs no user namespaces, so commands can reach sockets of \
                       other programs (the session bus, editors, tmux, ssh and gpg agents, Docker), and what they change in \
                       a repository's settings is put back afterwards instead of being prevented. Allowing unprivileged user \
                       namespaces (`kernel.unprivileged_userns_clone=1`, `kernel.apparmor_restrict_unprivileged_userns=0`) \
                       closes this.";

const REFUSED: &str =
    "`terminal.sandbox` is on, but this system has no Landlock; set it to auto or off to run commands";

/// Whether a command can have a view of the folders of its own.
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
