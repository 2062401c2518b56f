//! What a conversation may read and write: the one description that commands, scripts, file tools and checkers are held to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::cache::cache_names;
use super::git::is_control_file;
use super::rules::{DenyReason, PathRules};
use super::tree::{self, SubtreeAccess};
use super::{NetworkReach, SandboxPaths, secret};

/// Where programs and what they load lie, and what is no file.
const SYSTEM: &[&str] = &[
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/boot", "/opt", "/dev", "/proc", "/sys",
    "/run",
];

/// Made for an anchor, from what the folders hold at that moment.
#[derive(Debug)]
pub(super) struct SandboxLimits {
    pub(super) project: PathBuf,
    pub(super) user_home: PathBuf,
    pub(super) writable: Vec<PathBuf>,
    /// Of these, what the user named.
    named: Vec<PathBuf>,
    /// Where tools hand out paths: files there are changed without a question.
    tool_folders: Vec<PathBuf>,
    pub(super) unreadable: PathRules,
    pub(super) unchangeable: PathRules,
    pub(super) network_reach: NetworkReach,
    /// Folders whose listing this follows from.
    pub(super) listed_folders: BTreeSet<PathBuf>,
}

/// What becomes of a write to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteRule {
    Allow,
    /// A person has to agree; why.
    Ask(String),
    /// Nobody is asked; why.
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

    /// Whether the project is the user's home itself.
    pub(super) fn is_home(&self) -> bool {
        self.project == self.user_home
    }

    /// Why a path may not be read; nothing where it may. Links must be followed already.
    pub(super) fn unreadable_reason(&self, path: &Path) -> Option<DenyReason> {
        self.unreadable.reason(path)
    }

    /// Why a path may not be changed whatever lies around it.
    pub(super) fn protected_reason(&self, path: &Path) -> Option<DenyReason> {
        match self.unchangeable.nearest(path) {
            Some((at, rule)) if rule.is_some() || !self.is_dot_entry(path) || self.is_dot_entry(at) => rule,
            _ => self.is_dot_entry(path).then_some("settings in a home folder are read by other programs"),
        }
    }

    /// Whether a path lies in an entry of the open home whose name begins with a dot.
    fn is_dot_entry(&self, path: &Path) -> bool {
        let first = |home: &Path| path.strip_prefix(home).ok()?.components().next();
        self.is_home()
            && first(&self.user_home)
                .is_some_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"."))
    }

    /// What becomes of a write by a tool. Links must be followed already.
    pub(super) fn write_rule(&self, path: &Path) -> WriteRule {
        let within = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        // Who names a folder of projects does not mean what git runs from them.
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
        // Caches are for programs that fill them.
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
