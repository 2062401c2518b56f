//! The port to the files that a task sees: those of this machine or of the remote environment its commands run
//! in.
//!
//! Its two implementations are in `local` and `remote`. Calls block, so tools make them on a separate thread.
//! The port includes the rules about which files must not be read or written, because a path means something
//! else in a remote environment.

use std::io;
use std::path::{Path, PathBuf};

use hermes_types::{Cancel, ToolOutcome};

use super::ReadRefusal;
use super::state::FileStamp;
use crate::search_files::{FileSearchResult, Query};

/// A file system with its access rules.
pub(crate) trait FileSystem: Send + Sync {
    /// Resolves `~` and relative parts of a path in a call; follows no link.
    fn resolve(&self, given: &str) -> PathBuf;

    /// Returns what a path leads to.
    fn inspect(&self, path: &Path) -> io::Result<PathInfo>;

    /// Tells whether the name exists, even if it is a link to nothing.
    fn exists(&self, path: &Path) -> bool;

    /// Reads at most `most` bytes from the beginning of a file.
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>>;

    /// Replaces a file with a text in one step and creates missing parent folders. Links and file modes are
    /// preserved.
    fn replace(&self, path: &Path, text: &str) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Renames a file and creates missing parent folders.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Returns the first names in a folder, sorted. Returns none if the folder does not exist.
    fn names(&self, folder: &Path, most: usize) -> Vec<String>;

    /// Returns why a file must not be read.
    fn read_refusal(&self, path: &Path, seen: &PathInfo) -> Option<ReadRefusal>;

    /// Returns why a file must not be written. `given` is the path as the model wrote it.
    fn write_refusal(&self, given: &str, path: &Path, seen: &PathInfo) -> Option<String>;

    /// Returns the real path and the reason if a person has to approve a write to this file.
    fn write_approval(&self, _given: &str) -> Option<(PathBuf, String)> {
        None
    }

    /// Records that a person approved writing this file.
    fn approve_write(&mut self, _real: PathBuf) {}

    fn search(&self, query: &Query, cancel: &Cancel) -> Result<FileSearchResult, ToolOutcome>;

    /// Returns the size above which a file is not read as a whole.
    fn most_bytes(&self) -> u64;

    /// Tells whether programs and snapshots of this machine can access these files.
    fn location(&self) -> FileLocation;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileLocation {
    Local,
    Remote,
}

/// Describes what a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathInfo {
    /// The path with every link resolved as far as it exists.
    pub(crate) real: PathBuf,
    pub(crate) kind: PathKind,
    pub(crate) size: u64,
    pub(crate) stamp: Option<FileStamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathKind {
    Missing,
    File,
    Folder,
    /// A device, a socket or a pipe.
    Other,
}

/// Returns the current stamp of a file.
pub(crate) fn stamp(disk: &dyn FileSystem, path: &Path) -> Option<FileStamp> {
    disk.inspect(path).ok().and_then(|seen| seen.stamp)
}
