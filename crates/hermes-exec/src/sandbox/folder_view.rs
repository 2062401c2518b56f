//! A view of a folder in which a command sees only some parts: an empty copy is mounted over the folder, and
//! the parts are mounted into the copy.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use hermes_types::random_hex;

use super::mounts::{mount, restrict, text, unless_gone};
use super::stores::DEVICES;

/// Limits how many parts a view has; further ones are left out.
const MOST_PARTS: usize = 64;

/// The links that every `/dev` has.
const DEV_LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// The view of one folder.
#[derive(Debug)]
pub(super) struct FolderView {
    folder: CString,
    /// The copy, with an empty file or folder for each part.
    copy: CString,
    parts: Vec<CString>,
    /// Tells whether the view gets a terminal file system of its own.
    terminals: bool,
}

impl FolderView {
    /// Creates the empty copy below `shelf`, where commands cannot write.
    pub(super) fn of(folder: &Path, parts: &[PathBuf], shelf: &Path) -> io::Result<Self> {
        use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
        let name: String = folder.to_string_lossy().chars().map(|c| if c == '/' { '%' } else { c }).collect();
        let copy = shelf.join("views").join(name);
        let make = |folder: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        make(&copy)?;
        let mut shown = Vec::new();
        for part in parts.iter().take(MOST_PARTS) {
            let Ok(rest) = part.strip_prefix(folder) else { continue };
            let place = copy.join(rest);
            if part.is_dir() {
                make(&place)?;
            } else if place.symlink_metadata().is_err() {
                place.parent().map_or(Ok(()), make)?;
                let beside = copy.join(format!(".{}", random_hex(8)));
                std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
                std::fs::rename(&beside, &place)?;
            }
            shown.push(part.clone());
        }
        if folder == Path::new("/dev") {
            for (name, target) in DEV_LINKS {
                match std::os::unix::fs::symlink(target, copy.join(name)) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                    _ => {}
                }
            }
        }
        let odd = || io::Error::new(io::ErrorKind::InvalidInput, "a path has a zero in it");
        Ok(Self {
            folder: text(folder).ok_or_else(odd)?,
            copy: text(&copy).ok_or_else(odd)?,
            parts: shown.iter().filter_map(text).collect(),
            terminals: false,
        })
    }

    /// Creates a view of `/dev`: the usual devices, and a terminal file system of its own.
    pub(super) fn of_devices(shelf: &Path) -> io::Result<Self> {
        let there = |path: &PathBuf| path.exists() && !path.is_symlink();
        let parts: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).filter(there).collect();
        let view = Self::of(Path::new("/dev"), &parts, shelf)?;
        std::fs::create_dir_all(view.copy().join("pts"))?;
        Ok(Self { terminals: true, ..view })
    }

    /// Returns the path of the empty copy.
    pub(super) fn copy(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(self.copy.to_bytes()))
    }

    /// Mounts the view. Makes only system calls, because it runs in a forked child.
    pub(super) fn enter(&self) -> io::Result<()> {
        let mut taken: [RawFd; MOST_PARTS] = [-1; MOST_PARTS];
        for (part, place) in self.parts.iter().zip(&mut taken) {
            *place = clone_mount(part);
        }
        unless_gone(mount(&self.copy, &self.folder, libc::MS_BIND))?;
        unless_gone(restrict(&self.folder, libc::MOUNT_ATTR_RDONLY))?;
        for (part, tree) in self.parts.iter().zip(taken) {
            if tree >= 0 {
                unless_gone(attach_mount(tree, part))?;
            }
        }
        if self.terminals {
            own_terminals()?;
        }
        Ok(())
    }
}

/// Mounts a terminal file system that no other process shares.
fn own_terminals() -> io::Result<()> {
    const OPTIONS: &CStr = c"newinstance,ptmxmode=0666,mode=0600";
    // SAFETY: every text ends with a zero and outlives the call.
    #[expect(unsafe_code, reason = "rustix's way allocates, which a forked child must not")]
    let mounted = unsafe {
        libc::mount(
            c"devpts".as_ptr(),
            c"/dev/pts".as_ptr(),
            c"devpts".as_ptr(),
            libc::MS_NOSUID | libc::MS_NOEXEC,
            OPTIONS.as_ptr().cast(),
        )
    };
    if mounted != 0 {
        return Err(io::Error::last_os_error());
    }
    mount(c"/dev/pts/ptmx", c"/dev/ptmx", libc::MS_BIND)
}

/// Returns a descriptor of a copy of what is mounted there; less than zero where there is none.
fn clone_mount(path: &CStr) -> RawFd {
    const FLAGS: libc::c_uint = 1 | libc::O_CLOEXEC.cast_unsigned() | libc::AT_RECURSIVE.cast_unsigned();
    // SAFETY: the text ends with a zero and outlives the call.
    #[expect(unsafe_code, reason = "rustix's way needs a feature and is no safer in a forked child")]
    let tree = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), FLAGS) };
    RawFd::try_from(tree).unwrap_or(-1)
}

fn attach_mount(tree: RawFd, path: &CStr) -> io::Result<()> {
    const FROM_DESCRIPTOR: libc::c_uint = 4;
    // SAFETY: both texts end with a zero and outlive the call; this function owns the descriptor.
    #[expect(unsafe_code, reason = "as above")]
    let moved = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree,
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            FROM_DESCRIPTOR,
        )
    };
    let result = if moved == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: no other code holds this descriptor.
    #[expect(unsafe_code, reason = "as above")]
    unsafe {
        libc::close(tree);
    }
    result
}
