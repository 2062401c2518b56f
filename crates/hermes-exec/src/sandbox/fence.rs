//! The fence around one command.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_types::Finished;

use super::prepared::Prepared;
use super::repositories::Repositories;
use super::startup::Startup;
use super::{FenceReport, Sandbox, SandboxPlaces};
#[cfg(target_os = "linux")]
use super::{calls, landlock, mounts, powers};

/// A prepared fence; a child enters it between fork and exec.
#[derive(Debug)]
pub(crate) struct Fence {
    prepared: Arc<Prepared>,
    #[cfg(target_os = "linux")]
    mounts: Option<mounts::Mounts>,
    #[cfg(target_os = "linux")]
    filters: &'static [seccompiler::BpfProgram],
    places: Arc<SandboxPlaces>,
    directory: PathBuf,
    repositories: Arc<Repositories>,
    /// Where the user's home is open: what was not there before.
    startup: Option<Startup>,
}

/// How long a process is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Somebody waits for its end.
    Short,
    /// It runs on beside the conversation.
    Long,
}

impl Fence {
    pub(super) fn build(
        sandbox: &Sandbox,
        anchor: &Path,
        directory: &Path,
        stay: Stay,
    ) -> Result<Self, String> {
        let places = &sandbox.places;
        let prepared = sandbox.prepared(anchor)?;
        let repositories = Repositories::of(&prepared.limits, &places.temporary, &places.writable);
        repositories.begin();
        // Where the home is open as a whole, start-up files that were not there could be made.
        let open_home = prepared.openings.writable.iter().any(|part| places.user_home.starts_with(part));
        #[cfg(target_os = "linux")]
        let mounts = if sandbox.can_mount() {
            let git = repositories.folders();
            let kept = kept_in(&git, stay, &places.writable);
            let mounts = mounts::Mounts::around(
                directory,
                &prepared.limits,
                (&git, &kept),
                places,
                prepared.devices.clone(),
            );
            let keep = |mounts: mounts::Mounts| mounts.keeping(&prepared.limits, &places.hermes_home);
            if prepared.openings.covered.is_empty() {
                mounts
            } else {
                let kept = mounts.map(keep).transpose();
                kept.inspect_err(|_| repositories.end()).map_err(|error| error.to_string())?
            }
        } else {
            None
        };
        Ok(Self {
            #[cfg(target_os = "linux")]
            mounts,
            #[cfg(target_os = "linux")]
            filters: calls::filters(sandbox.reach),
            places: Arc::clone(places),
            directory: directory.to_owned(),
            repositories,
            startup: open_home.then(|| Startup::record(&prepared.limits, &places.programs)),
            prepared,
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
        if let Some(rules) = &self.prepared.rules {
            landlock::enter(rules.as_fd())?;
        }
        calls::enter(self.filters)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(())
    }

    /// Puts back what must not stay.
    pub(crate) fn sweep(&self) {
        self.repositories.sweep();
        if let Some(startup) = &self.startup {
            self.repositories.tell(startup.restore());
        }
    }

    /// What the fence had to do with a command that ended in `folder`. Puts back what must not stay.
    pub(crate) fn report(&self, finished: &Finished, folder: &Path) -> FenceReport {
        self.sweep();
        let restored = self.repositories.take_told();
        let refused = self.prepared.limits.explain(finished, &[&self.directory, folder], &self.places);
        FenceReport { refused, restored }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.repositories.end();
    }
}

/// More repositories than this are only put back, not kept from being written.
const MOST_MOUNTED: usize = 64;

/// What of these repositories can be read-only while a process runs. Git changes its settings in a day's work; one that runs on
/// beside the conversation has no need to.
fn kept_in(repositories: &[PathBuf], stay: Stay, allowed: &[PathBuf]) -> Vec<PathBuf> {
    let mut names = vec!["hooks", "info/attributes", "commondir", "gitdir"];
    if stay == Stay::Long {
        names.extend(["config", "config.worktree"]);
    }
    let nearest = repositories.iter().take(MOST_MOUNTED);
    let all = nearest.flat_map(|git| names.iter().map(move |name| git.join(name)));
    let real = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| !found.is_symlink());
    all.filter(|path| real(path) && !allowed.iter().any(|allowed| path.starts_with(allowed))).collect()
}
