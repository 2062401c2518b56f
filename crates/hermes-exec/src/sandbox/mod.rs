//! The fence the operating system puts around a local command.
//!
//! Everything is readable but secret stores; writable are the project, temporary folders, build caches and what the user
//! names. The kernel enforces it, for the command and all it starts: Landlock says which files (`landlock`), a filter says
//! which system calls (`calls`), and a view of the folders of its own keeps hooks from being written (`mounts`), where the
//! system lets us. What in a repository makes git run programs is put back after the command where it changed
//! (`repository`). Landlock can only allow, so where something within a folder is kept out, its neighbours are let in one
//! by one, or hidden by mounts where there are many (`openings`). What was refused is read from the command's complaint (`refusal`).

mod cache;
#[cfg(target_os = "linux")]
mod calls;
mod git_config;
mod handle;
mod keeps;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod mounts;
mod openings;
#[cfg(target_os = "linux")]
mod powers;
mod refusal;
mod repository;
mod secret;
mod startup;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_types::Finished;

use openings::Openings;
use refusal::Limits;
pub use refusal::Refusal;
use repository::Repository;
use startup::Startup;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
}

/// Whether and how commands are fenced in. Clones are the same.
#[derive(Debug, Clone)]
pub struct Sandbox {
    mode: SandboxMode,
    reach: Reach,
    places: Arc<SandboxPlaces>,
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
        };
        Self { mode, reach: Reach::default(), places: Arc::new(places) }
    }

    #[must_use]
    pub fn reaching(self, reach: Reach) -> Self {
        Self { reach, ..self }
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
        Self { places: Arc::new(places), ..self }
    }

    /// Whether commands are fenced in, in a sentence for the user; none when it was switched off on purpose.
    pub(crate) fn notice(&self) -> Option<String> {
        let network = match self.reach {
            Reach::Everywhere => "",
            Reach::ThisMachine => ", have no network",
        };
        match (self.mode, is_possible()) {
            (SandboxMode::Off, _) => None,
            (_, true) => Some(format!(
                "Commands run in a sandbox: they write only to the project, temporary folders and caches{network}, and \
                 cannot read secret stores. `hermes config set terminal.sandbox off` switches it off."
            )),
            (SandboxMode::Auto, false) => {
                Some("This kernel has no Landlock; commands run without a sandbox.".to_owned())
            }
            (SandboxMode::On, false) => Some(REFUSED.to_owned()),
        }
    }

    /// The fence for a command that starts in `directory`, in a conversation about the project `anchor` lies in. Where the
    /// command goes makes no difference to what it may write: a model chooses that.
    pub(crate) fn around(&self, anchor: &Path, directory: &Path) -> Result<Option<Fence>, String> {
        match (self.mode, is_possible()) {
            (SandboxMode::Off, _) | (SandboxMode::Auto, false) => return Ok(None),
            (SandboxMode::On, false) => return Err(REFUSED.to_owned()),
            (_, true) => {}
        }
        // Without it, what fills a folder or a disk would be the way out.
        Fence::build(self, anchor, directory)
            .map(Some)
            .map_err(|reason| format!("no sandbox could be made: {reason}"))
    }
}

const REFUSED: &str =
    "`terminal.sandbox` is on, but this system has no Landlock; set it to auto or off to run commands";

/// A prepared fence; a child enters it between fork and exec.
#[derive(Debug)]
pub(crate) struct Fence {
    #[cfg(target_os = "linux")]
    rules: std::os::fd::OwnedFd,
    #[cfg(target_os = "linux")]
    mounts: Option<mounts::Mounts>,
    #[cfg(target_os = "linux")]
    filters: &'static [seccompiler::BpfProgram],
    places: Arc<SandboxPlaces>,
    directory: PathBuf,
    limits: Limits,
    repositories: Vec<Repository>,
    /// Where the user's home is open: what was not there before.
    startup: Option<Startup>,
}

impl Fence {
    fn build(sandbox: &Sandbox, anchor: &Path, directory: &Path) -> Result<Self, String> {
        let places = &sandbox.places;
        let project = tree::project_of(anchor, places);
        let guarded = tree::repositories_in(&project, &places.writable);
        let limits = Limits {
            writable: tree::writable_roots(&project, places),
            unreadable: secret::unreadable(places),
            unchangeable: secret::unchangeable(places, &project),
            hooks: guarded.iter().map(|(_, git)| git.join("hooks")).collect(),
            reach: sandbox.reach,
        };
        let whole = (project == places.user_home).then_some(project.as_path());
        let openings = Openings::of(&limits, whole, can_mount())?;
        // Where the home is open as a whole, start-up files that were not there could be made.
        let open_home = openings.writable.iter().any(|part| places.user_home.starts_with(part));
        #[cfg(target_os = "linux")]
        let mounts = {
            let git: Vec<PathBuf> = guarded.iter().map(|(_, git)| git.clone()).collect();
            let keep = |mounts: mounts::Mounts| {
                let home = &places.hermes_home;
                mounts.keeping(&limits.unreadable, &limits.unchangeable, &limits.writable, home)
            };
            let mounts = mounts::Mounts::around(directory, &limits.writable, &git, &places.writable);
            if openings.covered.is_empty() {
                mounts
            } else {
                mounts.map(keep).transpose().map_err(|error| error.to_string())?
            }
        };
        Ok(Self {
            #[cfg(target_os = "linux")]
            rules: landlock::rules(&openings)?,
            #[cfg(target_os = "linux")]
            mounts,
            #[cfg(target_os = "linux")]
            filters: calls::filters(sandbox.reach),
            places: Arc::clone(places),
            directory: directory.to_owned(),
            limits,
            repositories: guarded
                .iter()
                .filter_map(|(project, git)| Repository::record(project, git))
                .collect(),
            startup: open_home.then(|| Startup::record(&places.user_home)),
        })
    }

    /// Makes system calls only: it runs in a forked child.
    #[cfg(target_os = "linux")]
    pub(crate) fn enter(&self) -> io::Result<()> {
        use std::os::fd::AsFd;
        if let Some(mounts) = &self.mounts {
            mounts.enter()?;
        }
        powers::drop_all();
        landlock::enter(self.rules.as_fd())?;
        calls::enter(self.filters)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(())
    }

    /// What the fence had to do with a command that ended in `folder`. Puts back what must not stay.
    pub(crate) fn report(&self, finished: &Finished, folder: &Path) -> FenceReport {
        let mut restored: Vec<String> = self.repositories.iter().flat_map(Repository::restore).collect();
        restored.extend(self.startup.iter().flat_map(Startup::restore));
        let refused = self.limits.explain(finished, &[&self.directory, folder], &self.places);
        FenceReport { refused, restored }
    }
}

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
