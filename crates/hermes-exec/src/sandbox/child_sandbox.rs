//! The sandbox of one command.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_types::CommandOutput;

use super::prepared_sandbox::PreparedSandbox;
use super::repositories::Repositories;
use super::startup_files::StartupFiles;
use super::{Sandbox, SandboxPaths, SandboxReport};
#[cfg(target_os = "linux")]
use super::{capabilities, landlock, mounts, seccomp};

/// A prepared sandbox; a child enters it between fork and exec.
#[derive(Debug)]
pub(crate) struct ChildSandbox {
    prepared: Arc<PreparedSandbox>,
    #[cfg(target_os = "linux")]
    mounts: Option<mounts::Mounts>,
    #[cfg(target_os = "linux")]
    filters: &'static [seccompiler::BpfProgram],
    paths: Arc<SandboxPaths>,
    directory: PathBuf,
    repositories: Arc<Repositories>,
    /// The start-up files that did not exist before the command, where the user's home is writable.
    startup: Option<StartupFiles>,
}

/// The expected lifetime of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedRuntime {
    /// A caller waits until the process exits.
    Short,
    /// The process runs on in the background.
    Long,
}

impl ChildSandbox {
    pub(super) fn build(
        sandbox: &Sandbox,
        anchor: &Path,
        directory: &Path,
        stay: ExpectedRuntime,
    ) -> Result<Self, String> {
        let places = &sandbox.paths;
        let prepared = sandbox.prepared(anchor)?;
        let repositories = Repositories::of(&prepared.limits, &places.temporary, &places.writable);
        repositories.process_started();
        // Where the whole home is writable, start-up files that did not exist could be created.
        let open_home = prepared.openings.writable.iter().any(|part| places.user_home.starts_with(part));
        #[cfg(target_os = "linux")]
        let mounts = if sandbox.can_mount() {
            let git = repositories.folders();
            let kept = read_only_paths(&git, stay, &places.writable);
            let mounts = mounts::Mounts::around(
                directory,
                &prepared.limits,
                (&git, &kept),
                places,
                prepared.devices.clone(),
            );
            let protect = |mounts: mounts::Mounts| {
                mounts.with_protected_paths(&prepared.limits, &prepared.protected, &places.hermes_home)
            };
            if prepared.openings.masked_by_mounts.is_empty() {
                mounts
            } else {
                let protected = mounts.map(protect).transpose();
                protected.inspect_err(|_| repositories.process_ended()).map_err(|error| error.to_string())?
            }
        } else {
            None
        };
        Ok(Self {
            #[cfg(target_os = "linux")]
            mounts,
            #[cfg(target_os = "linux")]
            filters: seccomp::filters(sandbox.network_reach),
            paths: Arc::clone(places),
            directory: directory.to_owned(),
            repositories,
            startup: open_home.then(|| StartupFiles::record(&prepared.limits, &places.programs)),
            prepared,
        })
    }

    /// Puts the calling process into the sandbox. Makes only system calls, because it runs in a forked child.
    #[cfg(target_os = "linux")]
    pub(crate) fn enter(&self) -> io::Result<()> {
        use std::os::fd::AsFd;
        if let Some(mounts) = &self.mounts {
            mounts.enter()?;
        }
        capabilities::drop_all();
        if let Some(rules) = &self.prepared.rules {
            landlock::enter(rules.as_fd())?;
        }
        seccomp::enter(self.filters)
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(())
    }

    /// Restores protected files that were changed.
    pub(crate) fn restore_protected_files(&self) {
        self.repositories.restore();
        if let Some(startup) = &self.startup {
            self.repositories.queue_notices(startup.restore());
        }
    }

    /// Reports how the sandbox affected a command that ended in `folder`. Restores protected files that were
    /// changed.
    pub(crate) fn report(&self, finished: &CommandOutput, folder: &Path) -> SandboxReport {
        self.restore_protected_files();
        let restored = self.repositories.take_notices();
        let refused = self.prepared.limits.explain(finished, &[&self.directory, folder], &self.paths);
        SandboxReport { refused, restored }
    }
}

impl Drop for ChildSandbox {
    fn drop(&mut self) {
        self.repositories.process_ended();
    }
}

/// The number of repositories up to which files are mounted read-only; in further ones they are only
/// restored.
const MOST_MOUNTED: usize = 64;

/// Returns the paths of these repositories that can be read-only while a process runs. Git changes its
/// settings in ordinary work; a background process has no need to.
fn read_only_paths(repositories: &[PathBuf], stay: ExpectedRuntime, allowed: &[PathBuf]) -> Vec<PathBuf> {
    let mut names = vec!["hooks", "info/attributes", "commondir", "gitdir"];
    if stay == ExpectedRuntime::Long {
        names.extend(["config", "config.worktree"]);
    }
    let nearest = repositories.iter().take(MOST_MOUNTED);
    let all = nearest.flat_map(|git| names.iter().map(move |name| git.join(name)));
    let real = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| !found.is_symlink());
    all.filter(|path| real(path) && !allowed.iter().any(|allowed| path.starts_with(allowed))).collect()
}
