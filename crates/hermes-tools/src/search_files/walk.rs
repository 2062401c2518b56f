//! Every file a search may look at, in the order of their paths.
//!
//! Folders are gone through by several threads. They are those of the thread that asks, so what holds it holds them.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hermes_exec::SandboxAccess;
use hermes_types::Cancel;
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::Query;
use crate::file::{FileGuard, FileTools, ReadRefusal, real_path};

/// A search ends after so many files, so that one over the whole disk does end.
pub(super) const MOST_FILES: usize = 300_000;
const MOST_THREADS: usize = 8;

/// What a walk came to.
pub(super) struct WalkResult {
    root: PathBuf,
    /// The paths below the root, their separators as zeros: so they are sorted folder by folder.
    keys: Vec<Vec<u8>>,
    seen: usize,
    /// Files left out for what they may hold.
    pub(super) omitted: usize,
    is_cancelled: bool,
}

/// How many threads a search has.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS)
}

/// What a walk asks about each entry.
struct Filter<'a> {
    query: &'a Query,
    guard: &'a FileGuard,
    /// None where everything below the root may be read.
    access: Option<&'a SandboxAccess>,
    real_root: PathBuf,
    /// Whether a name alone can be refused here.
    checks_names: bool,
}

impl WalkResult {
    /// Goes through the files that may be searched and whose names fit.
    pub(super) fn walk(
        query: &Query,
        files: &FileTools,
        access: Option<&SandboxAccess>,
        cancel: &Cancel,
    ) -> Self {
        let real_root = real_path(&query.root);
        let home = files.guard.home();
        let delicate = real_root != query.root
            || real_root.starts_with("/dev")
            || real_root.starts_with("/proc")
            || [home, &real_path(home)]
                .iter()
                .any(|home| real_root.starts_with(home) || home.starts_with(&real_root));
        let access = access.filter(|access| !access.is_open_below(&real_root));
        let filter = Filter { query, guard: &files.guard, access, real_root, checks_names: delicate };
        let (seen, omitted) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let all: Mutex<Vec<Vec<u8>>> = Mutex::default();
        let hidden = |path: &Path| {
            filter.access.is_some_and(|access| access.read_refusal(&filter.real(path)).is_some())
        };
        if hidden(&query.root) {
            omitted.fetch_add(1, Ordering::Relaxed);
        } else {
            let walk = WalkBuilder::new(&query.root).require_git(false).threads(threads()).build_parallel();
            walk.run(|| {
                let mut batch = Batch { keys: Vec::new(), all: &all };
                let (filter, seen, omitted) = (&filter, &seen, &omitted);
                Box::new(move |entry| {
                    if cancel.is_cancelled() || seen.load(Ordering::Relaxed) >= MOST_FILES {
                        return WalkState::Quit;
                    }
                    let Ok(entry) = entry else { return WalkState::Continue };
                    match filter.decide(&entry) {
                        EntryDecision::Skip => return WalkState::Skip,
                        EntryDecision::Pass => {}
                        EntryDecision::Omit => {
                            omitted.fetch_add(1, Ordering::Relaxed);
                        }
                        EntryDecision::Other => {
                            seen.fetch_add(1, Ordering::Relaxed);
                        }
                        EntryDecision::Take => {
                            seen.fetch_add(1, Ordering::Relaxed);
                            batch.keys.push(filter.key(entry.path()));
                        }
                    }
                    WalkState::Continue
                })
            });
        }
        let mut keys = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        keys.sort_unstable();
        Self {
            root: query.root.clone(),
            keys,
            seen: seen.into_inner(),
            omitted: omitted.into_inner(),
            is_cancelled: cancel.is_cancelled(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// One of the files.
    pub(super) fn path(&self, at: usize) -> Option<PathBuf> {
        let key = self.keys.get(at)?;
        if key.is_empty() {
            return Some(self.root.clone());
        }
        let bytes: Vec<u8> = key.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect();
        Some(self.root.join(std::ffi::OsStr::from_bytes(&bytes)))
    }

    /// What to tell the model when it ended before the last file.
    pub(super) fn truncation_notice(&self) -> Option<String> {
        if self.is_cancelled {
            return Some("The search was interrupted; there may be more.".to_owned());
        }
        (self.seen >= MOST_FILES)
            .then(|| format!("The search ended after {MOST_FILES} files; give a narrower path."))
    }
}

/// What becomes of an entry.
enum EntryDecision {
    /// A folder and all in it.
    Skip,
    Pass,
    Omit,
    /// A file whose name does not fit.
    Other,
    Take,
}

impl Filter<'_> {
    fn decide(&self, entry: &DirEntry) -> EntryDecision {
        let path = entry.path();
        let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
        if self.access.is_some_and(|access| access.read_refusal(&self.real(path)).is_some()) {
            return if is_file { EntryDecision::Omit } else { EntryDecision::Skip };
        }
        if !is_file {
            return EntryDecision::Pass;
        }
        let name = entry.file_name();
        if self.query.glob.as_ref().is_some_and(|glob| !glob.is_match(name) && !glob.is_match(path)) {
            return EntryDecision::Other;
        }
        let refusal = if self.checks_names {
            self.guard.name_refusal(path).or_else(|| self.guard.name_refusal(&self.real(path)))
        } else {
            FileGuard::env_file_refusal(path)
        };
        match refusal {
            // A binary file has a name that may be asked for; its content is skipped by what it is.
            None | Some(ReadRefusal::Binary { .. }) => EntryDecision::Take,
            Some(_) => EntryDecision::Omit,
        }
    }

    /// Links inside are not followed, so the real path is the real root's.
    fn real(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.query.root) {
            Ok(rest) if rest.as_os_str().is_empty() => self.real_root.clone(),
            Ok(rest) => self.real_root.join(rest),
            Err(_) => real_path(path),
        }
    }

    fn key(&self, path: &Path) -> Vec<u8> {
        let rest = path.strip_prefix(&self.query.root).unwrap_or(path);
        rest.as_os_str().as_bytes().iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
    }
}

/// What one thread found; handed in when it ends.
struct Batch<'a> {
    keys: Vec<Vec<u8>>,
    all: &'a Mutex<Vec<Vec<u8>>>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.keys);
    }
}
