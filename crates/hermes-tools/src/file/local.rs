//! The files of this machine.
//!
//! Each call looks up its path once, decides by the real path, and works relative to the open folder. Where the
//! kernel supports it, the work runs on a thread that the kernel restricts to the conversation's limits.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hermes_exec::{SandboxAccess, SandboxedThread, WriteRule};
use hermes_types::{Cancel, ToolOutcome};
use rustix::fs::{FileType, Stat};

use super::file_system::{FileLocation, FileSystem, PathInfo, PathKind};
use super::guard::is_process_path;
use super::pinned_path::{FinalLink, PinnedPath};
use super::state::FileStamp;
use super::users::homes;
use super::{FileTools, ReadRefusal};
use crate::search_files::{self, FileSearchResult, Query};

/// The size above which a file is not read as a whole.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
const SETTING: &str = "`terminal.sandbox_writable` or the terminal, with the user's approval, would allow it";

/// The file system of this machine for one task.
pub(crate) struct LocalFs {
    files: FileTools,
    /// The task's current folder.
    folder: PathBuf,
    decisions: PathDecisions,
    thread: Option<SandboxedThread>,
}

/// Decides about paths whose links are resolved.
#[derive(Clone)]
struct PathDecisions {
    files: FileTools,
    access: Option<SandboxAccess>,
    /// The paths that a person approved for writing.
    approved: Arc<HashSet<PathBuf>>,
}

impl LocalFs {
    /// Creates a file system. `access` is what the task may read and write; without it only names decide.
    pub(super) fn new(files: FileTools, folder: PathBuf, access: Option<SandboxAccess>) -> io::Result<Self> {
        let thread = access.as_ref().map(SandboxAccess::thread).transpose()?;
        let decisions = PathDecisions { files: files.clone(), access, approved: Arc::default() };
        Ok(Self { files, folder, decisions, thread })
    }

    fn run_sandboxed<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PathDecisions) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        match &self.thread {
            Some(thread) => {
                let decisions = self.decisions.clone();
                thread.run(move || work(&decisions))?
            }
            None => work(&self.decisions),
        }
    }

    /// Runs work that writes in these folders.
    fn run_writing_in<T: Send + 'static>(
        &self,
        folders: &[&Path],
        work: impl FnOnce(&PathDecisions) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let Some(access) = &self.decisions.access else { return self.run_sandboxed(work) };
        let closed: Vec<&Path> =
            folders.iter().copied().filter(|folder| !access.allows_writes_in(folder)).collect();
        if closed.is_empty() {
            return self.run_sandboxed(work);
        }
        // The kernel's rules can only open a folder as a whole; the name of this file was checked before.
        let decisions = self.decisions.clone();
        access.thread_writing_in(&closed)?.run(move || work(&decisions))?
    }
}

impl PathDecisions {
    fn read_refusal(&self, real: &Path) -> Option<ReadRefusal> {
        if is_process_path(real) {
            return Some(ReadRefusal::Device(real.to_owned()));
        }
        let named = self.files.guard.name_refusal(real);
        if !matches!(named, None | Some(ReadRefusal::Binary { .. })) {
            return named;
        }
        match self.access.as_ref().and_then(|access| access.read_refusal(real)) {
            Some(reason) => Some(ReadRefusal::Hidden { path: real.to_owned(), reason }),
            None => named,
        }
    }

    fn write_refusal(&self, given: &str, real: &Path) -> Option<String> {
        // The secrets in other users' homes are protected as well.
        let mut homes = homes();
        homes.push(self.files.guard.user_home().to_owned());
        let refused = self.files.guard.write_refusal(given, real, &homes, &self.files.options.write_roots);
        if refused.is_some() {
            return refused;
        }
        match self.access.as_ref()?.write_rule(real) {
            WriteRule::Ask(reason) if !self.approved.contains(real) => {
                Some(format!("Write denied: '{given}': {reason}; {SETTING}."))
            }
            WriteRule::Allow | WriteRule::Ask(_) => None,
            WriteRule::Deny(reason) => Some(format!("Write denied: '{given}': {reason}; {SETTING}.")),
        }
    }

    /// Checks a write for the last time, once the folder is open.
    fn may_write(&self, place: &PinnedPath) -> io::Result<()> {
        let real = place.real();
        match self.write_refusal(&real.to_string_lossy(), &real) {
            Some(reason) => Err(io::Error::new(ErrorKind::PermissionDenied, reason)),
            None => Ok(()),
        }
    }

    fn may_read(&self, place: &PinnedPath) -> io::Result<()> {
        match self.read_refusal(&place.real()) {
            None | Some(ReadRefusal::Binary { .. }) => Ok(()),
            Some(refusal) => Err(io::Error::new(ErrorKind::PermissionDenied, refusal.to_string())),
        }
    }
}

impl FileSystem for LocalFs {
    fn resolve(&self, given: &str) -> PathBuf {
        self.files.guard.resolve(&self.folder, given)
    }

    fn inspect(&self, path: &Path) -> io::Result<PathInfo> {
        let place = match PinnedPath::find(path, FinalLink::Follow) {
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Ok(PathInfo { real: path.to_owned(), kind: PathKind::Missing, size: 0, stamp: None });
            }
            found => found?,
        };
        let real = place.real();
        let Some(found) = place.found() else {
            return Ok(PathInfo { real, kind: PathKind::Missing, size: 0, stamp: None });
        };
        let kind = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => PathKind::Folder,
            FileType::RegularFile => PathKind::File,
            _ => PathKind::Other,
        };
        let size = u64::try_from(found.st_size).unwrap_or_default();
        Ok(PathInfo { real, kind, size, stamp: stamp(found, size) })
    }

    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let path = path.to_owned();
        self.run_sandboxed(move |decisions| {
            let place = PinnedPath::find(&path, FinalLink::Follow)?;
            decisions.may_read(&place)?;
            place.read(most)
        })
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut place = PinnedPath::find(path, FinalLink::Follow)?;
        let (folder, text) = (place.folder().to_owned(), text.to_owned());
        self.run_writing_in(&[&folder], move |decisions| {
            decisions.may_write(&place)?;
            place.replace(&text)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let place = PinnedPath::find(path, FinalLink::NoFollow)?;
        let folder = place.folder().to_owned();
        self.run_writing_in(&[&folder], move |decisions| {
            decisions.may_write(&place)?;
            place.remove()
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, mut to) =
            (PinnedPath::find(from, FinalLink::NoFollow)?, PinnedPath::find(to, FinalLink::NoFollow)?);
        let (source, target) = (from.folder().to_owned(), to.folder().to_owned());
        self.run_writing_in(&[&source, &target], move |decisions| {
            decisions.may_write(&from)?;
            decisions.may_write(&to)?;
            from.rename_to(&mut to)
        })
    }

    fn names(&self, folder: &Path, most: usize) -> Vec<String> {
        let hidden = |folder: &Path| {
            let real = PinnedPath::find(folder, FinalLink::Follow).map(|place| place.real());
            self.decisions
                .access
                .as_ref()
                .is_some_and(|access| real.map_or(true, |real| access.read_refusal(&real).is_some()))
        };
        if hidden(folder) {
            return Vec::new();
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names.truncate(most);
        names
    }

    fn read_refusal(&self, path: &Path, seen: &PathInfo) -> Option<ReadRefusal> {
        self.files.guard.read_refusal(path).or_else(|| self.decisions.read_refusal(&seen.real))
    }

    fn write_refusal(&self, given: &str, _: &Path, seen: &PathInfo) -> Option<String> {
        self.decisions.write_refusal(given, &seen.real)
    }

    fn write_approval(&self, given: &str) -> Option<(PathBuf, String)> {
        let access = self.decisions.access.as_ref()?;
        let real = PinnedPath::find(&self.resolve(given), FinalLink::Follow).ok()?.real();
        match access.write_rule(&real) {
            WriteRule::Ask(reason) => {
                let agreed = Arc::new(HashSet::from([real.clone()]));
                let asked = PathDecisions { approved: agreed, ..self.decisions.clone() };
                // A write that is refused anyway needs no question.
                asked.write_refusal(given, &real).is_none().then_some((real, reason))
            }
            WriteRule::Allow | WriteRule::Deny(_) => None,
        }
    }

    fn approve_write(&mut self, real: PathBuf) {
        Arc::make_mut(&mut self.decisions.approved).insert(real);
    }

    fn search(&self, query: &Query, cancel: &Cancel) -> Result<FileSearchResult, ToolOutcome> {
        let (query, cancel, files) = (query.clone(), cancel.clone(), self.files.clone());
        let access = self.decisions.access.clone();
        let work =
            move |_: &PathDecisions| Ok(search_files::search_local(&query, &files, access.as_ref(), &cancel));
        self.run_sandboxed(work)
            .unwrap_or_else(|error| Err(ToolOutcome::failed(format!("Search failed: {error}"))))
    }

    fn most_bytes(&self) -> u64 {
        MOST_BYTES
    }

    fn location(&self) -> FileLocation {
        FileLocation::Local
    }
}

fn stamp(found: &Stat, len: u64) -> Option<FileStamp> {
    let (seconds, nanos) = (u64::try_from(found.st_mtime).ok()?, u32::try_from(found.st_mtime_nsec).ok()?);
    let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))?;
    Some(FileStamp { modified, len })
}
