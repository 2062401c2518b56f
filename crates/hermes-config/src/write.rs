//! Replaces a file in one step, with private access, and durably.
//!
//! Readers see the old text or the new one, never a part. A link stays a link: its target is replaced. On any
//! error the old file is unchanged and no temporary file is left.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::lock::random;
use crate::{Error, Result};

/// The number of links followed before an error, the same as in the kernel.
const MAX_LINKS: usize = 40;

/// Writes `bytes` to `path` with mode 0600.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let target = follow_links(path).map_err(|source| Error::unwritable(path, source))?;
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let temporary = target.with_file_name(format!("{name}.tmp.{}.{:016x}", std::process::id(), random()));
    let written = write_new(&temporary, bytes).and_then(|()| match fs::rename(&temporary, &target) {
        // A single file mounted into a container cannot be replaced by a rename; the content is safe in the
        // temporary file until the target holds it.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            overwrite(&target, bytes)?;
            fs::remove_file(&temporary)
        }
        other => other,
    });
    if let Err(source) = written {
        // The first error is the one to report; the temporary file may not even exist.
        if let Err(error) = fs::remove_file(&temporary)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %temporary.display(), %error, "cannot remove a temporary file");
        }
        return Err(Error::unwritable(path, source));
    }
    sync_folder(&target);
    Ok(())
}

/// Writes `bytes` to a path a person named: a file is replaced; a pipe or a device is written to and kept.
pub fn write_output(path: &Path, bytes: &[u8]) -> Result<()> {
    let unwritable = |source| Error::unwritable(path, source);
    if !is_special(path).map_err(unwritable)? {
        return replace(path, bytes);
    }
    let mut file = OpenOptions::new().write(true).open(path).map_err(unwritable)?;
    file.write_all(bytes).map_err(unwritable)
}

/// Tells whether a path leads, through links, to something a file must not replace: a pipe, a device, a socket.
pub fn is_special(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(meta) => Ok(!meta.is_file() && !meta.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Syncs the folder, because the rename must survive a power failure. A file system that does not support it is
/// not an error.
fn sync_folder(target: &Path) {
    let folder = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::debug!(path = %folder.display(), %error, "cannot sync the folder");
    }
}

/// Returns the final target of a link, whether it exists or not.
pub fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut here = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&here) {
            Ok(meta) if meta.file_type().is_symlink() => {
                let next = fs::read_link(&here)?;
                here = match here.parent() {
                    Some(parent) if next.is_relative() => parent.join(next),
                    _ => next,
                };
            }
            Ok(meta) if meta.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(here),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns the file's bytes; `None` when there is no such file.
pub(crate) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::unreadable(path, source)),
    }
}
