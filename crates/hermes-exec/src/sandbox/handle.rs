//! A folder held by a descriptor, so that a link that is put in its place meanwhile cannot redirect access to
//! its entries.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hermes_types::random_hex;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RawMode};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(super) struct DirHandle(OwnedFd);

/// The kind of a folder's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DirEntryKind {
    Nothing,
    Folder,
    File(RawMode),
    Other,
}

impl DirHandle {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(rustix::fs::open(path, FOLDER, Mode::empty())?))
    }

    pub(super) fn folder(&self, name: &str) -> io::Result<Self> {
        Ok(Self(rustix::fs::openat(self.0.as_fd(), name, FOLDER, Mode::empty())?))
    }

    pub(super) fn kind(&self, name: &OsStr) -> DirEntryKind {
        match rustix::fs::statat(self.0.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => DirEntryKind::Folder,
                FileType::RegularFile => DirEntryKind::File(found.st_mode & 0o777),
                _ => DirEntryKind::Other,
            },
            Err(_) => DirEntryKind::Nothing,
        }
    }

    /// Returns the names of the entries, without `.` and `..`.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.0.as_fd())? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    /// Returns the bytes of a regular file, if it is not longer than `most`.
    pub(super) fn read(&self, name: &OsStr, most: u64) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(self.0.as_fd(), name, flags, Mode::empty())?);
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(io::Error::other("too long")) } else { Ok(bytes) }
    }

    /// Replaces the entry with a complete file.
    pub(super) fn replace_file(&self, name: &OsStr, bytes: &[u8], mode: RawMode) -> io::Result<()> {
        let beside = format!(".hermes-{}", random_hex(12));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(self.0.as_fd(), &*beside, flags, Mode::from_raw_mode(mode))?;
        let mut file = File::from(made);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(rustix::fs::renameat(self.0.as_fd(), &*beside, self.0.as_fd(), name)?)
    }

    /// Returns the target of the entry, if it is a link.
    pub(super) fn read_link(&self, name: &OsStr) -> Option<OsString> {
        let target = rustix::fs::readlinkat(self.0.as_fd(), name, Vec::new()).ok()?;
        Some(OsStr::from_bytes(target.to_bytes()).to_owned())
    }

    /// Replaces the entry with a link.
    pub(super) fn replace_link(&self, name: &OsStr, target: &OsStr) -> io::Result<()> {
        let beside = format!(".hermes-{}", random_hex(12));
        rustix::fs::symlinkat(target, self.0.as_fd(), &*beside)?;
        Ok(rustix::fs::renameat(self.0.as_fd(), &*beside, self.0.as_fd(), name)?)
    }

    /// Renames an entry.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(self.0.as_fd(), from, self.0.as_fd(), to)?)
    }

    /// Removes a file or a link, not the link's target.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.0.as_fd(), name, AtFlags::empty())?)
    }

    pub(super) fn make_folder(&self, name: &str) -> io::Result<Self> {
        rustix::fs::mkdirat(self.0.as_fd(), name, Mode::from_raw_mode(0o755))?;
        self.folder(name)
    }
}
