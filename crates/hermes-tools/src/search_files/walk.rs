//! Every file a search may look at, in the order of their paths.

use std::path::PathBuf;

use hermes_types::Cancel;
use ignore::WalkBuilder;

use super::Query;
use crate::file::{FileGuard, Refusal, real_path};

/// A search ends after so many files, so that one over the whole disk does end.
pub(super) const MOST_FILES: usize = 300_000;

/// Goes through the files; counts those it leaves out for what they may hold.
pub(super) struct Walk<'a> {
    entries: ignore::Walk,
    query: &'a Query,
    guard: &'a FileGuard,
    cancel: &'a Cancel,
    real_root: PathBuf,
    seen: usize,
    pub(super) omitted: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(query: &'a Query, guard: &'a FileGuard, cancel: &'a Cancel) -> Self {
        let entries =
            WalkBuilder::new(&query.root).require_git(false).sort_by_file_path(std::path::Path::cmp).build();
        let real_root = real_path(&query.root);
        Self { entries, query, guard, cancel, real_root, seen: 0, omitted: 0 }
    }

    /// What to tell the model when it ended before the last file.
    pub(super) fn cut_short(&self) -> Option<String> {
        if self.cancel.is_cancelled() {
            return Some("The search was interrupted; there may be more.".to_owned());
        }
        (self.seen >= MOST_FILES)
            .then(|| format!("The search ended after {MOST_FILES} files; give a narrower path."))
    }
}

impl Iterator for Walk<'_> {
    type Item = PathBuf;

    fn next(&mut self) -> Option<PathBuf> {
        loop {
            if self.cancel.is_cancelled() || self.seen >= MOST_FILES {
                return None;
            }
            let Ok(entry) = self.entries.next()? else { continue };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            self.seen += 1;
            let path = entry.into_path();
            let name = path.file_name().unwrap_or_default();
            if self.query.glob.as_ref().is_some_and(|glob| !glob.is_match(name) && !glob.is_match(&path)) {
                continue;
            }
            // Links inside are not followed, so the real path is the real root's.
            let real: PathBuf = match path.strip_prefix(&self.query.root) {
                Ok(rest) => self.real_root.components().chain(rest.components()).collect(),
                Err(_) => real_path(&path),
            };
            match self.guard.refuse_name(&path).or_else(|| self.guard.refuse_name(&real)) {
                // A binary file has a name that may be asked for; its content is skipped by what it is.
                None | Some(Refusal::Binary { .. }) => return Some(path),
                Some(_) => self.omitted += 1,
            }
        }
    }
}
