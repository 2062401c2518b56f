//! A conversation's limits, made ready for the kernel, and kept as long as the folders they follow from do not change.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::allowed_paths::AllowedPaths;
use super::cache::cache_names;
use super::limits::SandboxLimits;
use super::{NetworkReach, Sandbox};

/// So many are kept; a process works in few folders.
const MOST_KEPT: usize = 64;

/// Limits with the rules that enforce them.
#[derive(Debug)]
pub(super) struct PreparedSandbox {
    pub(super) limits: SandboxLimits,
    pub(super) openings: AllowedPaths,
    #[cfg(target_os = "linux")]
    pub(super) rules: Option<std::os::fd::OwnedFd>,
    /// What stands in for `/dev`, where mounts are possible.
    #[cfg(target_os = "linux")]
    pub(super) devices: Option<Arc<super::folder_view::FolderView>>,
    basis: SandboxFingerprint,
}

/// Device, number, and when the last change was.
type ChangeStamp = (u64, u64, i64, i64);

/// What was seen when it was made.
#[derive(Debug, PartialEq, Eq)]
struct SandboxFingerprint {
    /// Folders, each with what changes when an entry comes or goes.
    folders: Vec<(PathBuf, Option<ChangeStamp>)>,
    /// Paths of which only counts whether they are there.
    present: Vec<(PathBuf, bool)>,
}

/// Those made so far, by anchor.
pub(super) type PreparedCache = Mutex<HashMap<(PathBuf, NetworkReach), Arc<PreparedSandbox>>>;

impl Sandbox {
    /// The limits of a conversation about the project `anchor` lies in.
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
    /// `extra` are folders that may be written to besides.
    pub(super) fn make(sandbox: &Sandbox, anchor: &Path, extra: &[PathBuf]) -> Result<Self, String> {
        let limits = SandboxLimits::of(anchor, &sandbox.paths, sandbox.network_reach);
        let mut openings = AllowedPaths::of(&limits, sandbox.can_mount())?;
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
            devices: devices.map(Arc::new),
            limits,
            openings,
            basis,
        })
    }

    /// The limits alone, where no rules can be made: whoever uses them must check each path.
    pub(super) fn without_rules(sandbox: &Sandbox, anchor: &Path) -> Self {
        let limits = SandboxLimits::of(anchor, &sandbox.paths, sandbox.network_reach);
        let openings = AllowedPaths { writable: limits.writable.clone(), ..AllowedPaths::default() };
        let basis = SandboxFingerprint::of(anchor, &limits, &openings);
        Self {
            #[cfg(target_os = "linux")]
            rules: None,
            #[cfg(target_os = "linux")]
            devices: None,
            limits,
            openings,
            basis,
        }
    }

    /// Puts the calling thread within the rules, for good. For a thread that mounts nothing, so only the rules keep it in: they
    /// must not let in a whole folder for a mount to cover the rest.
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

/// The time of the last change cannot be set by whoever made it.
fn stamp(path: &Path) -> Option<ChangeStamp> {
    let found = path.symlink_metadata().ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}
