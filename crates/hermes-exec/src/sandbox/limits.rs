//! The limits on what a conversation may read and write: one description for commands, scripts, file tools
//! and checkers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::cache::cache_names;
use super::git::is_control_file;
use super::rules::{DenyReason, PathRules};
use super::tree::{self, SubtreeAccess};
use super::{NetworkReach, SandboxPaths, secret};

/// The folders of programs and what they load, and file systems without ordinary files.
const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/boot", "/opt", "/dev", "/proc", "/sys",
    "/run",
];

/// The limits for an anchor, made from what the folders contain at that time.
#[derive(Debug)]
pub(super) struct SandboxLimits {
    pub(super) project: PathBuf,
    pub(super) user_home: PathBuf,
    pub(super) writable: Vec<PathBuf>,
    /// The writable folders that the user named.
    named: Vec<PathBuf>,
    /// The folders whose paths tools hand out: files there are changed without an approval.
    tool_folders: Vec<PathBuf>,
    pub(super) unreadable: PathRules,
    pub(super) unchangeable: PathRules,
    pub(super) network_reach: NetworkReach,
    /// The folders from whose entries the limits were derived.
    pub(super) listed_folders: BTreeSet<PathBuf>,
}

/// The rule for a write to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteRule {
    Allow,
    /// A person has to approve the write; holds the reason.
    Ask(String),
    /// The write is refused without a question; holds the reason.
    Deny(String),
}

impl SandboxLimits {
    pub(super) fn of(anchor: &Path, places: &SandboxPaths, network_reach: NetworkReach) -> Self {
        let project = tree::project_of(anchor, places);
        let unreadable = secret::unreadable(places, &project);
        let mut unchangeable = secret::unchangeable(places, &project);
        let writable = tree::writable_roots(&project, places);
        for name in cache_names() {
            unchangeable.open(super::refusal::resolve_links(&places.user_home.join(name)));
        }
        Self {
            user_home: places.user_home.clone(),
            writable,
            named: places.writable.clone(),
            tool_folders: secret::tool_writable_folders(places),
            unreadable: unreadable.rules,
            unchangeable,
            network_reach,
            listed_folders: unreadable.listed,
            project,
        }
    }

    /// Tells whether the project is the user's home itself.
    pub(super) fn is_home(&self) -> bool {
        self.project == self.user_home
    }

    /// Returns the paths that commands need, also where a folder around them cannot be listed.
    pub(super) fn known_paths(&self) -> Vec<PathBuf> {
        [&self.user_home, &self.project].into_iter().chain(&self.writable).cloned().collect()
    }

    /// Returns why a path may not be read; `None` where it may. Links must have been followed already.
    pub(super) fn unreadable_reason(&self, path: &Path) -> Option<DenyReason> {
        self.unreadable.reason(path)
    }

    /// Returns why a path may not be changed, whatever applies to the folder around it.
    pub(super) fn protected_reason(&self, path: &Path) -> Option<DenyReason> {
        match self.unchangeable.nearest(path) {
            Some((at, rule)) if rule.is_some() || !self.is_dot_entry(path) || self.is_dot_entry(at) => rule,
            _ => self.is_dot_entry(path).then_some("settings in a home folder are read by other programs"),
        }
    }

    /// Tells whether a path lies in a dot entry of the writable home.
    fn is_dot_entry(&self, path: &Path) -> bool {
        let first = |home: &Path| path.strip_prefix(home).ok()?.components().next();
        self.is_home()
            && first(&self.user_home)
                .is_some_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"."))
    }

    /// Returns the rule for a write by a tool. Links must have been followed already.
    pub(super) fn write_rule(&self, path: &Path) -> WriteRule {
        let within = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        // A user who names a folder of projects does not mean the files in it that git runs.
        let named_for_git = |root: &PathBuf| path.starts_with(root) && is_control_file(root);
        if is_control_file(path) && !self.named.iter().any(named_for_git) {
            return WriteRule::Deny("git runs what stands there outside the sandbox".to_owned());
        }
        if within(&self.named) {
            return WriteRule::Allow;
        }
        if let Some(reason) = self.protected_reason(path) {
            return WriteRule::Deny(reason.to_owned());
        }
        // Caches are filled by programs, not by tools.
        let in_cache = || cache_names().iter().any(|name| path.starts_with(self.user_home.join(name)));
        if within(&self.tool_folders) || within(&self.writable) && !in_cache() {
            return WriteRule::Allow;
        }
        if SYSTEM.iter().any(|folder| path.starts_with(folder)) {
            return WriteRule::Deny("it belongs to the system".to_owned());
        }
        WriteRule::Ask(format!(
            "it is outside the folders this conversation may write to ({})",
            self.project.display()
        ))
    }

    pub(super) fn read_access(&self, path: &Path) -> SubtreeAccess {
        part(&self.unreadable, path, self.unreadable_reason(path))
    }

    pub(super) fn write_access(&self, path: &Path) -> SubtreeAccess {
        if self.is_home() && path == self.user_home {
            return SubtreeAccess::Mixed;
        }
        part(&self.unchangeable, path, self.protected_reason(path))
    }
}

fn part(rules: &PathRules, path: &Path, reason: Option<DenyReason>) -> SubtreeAccess {
    match (rules.is_uniform(path), reason) {
        (false, _) => SubtreeAccess::Mixed,
        (true, None) => SubtreeAccess::Open,
        (true, Some(_)) => SubtreeAccess::Closed,
    }
}
