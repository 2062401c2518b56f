//! Trees of files: reading, hashing, writing and replacing whole folders.
//!
//! Invariants: links are not followed and not copied; a folder is filled beside its place, synced, and renamed.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use hermes_config::Home;
use md5::{Digest as _, Md5};

use super::data_folder;

/// The most files, folders and bytes of one skill that are read; more is an error.
const MAX_FILES: usize = 5_000;
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFile {
    /// The path below the folder, with `/`.
    pub path: String,
    pub bytes: Vec<u8>,
    pub executable: bool,
}

/// Reads all regular files below a folder, sorted component by component.
pub fn read(folder: &Path) -> io::Result<Vec<TreeFile>> {
    let mut files = Vec::new();
    let mut total = 0;
    let mut open = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if kind.is_dir() {
                open.push((entry.path(), format!("{path}/")));
            } else if kind.is_file() {
                let meta = entry.metadata()?;
                total += meta.len();
                if files.len() >= MAX_FILES || total > MAX_BYTES {
                    return Err(io::Error::other("the folder is too large for a skill"));
                }
                let executable = meta.permissions().mode() & 0o111 != 0;
                files.push(TreeFile { path, bytes: fs::read(entry.path())?, executable });
            }
        }
    }
    sort(&mut files);
    Ok(files)
}

/// Sorts by path, component by component: `a/b` comes before `a-b`.
pub(crate) fn sort(files: &mut [TreeFile]) {
    files.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
}

/// Returns the MD5 sum of the paths and contents of sorted files.
pub(crate) fn md5_of(files: &[TreeFile]) -> String {
    let mut hash = Md5::new();
    for file in files {
        hash.update(file.path.as_bytes());
        hash.update(&file.bytes);
    }
    data_encoding::HEXLOWER.encode(&hash.finalize())
}

pub(crate) fn md5_of_bytes(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Md5::digest(bytes))
}

/// Writes files into a folder that has none of them.
pub fn write(folder: &Path, files: &[TreeFile]) -> io::Result<()> {
    make_folder(folder)?;
    for file in files {
        let path = folder.join(&file.path);
        if let Some(above) = path.parent() {
            make_folder(above)?;
        }
        let mode = if file.executable { 0o700 } else { 0o600 };
        let mut out = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
        out.write_all(&file.bytes)?;
    }
    Ok(())
}

/// A folder being filled, on the file system of the skills. It is removed when it was not moved to its place.
#[derive(Debug)]
pub(crate) struct StagedFolder {
    path: PathBuf,
}

impl StagedFolder {
    /// Writes files into a new folder. They are on the disk after [`sync_all`].
    pub(crate) fn write(home: &Home, files: &[TreeFile]) -> io::Result<Self> {
        let parent = data_folder(home).join("staging");
        make_folder(&parent)?;
        let staged = Self { path: unused_name(&parent)? };
        write(&staged.path, files)?;
        Ok(staged)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the folder to a place where nothing is.
    pub(crate) fn place(self, target: &Path) -> io::Result<()> {
        if let Some(above) = target.parent() {
            make_folder(above)?;
        }
        if target.symlink_metadata().is_ok() {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        fs::rename(&self.path, target)
    }
}

impl Drop for StagedFolder {
    fn drop(&mut self) {
        // After a move there is nothing left to remove.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Writes everything that was written to the file system of this folder to the disk.
pub(crate) fn sync_all(folder: &Path) -> io::Result<()> {
    let folder = File::open(folder)?;
    #[cfg(target_os = "linux")]
    return rustix::fs::syncfs(&folder).map_err(io::Error::from);
    #[cfg(not(target_os = "linux"))]
    {
        rustix::fs::sync();
        folder.sync_all()
    }
}

/// Creates a folder and those above it with mode 0700.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates a folder with an unused name.
fn unused_name(parent: &Path) -> io::Result<PathBuf> {
    for number in 0..1_000_u32 {
        let path = parent.join(format!("{}-{number}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => {
                fs::set_permissions(&path, Permissions::from_mode(0o700))?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Removes empty folders from `folder` up to, but without, `root`.
pub(crate) fn remove_empty(folder: &Path, root: &Path) {
    let mut here = folder;
    while here != root && here.starts_with(root) && fs::remove_dir(here).is_ok() {
        let Some(above) = here.parent() else { return };
        here = above;
    }
}
