//! The fence the operating system puts around a local command.
//!
//! Everything is readable but secret stores; writable are the project, temporary folders, build caches and what the user
//! names. The kernel enforces it, for the command and all it starts: Landlock says which files (`landlock`), a filter says
//! which system calls (`calls`), and a view of the folders of its own keeps hooks from being written (`mounts`), where the
//! system lets us. What in a repository makes git run programs is put back after the command where it changed
//! (`repository`). Landlock can only allow, so where something within a folder is kept out, its neighbours are let in one
//! by one, or hidden by mounts where there are many (`openings`). What was refused is read from the command's complaint (`refusal`).

mod access;
mod cache;
#[cfg(target_os = "linux")]
mod calls;
mod fence;
mod git;
mod handle;
#[cfg(target_os = "linux")]
mod landlock;
mod limits;
mod links;
#[cfg(target_os = "linux")]
mod mounts;
mod openings;
#[cfg(target_os = "linux")]
mod powers;
mod prepared;
mod refusal;
mod repositories;
mod rules;
mod secret;
mod sentinel;
#[cfg(target_os = "linux")]
mod sockets;
mod startup;
mod stores;
mod thread;
mod tree;
#[cfg(target_os = "linux")]
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use access::Access;
pub(crate) use fence::{Fence, Stay};
pub use limits::WriteRule;
use prepared::Kept;
pub use refusal::Refusal;
pub(crate) use sentinel::{Bound, follow};
pub use thread::FencedThread;

/// `terminal.sandbox`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxMode {
    /// Where the kernel can.
    #[default]
    Auto,
    /// Always; where the kernel cannot, commands are not run.
    On,
    Off,
}

/// How far a command's connections go: `terminal.sandbox_network`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Reach {
    #[default]
    Everywhere,
    /// Only to sockets that are files of this machine.
    ThisMachine,
}

/// What the fence must know.
#[derive(Debug, Clone, Default)]
pub struct SandboxPlaces {
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
enum Mounting {
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
    mode: SandboxMode,
    reach: Reach,
    mounting: Mounting,
    places: Arc<SandboxPlaces>,
    /// What was made ready for commands, and for threads.
    kept: Arc<Kept>,
    threads: Arc<Kept>,
}

/// What a fence had to do with a command that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FenceReport {
    pub refused: Option<Refusal>,
    /// What the command changed in a repository and was put back.
    pub restored: Vec<String>,
}

impl FenceReport {
    /// The same as one line behind an output.
    pub(crate) fn note(&self) -> Option<String> {
        let refused = self.refused.as_ref().map(|Refusal { path, rule, setting }| {
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
        Self::new(SandboxMode::Off, SandboxPlaces::default())
    }

    pub fn new(mode: SandboxMode, places: SandboxPlaces) -> Self {
        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let places = SandboxPlaces {
            user_home: real(places.user_home),
            hermes_home: real(places.hermes_home),
            temporary: places.temporary.into_iter().map(real).collect(),
            writable: places.writable.into_iter().map(real).collect(),
            programs: places.programs.into_iter().map(real).collect(),
        };
        let mounting = Mounting::WherePossible;
        Self {
            mode,
            reach: Reach::default(),
            mounting,
            places: Arc::new(places),
            kept: Arc::default(),
            threads: Arc::default(),
        }
    }

    #[must_use]
    pub fn reaching(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// Does without mounts, as a system without user namespaces has to.
    #[must_use]
    pub fn without_mounts(self) -> Self {
        Self { mounting: Mounting::Never, kept: Arc::default(), ..self }
    }

    /// Whether it is in force, but without what mounts would add.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_active() && !self.can_mount()
    }

    fn can_mount(&self) -> bool {
        self.mounting == Mounting::WherePossible && can_mount()
    }

    /// Whether this system can fence commands in.
    pub fn is_possible() -> bool {
        is_possible()
    }

    /// A private folder no fenced command can write to; nothing where there is no fence.
    pub(crate) fn shelf(&self) -> Option<PathBuf> {
        use std::os::unix::fs::DirBuilderExt as _;
        let shelf = self.is_active().then(|| self.places.hermes_home.join("sandboxes/shells"))?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&shelf).ok()?;
        Some(shelf)
    }

    pub(crate) fn is_active(&self) -> bool {
        self.mode != SandboxMode::Off && is_possible()
    }

    /// Lets commands write to one more folder.
    #[must_use]
    pub(crate) fn with_temporary(self, folder: &Path) -> Self {
        let mut places = (*self.places).clone();
        places.temporary.push(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
        Self { places: Arc::new(places), kept: Arc::default(), threads: Arc::default(), ..self }
    }

    /// How far it is in force, in a few words.
    pub fn state(&self) -> (SandboxState, &'static str) {
        match (self.mode, is_possible()) {
            (SandboxMode::Off, _) => (SandboxState::Off, "switched off (`terminal.sandbox: off`)"),
            (SandboxMode::Auto, false) => (SandboxState::Off, "not possible: this kernel has no Landlock"),
            (SandboxMode::On, false) => {
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
        let network = match self.reach {
            Reach::Everywhere => "",
            Reach::ThisMachine => ", have no network",
        };
        match (self.mode, is_possible()) {
            (SandboxMode::Off, _) => None,
            (_, true) => {
                let weaker = if self.is_partial() { PARTIAL } else { "" };
                Some(format!(
                    "Commands run in a sandbox: they write only to the project, temporary folders and caches{network}, and \
                     cannot read secret stores. `hermes config set terminal.sandbox off` switches it off.{weaker}"
                ))
            }
            (SandboxMode::Auto, false) => {
                Some("This kernel has no Landlock; commands run without a sandbox.".to_owned())
            }
            (SandboxMode::On, false) => Some(REFUSED.to_owned()),
        }
    }

    /// The fence for a command that starts in `directory`, in a conversation about the project `anchor` lies in. Where the
    /// command goes makes no difference to what it may write: a model chooses that.
    pub(crate) fn around(
        &self,
        anchor: &Path,
        directory: &Path,
        stay: Stay,
    ) -> Result<Option<Fence>, String> {
        match (self.mode, is_possible()) {
            (SandboxMode::Off, _) | (SandboxMode::Auto, false) => return Ok(None),
            (SandboxMode::On, false) => return Err(REFUSED.to_owned()),
            (_, true) => {}
        }
        // Without it, what fills a folder or a disk would be the way out.
        Fence::build(self, anchor, directory, stay)
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
