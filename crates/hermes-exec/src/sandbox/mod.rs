//! The fence the operating system puts around a local command.
//!
//! Everything is readable but secret stores; writable are the project, temporary folders, build caches and what the user
//! names. The kernel enforces it (Landlock), for the command and all it starts. Holds what is inside and outside; the
//! kernel's rules can only allow, so where something within a folder is kept out, its neighbours are let in one by one.

mod cache;
#[cfg(target_os = "linux")]
mod landlock;
mod secret;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_types::Finished;

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
    places: Arc<SandboxPlaces>,
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
        Self { mode, places: Arc::new(places) }
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
        match (self.mode, is_possible()) {
            (SandboxMode::Off, _) => None,
            (_, true) => Some(
                "Commands run in a sandbox: they write only to the project, temporary folders and caches, and cannot read \
                 secret stores. `hermes config set terminal.sandbox off` switches it off."
                    .to_owned(),
            ),
            (SandboxMode::Auto, false) => {
                Some("This kernel has no Landlock; commands run without a sandbox.".to_owned())
            }
            (SandboxMode::On, false) => Some(REFUSED.to_owned()),
        }
    }

    /// The fence for a command that starts in `directory`.
    pub(crate) fn around(&self, directory: &Path) -> Result<Option<Fence>, String> {
        match (self.mode, is_possible()) {
            (SandboxMode::Off, _) | (SandboxMode::Auto, false) => return Ok(None),
            (SandboxMode::On, false) => return Err(REFUSED.to_owned()),
            (_, true) => {}
        }
        match Fence::build(&self.places, directory) {
            Ok(fence) => Ok(Some(fence)),
            Err(reason) if self.mode == SandboxMode::Auto => {
                tracing::warn!(%reason, "no sandbox could be made; the command runs without one");
                Ok(None)
            }
            Err(reason) => Err(reason),
        }
    }
}

const REFUSED: &str =
    "`terminal.sandbox` is on, but this system has no Landlock; set it to auto or off to run commands";

/// A prepared fence; a child enters it between fork and exec.
#[derive(Debug)]
pub(crate) struct Fence {
    #[cfg(target_os = "linux")]
    rules: std::os::fd::OwnedFd,
    /// Where the command may write, for explaining a refusal.
    project: PathBuf,
}

impl Fence {
    #[cfg(target_os = "linux")]
    fn build(places: &SandboxPlaces, directory: &Path) -> Result<Self, String> {
        let project = tree::project_of(directory, places);
        let rules = landlock::rules(places, &project)?;
        Ok(Self { rules, project })
    }

    #[cfg(not(target_os = "linux"))]
    fn build(_: &SandboxPlaces, directory: &Path) -> Result<Self, String> {
        Ok(Self { project: directory.to_owned() })
    }

    /// Makes system calls only: it runs in a forked child.
    #[cfg(target_os = "linux")]
    pub(crate) fn enter(&self) -> io::Result<()> {
        use std::os::fd::AsFd;
        landlock::enter(self.rules.as_fd())
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(())
    }

    /// Words for a failure that the fence may have caused.
    pub(crate) fn explain(&self, finished: &Finished) -> Option<String> {
        const SIGNS: &[&str] =
            &["Permission denied", "Operation not permitted", "EACCES", "EPERM", "no new privileges"];
        if finished.exit_code == 0 || !SIGNS.iter().any(|sign| finished.output.contains(sign)) {
            return None;
        }
        Some(format!(
            "\n[sandbox: commands may write only below {}, in temporary folders and build caches, cannot read secret stores \
             such as ~/.ssh, and cannot use sudo. If this refusal is due to that, work inside these folders, use the file \
             tools, or ask the user to set `terminal.sandbox` to off.]",
            self.project.display()
        ))
    }
}

#[cfg(target_os = "linux")]
fn is_possible() -> bool {
    landlock::is_possible()
}

#[cfg(not(target_os = "linux"))]
fn is_possible() -> bool {
    false
}
