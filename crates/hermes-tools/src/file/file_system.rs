//! The files a task sees: this machine's, or those of the place its commands run in.
//!
//! A port with two sides, `here` and `there`. Its calls block; tools make them on a thread of their own. Which files are out
//! of bounds is part of it, because a name means something else elsewhere.

use std::io;
use std::path::{Path, PathBuf};

use hermes_types::{Cancel, ToolOutcome};

use super::ReadRefusal;
use super::state::FileStamp;
use crate::search_files::{FileSearchResult, Query};

/// A file system with its rules.
pub(crate) trait FileSystem: Send + Sync {
    /// What a path in a call means: `~` and relative parts resolved, no link followed.
    fn resolve(&self, given: &str) -> PathBuf;

    /// What a path leads to.
    fn inspect(&self, path: &Path) -> io::Result<PathInfo>;

    /// Whether the name is taken, if only by a link that leads nowhere.
    fn exists(&self, path: &Path) -> bool;

    /// At most so many bytes from the beginning.
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>>;

    /// Puts a text in place in one step, with the folders on the way to it. A link stays a link, a mode a mode.
    fn replace(&self, path: &Path, text: &str) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Gives a file another name, making the folders on the way.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// The first names in a folder, in their order; none where there is no folder.
    fn names(&self, folder: &Path, most: usize) -> Vec<String>;

    /// Why a file must not be read.
    fn read_refusal(&self, path: &Path, seen: &PathInfo) -> Option<ReadRefusal>;

    /// Why a file must not be written. `given` is the path as the model wrote it.
    fn write_refusal(&self, given: &str, path: &Path, seen: &PathInfo) -> Option<String>;

    /// What a person has to agree to before a file is written: where it really lies, and why.
    fn write_approval(&self, _given: &str) -> Option<(PathBuf, String)> {
        None
    }

    /// Somebody agreed.
    fn approve_write(&mut self, _real: PathBuf) {}

    fn search(&self, query: &Query, cancel: &Cancel) -> Result<FileSearchResult, ToolOutcome>;

    /// A larger file is not read as a whole.
    fn most_bytes(&self) -> u64;

    /// Whether programs and snapshots of this machine can see these files.
    fn location(&self) -> FileLocation;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileLocation {
    Local,
    Remote,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathInfo {
    /// The path with every link followed as far as it exists.
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
    /// A device, a socket, a pipe.
    Other,
}

/// The stamp of a file as it is now.
pub(crate) fn stamp(disk: &dyn FileSystem, path: &Path) -> Option<FileStamp> {
    disk.inspect(path).ok().and_then(|seen| seen.stamp)
}
