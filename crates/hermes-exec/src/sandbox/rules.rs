//! Rules that open or close paths; the nearest rule above a path applies.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The reason why a path is closed, in a few words.
pub(super) type DenyReason = &'static str;

/// Rules for subtrees. A rule deeper in the tree overrides those above it.
#[derive(Debug, Default)]
pub(super) struct PathRules {
    rules: HashMap<PathBuf, Option<DenyReason>>,
    /// The folders that contain a path with a rule of its own.
    above: HashSet<PathBuf>,
}

/// A closed path, with the open paths within it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClosedPath {
    pub(super) path: PathBuf,
    openings: Vec<PathBuf>,
}

impl ClosedPath {
    /// Returns the open paths within it that exist.
    pub(super) fn present_openings(&self) -> impl Iterator<Item = &PathBuf> {
        self.openings.iter().filter(|path| path.symlink_metadata().is_ok())
    }
}

impl PathRules {
    /// Closes a subtree. The first reason given for a path stays.
    pub(super) fn close(&mut self, path: PathBuf, reason: DenyReason) {
        self.note(&path);
        self.rules.entry(path).or_insert(Some(reason));
    }

    /// Opens a subtree, whatever rule that very path had before.
    pub(super) fn open(&mut self, path: PathBuf) {
        self.note(&path);
        self.rules.insert(path, None);
    }

    /// Returns the nearest rule, with the path that has it.
    pub(super) fn nearest<'a>(&self, path: &'a Path) -> Option<(&'a Path, Option<DenyReason>)> {
        path.ancestors().find_map(|above| self.rules.get(above).map(|rule| (above, *rule)))
    }

    /// Returns why a path is closed; `None` where it is open.
    pub(super) fn reason(&self, path: &Path) -> Option<DenyReason> {
        self.nearest(path).and_then(|(_, rule)| rule)
    }

    /// Tells whether the rule for a path applies to everything below it.
    pub(super) fn is_uniform(&self, path: &Path) -> bool {
        !self.above.contains(path)
    }

    /// Returns the closed paths below these folders, without those in closed ones, whether they exist or not.
    pub(super) fn closed_below(&self, folders: &[PathBuf]) -> Vec<ClosedPath> {
        let is_below = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
        let outermost = |path: &Path| path.parent().is_none_or(|parent| self.reason(parent).is_none());
        let closed =
            self.rules.iter().filter(|(path, rule)| rule.is_some() && is_below(path) && outermost(path));
        let mut found: Vec<ClosedPath> = closed
            .map(|(path, _)| ClosedPath { path: path.clone(), openings: self.openings_in(path) })
            .collect();
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }

    /// Returns the open paths within a closed one.
    fn openings_in(&self, closed: &Path) -> Vec<PathBuf> {
        if self.is_uniform(closed) {
            return Vec::new();
        }
        let open = self.rules.iter().filter(|(path, rule)| rule.is_none() && path.starts_with(closed));
        let mut found: Vec<PathBuf> = open.map(|(path, _)| path.clone()).collect();
        found.sort();
        found
    }

    fn note(&mut self, path: &Path) {
        for above in path.ancestors().skip(1) {
            if !self.above.insert(above.to_owned()) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rule_counts() {
        let mut rules = PathRules::default();
        rules.close("/home/u/.hermes".into(), "hermes");
        rules.open("/home/u/.hermes/skills".into());
        rules.close("/home/u/.hermes/skills/.hub".into(), "hub");
        for (path, reason) in [
            ("/home/u", None),
            ("/home/u/.hermes", Some("hermes")),
            ("/home/u/.hermes/sessions/a", Some("hermes")),
            ("/home/u/.hermes/skills/x/SKILL.md", None),
            ("/home/u/.hermes/skills/.hub/x", Some("hub")),
            ("/home/u/.hermes2", None),
        ] {
            assert_eq!(rules.reason(Path::new(path)), reason, "{path}");
        }
        for (path, uniform) in
            [("/", false), ("/home/u/.hermes", false), ("/home/u/.hermes/sessions", true), ("/etc", true)]
        {
            assert_eq!(rules.is_uniform(Path::new(path)), uniform, "{path}");
        }
    }
}
