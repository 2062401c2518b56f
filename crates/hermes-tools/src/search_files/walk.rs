//! Lists the files that a search may read, sorted by path.
//!
//! Several threads visit the folders. They are started by the calling thread and inherit its sandbox.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hermes_exec::SandboxAccess;
use hermes_types::Cancel;
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::Query;
use crate::file::{FileGuard, FileTools, ReadRefusal, real_path};

/// The maximum number of files, so that a search of the whole disk ends.
pub(super) const MOST_FILES: usize = 300_000;
const MOST_THREADS: usize = 8;

/// The result of a walk.
pub(super) struct WalkResult {
    root: PathBuf,
    /// The paths below the root with NUL as separator, so that they sort folder by folder.
    keys: Vec<Vec<u8>>,
    seen: usize,
    /// The number of files left out because they may hold secrets.
    pub(super) omitted: usize,
    is_cancelled: bool,
}

/// Returns the number of threads of a search.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS)
}

/// Decides about each entry of a walk.
struct Filter<'a> {
    query: &'a Query,
    guard: &'a FileGuard,
    /// The sandbox rules, or `None` if everything below the root may be read.
    access: Option<&'a SandboxAccess>,
    real_root: PathBuf,
    /// Tells whether a name can be refused below this root.
    checks_names: bool,
}

impl WalkResult {
    /// Visits the files that may be searched and whose names match.
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

    /// Returns the path of a file by its index.
    pub(super) fn path(&self, at: usize) -> Option<PathBuf> {
        let key = self.keys.get(at)?;
        if key.is_empty() {
            return Some(self.root.clone());
        }
        let bytes: Vec<u8> = key.iter().map(|byte| if *byte == 0 { b'/' } else { *byte }).collect();
        Some(self.root.join(std::ffi::OsStr::from_bytes(&bytes)))
    }

    /// Returns a notice for the model if the walk ended before the last file.
    pub(super) fn truncation_notice(&self) -> Option<String> {
        if self.is_cancelled {
            return Some("The search was interrupted; there may be more.".to_owned());
        }
        (self.seen >= MOST_FILES)
            .then(|| format!("The search ended after {MOST_FILES} files; give a narrower path."))
    }
}

/// The decision about an entry.
enum EntryDecision {
    /// A folder that is skipped with its content.
    Skip,
    Pass,
    Omit,
    /// A file whose name does not match.
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
            // A binary file can be found by name; a search of contents skips it by its content.
            None | Some(ReadRefusal::Binary { .. }) => EntryDecision::Take,
            Some(_) => EntryDecision::Omit,
        }
    }

    /// Returns the real path. Links below the root are not followed, so only the root needs to be resolved.
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

/// The files that one thread found, added to the result when it is dropped.
struct Batch<'a> {
    keys: Vec<Vec<u8>>,
    all: &'a Mutex<Vec<Vec<u8>>>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.keys);
    }
}
