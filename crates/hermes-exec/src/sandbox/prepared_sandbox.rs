//! A conversation's limits, prepared for the kernel, and cached as long as the folders from which they were
//! derived do not change.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::allowed_paths::AllowedPaths;
use super::cache::cache_names;
use super::limits::SandboxLimits;
use super::{NetworkReach, Sandbox};

/// Limits how many are cached; a process works in few folders.
const MOST_KEPT: usize = 64;

/// The limits with the rules that enforce them.
#[derive(Debug)]
pub(super) struct PreparedSandbox {
    pub(super) limits: SandboxLimits,
    pub(super) openings: AllowedPaths,
    #[cfg(target_os = "linux")]
    pub(super) rules: Option<std::os::fd::OwnedFd>,
    /// The paths that mounts protect, where mounts are possible.
    #[cfg(target_os = "linux")]
    pub(super) protected: super::mounts::ProtectedPaths,
    /// The replacement of `/dev`, where mounts are possible.
    #[cfg(target_os = "linux")]
    pub(super) devices: Option<Arc<super::folder_view::FolderView>>,
    basis: SandboxFingerprint,
}

/// The device number, the inode number, and the time of the last change.
type ChangeStamp = (u64, u64, i64, i64);

/// The state of the file system from which the limits were derived.
#[derive(Debug, PartialEq, Eq)]
struct SandboxFingerprint {
    /// The folders, each with a stamp that changes when an entry is added or removed.
    folders: Vec<(PathBuf, Option<ChangeStamp>)>,
    /// The paths of which only the existence matters.
    present: Vec<(PathBuf, bool)>,
}

/// The cached sandboxes, by anchor.
pub(super) type PreparedCache = Mutex<HashMap<(PathBuf, NetworkReach), Arc<PreparedSandbox>>>;

impl Sandbox {
    /// Returns the limits of a conversation about the project that contains `anchor`.
    pub(super) fn prepared(&self, anchor: &Path) -> Result<Arc<PreparedSandbox>, String> {
        let key = (anchor.to_owned(), self.network_reach);
        let known = self.command_cache.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(known) = known.filter(|known| known.basis.is_current()) {
            return Ok(known);
        }
        let made = Arc::new(PreparedSandbox::make(self, anchor, &[])?);
        let mut kept = self.command_cache.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&made));
        Ok(made)
    }
}

impl PreparedSandbox {
    /// Prepares the limits. `extra` are further writable folders.
    pub(super) fn make(sandbox: &Sandbox, anchor: &Path, extra: &[PathBuf]) -> Result<Self, String> {
        let limits = SandboxLimits::of(anchor, &sandbox.paths, sandbox.network_reach);
        let mut openings = AllowedPaths::of(&limits, &sandbox.paths.temporary, sandbox.can_mount())?;
        openings.writable.extend(extra.iter().cloned());
        let basis = SandboxFingerprint::of(anchor, &limits, &openings);
        #[cfg(target_os = "linux")]
        let devices = {
            let make =
                || super::folder_view::FolderView::of_devices(&sandbox.paths.hermes_home.join("sandboxes"));
            let made = sandbox.can_mount().then(make).transpose();
            made.map_err(|error| format!("the devices of commands: {error}"))?
        };
        #[cfg(target_os = "linux")]
        let own_devices = devices.as_ref().map(super::folder_view::FolderView::copy);
        Ok(Self {
            #[cfg(target_os = "linux")]
            rules: super::is_possible()
                .then(|| super::landlock::rules(&openings, own_devices.as_deref()))
                .transpose()?,
            #[cfg(target_os = "linux")]
            protected: if sandbox.can_mount() {
                super::mounts::ProtectedPaths::of(&limits, &openings.masked_by_mounts)
            } else {
                super::mounts::ProtectedPaths::default()
            },
            #[cfg(target_os = "linux")]
            devices: devices.map(Arc::new),
            limits,
            openings,
            basis,
        })
    }

    /// Returns the limits alone, where no rules can be made: callers must check each path.
    pub(super) fn without_rules(sandbox: &Sandbox, anchor: &Path) -> Self {
        let limits = SandboxLimits::of(anchor, &sandbox.paths, sandbox.network_reach);
        let openings = AllowedPaths { writable: limits.writable.clone(), ..AllowedPaths::default() };
        let basis = SandboxFingerprint::of(anchor, &limits, &openings);
        Self {
            #[cfg(target_os = "linux")]
            rules: None,
            #[cfg(target_os = "linux")]
            protected: super::mounts::ProtectedPaths::default(),
            #[cfg(target_os = "linux")]
            devices: None,
            limits,
            openings,
            basis,
        }
    }

    /// Puts the calling thread under the rules permanently. Such a thread mounts nothing, so only the rules
    /// restrict it: they must not allow a whole folder and rely on mounts to hide the rest.
    #[cfg(target_os = "linux")]
    pub(super) fn enter_thread(&self) -> io::Result<()> {
        use std::os::fd::AsFd;
        match &self.rules {
            Some(rules) => super::landlock::enter(rules.as_fd()),
            None => Ok(()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn enter_thread(&self) -> io::Result<()> {
        Ok(())
    }
}

impl SandboxFingerprint {
    fn of(anchor: &Path, limits: &SandboxLimits, openings: &AllowedPaths) -> Self {
        let folders = limits.listed_folders.iter().chain(&openings.listed);
        let repositories = anchor.ancestors().map(|folder| folder.join(".git"));
        let caches = cache_names().iter().map(|name| limits.user_home.join(name));
        Self {
            folders: folders.map(|path| (path.clone(), stamp(path))).collect(),
            present: repositories.chain(caches).map(|path| (path.clone(), path.exists())).collect(),
        }
    }

    fn is_current(&self) -> bool {
        self.folders.iter().all(|(path, before)| stamp(path) == *before)
            && self.present.iter().all(|(path, before)| path.exists() == *before)
    }
}

/// Returns the stamp of a path. A process that changes a file cannot set the time of the change.
fn stamp(path: &Path) -> Option<ChangeStamp> {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}
