//! A file name in a folder that is held open by a descriptor. The path is looked up once and checked by its
//! real path; all access is relative to the open folder, so that another process cannot insert a link in
//! between.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hermes_types::random_hex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

/// The maximum length of a chain of links; a longer one is treated as a loop.
const MOST_LINKS: usize = 40;
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
#[cfg(target_os = "linux")]
const HOLD: OFlags = FOLDER.union(OFlags::PATH);
#[cfg(not(target_os = "linux"))]
const HOLD: OFlags = FOLDER;

/// A file name in an open folder. The file need not exist.
#[derive(Debug)]
pub(super) struct PinnedPath {
    folder: OwnedFd,
    /// The real path of the folder.
    folder_path: PathBuf,
    /// The folders below it that must still be created.
    missing: Vec<OsString>,
    name: OsString,
    /// The metadata of the name itself; a link is not followed.
    found: Option<Stat>,
}

/// Selects whether a link in the last component is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalLink {
    Follow,
    NoFollow,
}

impl PinnedPath {
    /// Looks up a path and follows its links one at a time.
    pub(super) fn find(path: &Path, last: FinalLink) -> io::Result<Self> {
        let mut at = path.to_owned();
        for _ in 0..MOST_LINKS {
            let held = Self::open_folder(&at)?;
            let is_link =
                held.found.is_some_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink);
            if !is_link || last == FinalLink::NoFollow {
                return Ok(held);
            }
            let target = rustix::fs::readlinkat(held.folder.as_fd(), &*held.name, Vec::new())?;
            at = held.folder_path.join(OsStr::from_bytes(target.to_bytes()));
        }
        Err(io::Error::new(ErrorKind::InvalidInput, "too many links"))
    }

    fn open_folder(path: &Path) -> io::Result<Self> {
        let (mut above, name) = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => (above, name.to_owned()),
            // The root, or a path that ends in dots, means the folder itself.
            _ => (path, OsString::from(".")),
        };
        let mut missing = Vec::new();
        let folder = loop {
            match rustix::fs::open(above, HOLD, Mode::empty()) {
                Ok(folder) => break folder,
                Err(rustix::io::Errno::NOENT) => {
                    let (Some(higher), Some(part)) = (above.parent(), above.file_name()) else {
                        return Err(ErrorKind::NotFound.into());
                    };
                    missing.insert(0, part.to_owned());
                    above = higher;
                }
                Err(error) => return Err(error.into()),
            }
        };
        let folder_path = path_of(&folder, above)?;
        let found = if missing.is_empty() {
            match rustix::fs::statat(folder.as_fd(), &*name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => Some(found),
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => None,
                Err(error) => return Err(error.into()),
            }
        } else {
            None
        };
        Ok(Self { folder, folder_path, missing, name, found })
    }

    /// Returns the real path that the file has or will have.
    pub(super) fn real(&self) -> PathBuf {
        let folder = self.missing.iter().fold(self.folder_path.clone(), |path, part| path.join(part));
        if self.name == "." { folder } else { folder.join(&self.name) }
    }

    /// Returns the path of the open folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder_path
    }

    pub(super) fn found(&self) -> Option<&Stat> {
        self.found.as_ref()
    }

    /// Opens a regular file for reading.
    pub(super) fn open(&self) -> io::Result<File> {
        if self.found.is_none() {
            return Err(ErrorKind::NotFound.into());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(self.folder.as_fd(), &*self.name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
    }

    /// Reads at most `most` bytes of the file.
    pub(super) fn read(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // The file may grow while it is being read.
        self.open()?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Replaces the file with a text in one step and keeps its mode.
    pub(super) fn replace(&mut self, text: &str) -> io::Result<()> {
        self.make_folders()?;
        let mode = match &self.found {
            None => None,
            // A device or a pipe must not be replaced by a regular file.
            Some(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
                return Err(not_regular());
            }
            Some(found) => Some(Mode::from_raw_mode(found.st_mode)),
        };
        let beside = format!(".hermes-tmp.{}", random_hex(12));
        let written = self.write_new(&beside, text, mode).and_then(|()| {
            Ok(rustix::fs::renameat(self.folder.as_fd(), &*beside, self.folder.as_fd(), &*self.name)?)
        });
        if written.is_err() {
            // The first error is the one to report; the temporary file may not exist.
            let _ = rustix::fs::unlinkat(self.folder.as_fd(), &*beside, AtFlags::empty());
            return written;
        }
        // The rename must survive a power failure, but a file system without sync support must not fail the
        // write.
        if let Ok(folder) =
            rustix::fs::openat(self.folder.as_fd(), ".", OFlags::RDONLY | FOLDER, Mode::empty())
        {
            let _ = rustix::fs::fsync(folder);
        }
        Ok(())
    }

    /// Removes the name.
    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.folder.as_fd(), &*self.name, AtFlags::empty())?)
    }

    /// Renames the file.
    pub(super) fn rename_to(&self, to: &mut Self) -> io::Result<()> {
        to.make_folders()?;
        Ok(rustix::fs::renameat(self.folder.as_fd(), &*self.name, to.folder.as_fd(), &*to.name)?)
    }

    fn make_folders(&mut self) -> io::Result<()> {
        for part in std::mem::take(&mut self.missing) {
            match rustix::fs::mkdirat(self.folder.as_fd(), &*part, Mode::from_raw_mode(0o777)) {
                // Another process created the folder meanwhile.
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = HOLD | OFlags::NOFOLLOW;
            self.folder = rustix::fs::openat(self.folder.as_fd(), &*part, flags, Mode::empty())?;
            self.folder_path.push(part);
        }
        Ok(())
    }

    fn write_new(&self, name: &str, text: &str, mode: Option<Mode>) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(self.folder.as_fd(), name, flags, Mode::from_raw_mode(0o666))?;
        let mut file = File::from(made);
        if let Some(mode) = mode {
            rustix::fs::fchmod(&file, mode)?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}

fn not_regular() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

/// Returns the real path of an open folder.
#[cfg(target_os = "linux")]
fn path_of(folder: &OwnedFd, _: &Path) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
fn path_of(_: &OwnedFd, given: &Path) -> io::Result<PathBuf> {
    given.canonicalize()
}
