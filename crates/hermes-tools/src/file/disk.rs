//! The files a task sees: this machine's, or those of the place its commands run in.
//!
//! A port with two sides, `here` and `there`. Its calls block; tools make them on a thread of their own. Which files are out
//! of bounds is part of it, because a name means something else elsewhere.

use std::io;
use std::path::{Path, PathBuf};

use hermes_types::{Cancel, Outcome};

use super::Refusal;
use super::state::Stamp;
use crate::search_files::{Found, Query};

/// A file system with its rules.
pub(crate) trait Disk: Send + Sync {
    /// What a path in a call means: `~` and relative parts resolved, no link followed.
    fn resolve(&self, given: &str) -> PathBuf;

    /// What a path leads to.
    fn look(&self, path: &Path) -> io::Result<Seen>;

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
    fn refuse(&self, path: &Path, seen: &Seen) -> Option<Refusal>;

    /// Why a file must not be written. `given` is the path as the model wrote it.
    fn refuse_write(&self, given: &str, path: &Path, seen: &Seen) -> Option<String>;

    /// What a person has to agree to before a file is written: where it really lies, and why.
    fn question(&self, _given: &str) -> Option<(PathBuf, String)> {
        None
    }

    /// Somebody agreed.
    fn agree(&mut self, _real: PathBuf) {}

    fn search(&self, query: &Query, cancel: &Cancel) -> Result<Found, Outcome>;

    /// A larger file is not read as a whole.
    fn most_bytes(&self) -> u64;

    /// Whether programs and snapshots of this machine can see these files.
    fn locality(&self) -> Locality;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locality {
    Here,
    There,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The path with every link followed as far as it exists.
    pub(crate) real: PathBuf,
    pub(crate) kind: Kind,
    pub(crate) size: u64,
    pub(crate) stamp: Option<Stamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Missing,
    File,
    Folder,
    /// A device, a socket, a pipe.
    Other,
}

/// The stamp of a file as it is now.
pub(crate) fn stamp(disk: &dyn Disk, path: &Path) -> Option<Stamp> {
    disk.look(path).ok().and_then(|seen| seen.stamp)
}
