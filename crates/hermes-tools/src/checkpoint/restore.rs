//! Restores files of a snapshot.
//!
//! Invariant: no file that the snapshot does not hold is removed, and nothing is written outside the project.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hermes_types::random_hex;

use super::encoding::TreeEntryMode;
use super::object::{ObjectId, ObjectKind};
use super::repository::Repository;

/// Replaces one file in one step.
pub(super) fn restore_file(
    repository: &Repository,
    root: &Path,
    path: &Path,
    mode: TreeEntryMode,
    id: ObjectId,
) -> io::Result<()> {
    let content = repository.objects.read_as(id, ObjectKind::Blob)?;
    let target = root.join(path);
    let folder = target.parent().unwrap_or(root);
    check_way(root, path)?;
    fs::create_dir_all(folder)?;
    if fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_dir()) {
        return Err(io::Error::other("a folder is in its place"));
    }
    let temporary = folder.join(format!(".hermes-tmp.{}", random_hex(12)));
    let written = (|| {
        if mode == TreeEntryMode::Link {
            std::os::unix::fs::symlink(std::ffi::OsString::from_vec(content), &temporary)?;
        } else {
            fs::write(&temporary, content)?;
            let meta = fs::symlink_metadata(&target).ok().filter(fs::Metadata::is_file);
            let old = meta.map_or(0o644, |meta| meta.permissions().mode() & 0o777);
            // Everyone who may read the file may execute it, because git only stores whether it is executable.
            let mode =
                if mode == TreeEntryMode::Executable { old | (old & 0o444) >> 2 } else { old & !0o111 };
            fs::set_permissions(&temporary, fs::Permissions::from_mode(mode))?;
        }
        fs::rename(&temporary, &target)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Checks that no parent folder is a link, which could lead outside the project.
fn check_way(root: &Path, path: &Path) -> io::Result<()> {
    let mut at = root.to_owned();
    for part in path.parent().unwrap_or(Path::new("")).components() {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("{} is not a folder any more", at.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
