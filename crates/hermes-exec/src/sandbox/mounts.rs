//! A mount namespace for the command: everything is read-only but what it may write, hooks and start-up files
//! are read-only, and secrets and sockets of programs that would act on its behalf are hidden.
//!
//! Landlock can only allow, and does not cover owners, modes and times of files; a mount namespace can revoke
//! what it allows, and covers those too. It needs a user namespace, or root. Where the system forbids both,
//! this module does nothing, and what a command changes is restored afterwards (`repositories`). Whether
//! mounts are possible is checked once.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, LazyLock};

use rustix::process::{getegid, geteuid};

use super::SandboxPaths;
use super::folder_view::FolderView;
use super::limits::SandboxLimits;
use super::rules::ClosedPath;
use super::sockets::HiddenSockets;

const NOTHING: &CStr = c"/dev/null";
/// The device folders that are memory, not hardware.
const SHARED_MEMORY: &[&str] = &["/dev/shm", "/dev/mqueue"];

/// The mounts that a child makes before any other restriction applies. In each list, folders come before the
/// paths within them.
#[derive(Debug)]
pub(super) struct Mounts {
    writable: Vec<CString>,
    /// The paths that are mounted on themselves, so that they cannot be renamed.
    fixed: Vec<CString>,
    read_only: Vec<CString>,
    /// The paths within read-only ones that are writable.
    reopened: Vec<CString>,
    hidden: Vec<CString>,
    /// The folders of which only parts are visible.
    views: Vec<FolderView>,
    /// The files and folders with secrets, and the empty folder that replaces the folders.
    closed_files: Vec<CString>,
    closed_folders: Vec<CString>,
    empty_folder: CString,
    /// The folder in which the command starts; it is entered again in the new namespace.
    start: CString,
    user: Option<UserMaps>,
    devices: Option<Arc<FolderView>>,
}

/// The paths that mounts protect in folders that the rules allow as a whole, whether they exist or not. They follow
/// from the limits alone, so they are found once for all commands.
#[derive(Debug, Default)]
pub(super) struct ProtectedPaths {
    unreadable: Vec<ClosedPath>,
    unchangeable: Vec<ClosedPath>,
}

impl ProtectedPaths {
    /// Finds the paths below `masked`, the folders that the rules allow as a whole.
    pub(super) fn of(limits: &SandboxLimits, masked: &[PathBuf]) -> Self {
        let mut unreadable = limits.unreadable.closed_below(masked);
        unreadable.retain(|closed| closed.path != Path::new("/dev"));
        Self { unreadable, unchangeable: limits.unchangeable.closed_below(masked) }
    }
}

/// The user and group ids inside a user namespace, which are the same as outside.
#[derive(Debug)]
struct UserMaps {
    user: Vec<u8>,
    group: Vec<u8>,
}

impl Mounts {
    /// Tells whether the system permits mounts.
    pub(super) fn are_possible() -> bool {
        *POSSIBLE
    }

    /// Returns the mounts for a command that starts in this folder, within these limits, with these
    /// repositories and their protected paths. Sockets that stay usable are named.
    pub(super) fn around(
        start: &Path,
        limits: &SandboxLimits,
        (repositories, kept): (&[PathBuf], &[PathBuf]),
        places: &SandboxPaths,
        devices: Option<Arc<FolderView>>,
    ) -> Option<Self> {
        if !Self::are_possible() {
            return None;
        }
        let (writable, usable, user_home) = (&limits.writable, &places.writable, &limits.user_home);
        let shelf = places.hermes_home.join("sandboxes");
        let sockets = HiddenSockets::find(user_home, usable);
        let memory = SHARED_MEMORY.iter().map(PathBuf::from);
        Some(Self {
            writable: texts(writable.iter().cloned().chain(memory)),
            fixed: texts(repositories.iter().filter(|git| is_real_folder(git)).cloned()),
            read_only: texts(kept.iter().cloned()),
            reopened: Vec::new(),
            views: Vec::new(),
            hidden: texts(sockets.single),
            closed_folders: texts(sockets.folders),
            closed_files: Vec::new(),
            empty_folder: empty_folder(&shelf).ok()?,
            start: text(start)?,
            user: UserMaps::needed(),
            devices,
        })
    }

    /// Protects the paths that the limits deny from being read and changed, and from being moved with the
    /// folders around them, where they lie in folders that the rules allow as a whole. Elsewhere the rules deny
    /// them, and a mount for each would cost the command milliseconds. The replacements of closed folders lie in
    /// the Hermes home.
    pub(super) fn with_protected_paths(
        mut self,
        limits: &SandboxLimits,
        protected: &ProtectedPaths,
        hermes_home: &Path,
    ) -> io::Result<Self> {
        let shelf = hermes_home.join("sandboxes");
        let mut views = Vec::new();
        let mut unreadable = BTreeSet::new();
        for closed in &protected.unreadable {
            let Ok(found) = closed.path.symlink_metadata() else { continue };
            unreadable.insert(closed.path.clone());
            let openings: Vec<PathBuf> =
                if found.is_dir() { closed.present_openings().cloned().collect() } else { Vec::new() };
            if !openings.is_empty() {
                views.push((closed.path.clone(), openings));
            } else if found.is_dir() {
                self.closed_folders.extend(text(&closed.path));
            } else {
                self.closed_files.extend(text(&closed.path));
            }
        }
        let mut unchangeable = BTreeSet::new();
        let mut reopened = Vec::new();
        for closed in protected.unchangeable.iter().filter(|closed| closed.path.symlink_metadata().is_ok()) {
            unchangeable.insert(closed.path.clone());
            reopened.extend(closed.present_openings().filter(|path| limits.writable.contains(path)).cloned());
        }
        if limits.is_home() {
            let entries = std::fs::read_dir(&limits.user_home).into_iter().flatten().flatten();
            let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
            unchangeable.extend(
                real.map(|entry| entry.path()).filter(|path| limits.protected_reason(path).is_some()),
            );
        }
        let around =
            unreadable.iter().chain(&unchangeable).flat_map(|path| folders_between(path, &limits.writable));
        self.fixed.extend(around.collect::<BTreeSet<_>>().iter().filter_map(text));
        // The folder that contains the replacements of the others comes last.
        views.sort_by_key(|(folder, _)| shelf.starts_with(folder));
        for (folder, openings) in &views {
            self.views.push(FolderView::of(folder, openings, &shelf)?);
        }
        self.reopened = texts(reopened);
        self.read_only.extend(texts(unchangeable.difference(&unreadable).cloned()));
        // Folders come before the paths within them.
        for list in [&mut self.fixed, &mut self.closed_folders, &mut self.closed_files] {
            list.sort();
            list.dedup();
        }
        Ok(self)
    }

    /// Enters the namespace and mounts. Makes only system calls, because it runs in a forked child.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.unshare()?;
        for path in &self.writable {
            unless_gone(mount(path, path, libc::MS_BIND | libc::MS_REC))?;
        }
        set_attributes(c"/", libc::AT_RECURSIVE, libc::MOUNT_ATTR_RDONLY, 0)?;
        for path in &self.writable {
            let whole = set_attributes(path, libc::AT_RECURSIVE, 0, libc::MOUNT_ATTR_RDONLY);
            // Something below may be permanently read-only.
            unless_gone(whole.or_else(|_| set_attributes(path, 0, 0, libc::MOUNT_ATTR_RDONLY)))?;
        }
        for path in self.fixed.iter().chain(&self.read_only) {
            unless_gone(mount(path, path, libc::MS_BIND | libc::MS_REC))?;
        }
        for path in &self.read_only {
            unless_gone(restrict(path, libc::MOUNT_ATTR_RDONLY))?;
        }
        for path in &self.reopened {
            unless_gone(mount(path, path, libc::MS_BIND | libc::MS_REC))?;
            unless_gone(set_attributes(path, 0, 0, libc::MOUNT_ATTR_RDONLY))?;
        }
        for path in &self.hidden {
            unless_gone(mount(NOTHING, path, libc::MS_BIND))?;
        }
        for path in &self.closed_folders {
            unless_gone(mount(&self.empty_folder, path, libc::MS_BIND))?;
            // Otherwise the owner of the folder could change its mode.
            unless_gone(restrict(path, libc::MOUNT_ATTR_RDONLY))?;
        }
        for path in &self.closed_files {
            unless_gone(mount(NOTHING, path, libc::MS_BIND))?;
            // A device file on a mount without devices cannot be opened, even by root.
            unless_gone(restrict(path, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV))?;
        }
        for view in &self.views {
            view.enter()?;
        }
        if let Some(devices) = &self.devices {
            devices.enter()?;
        }
        // The current folder still belongs to the old mounts, where everything is read-only. If the path is
        // not found, the process stays there.
        let _ = rustix::process::chdir(self.start.as_c_str());
        Ok(())
    }

    fn unshare(&self) -> io::Result<()> {
        let flags =
            if self.user.is_some() { libc::CLONE_NEWUSER | libc::CLONE_NEWNS } else { libc::CLONE_NEWNS };
        // SAFETY: the call takes a number and touches no memory.
        #[expect(unsafe_code, reason = "rustix marks it unsafe too")]
        checked(unsafe { libc::unshare(flags) })?;
        if let Some(UserMaps { user, group }) = &self.user {
            write(c"/proc/self/setgroups", b"deny")?;
            write(c"/proc/self/uid_map", user)?;
            write(c"/proc/self/gid_map", group)?;
        }
        mount(c"none", c"/", libc::MS_REC | libc::MS_SLAVE)
    }
}

/// Returns the folders between a path and the writable folder that contains it.
fn folders_between(path: &Path, open: &[PathBuf]) -> Vec<PathBuf> {
    let Some(root) =
        open.iter().filter(|root| path.starts_with(root)).max_by_key(|root| root.as_os_str().len())
    else {
        return Vec::new();
    };
    path.ancestors().skip(1).take_while(|above| above != root).map(Path::to_owned).collect()
}

/// Returns the paths without duplicates, folders before the paths within them.
fn texts(paths: impl IntoIterator<Item = PathBuf>) -> Vec<CString> {
    let mut paths: Vec<PathBuf> = paths.into_iter().collect();
    paths.sort();
    paths.dedup();
    paths.iter().filter_map(text).collect()
}

/// Returns an empty folder of Hermes that no user may open; creates it where it is missing.
fn empty_folder(shelf: &Path) -> io::Result<CString> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(shelf)?;
    let folder = shelf.join(".closed-folder");
    match std::fs::DirBuilder::new().mode(0o000).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o000))?;
    let odd = || io::Error::new(io::ErrorKind::InvalidInput, "the Hermes home has a zero in its name");
    text(&folder).ok_or_else(odd)
}

impl UserMaps {
    /// Returns the maps, if they are needed. Root needs no user namespace, and in one it would lose access to
    /// the files of other users.
    fn needed() -> Option<Self> {
        let (user, group) = (geteuid(), getegid());
        let line = |id: u32| format!("{id} {id} 1\n").into_bytes();
        (!user.is_root()).then(|| Self { user: line(user.as_raw()), group: line(group.as_raw()) })
    }
}

static POSSIBLE: LazyLock<bool> = LazyLock::new(|| {
    use std::os::unix::process::CommandExt;
    let Some(folder) = text("/usr") else { return false };
    let trial = Mounts {
        writable: vec![folder.clone()],
        fixed: Vec::new(),
        read_only: vec![folder],
        reopened: Vec::new(),
        views: Vec::new(),
        hidden: Vec::new(),
        closed_files: Vec::new(),
        closed_folders: Vec::new(),
        empty_folder: CString::default(),
        start: CString::default(),
        user: UserMaps::needed(),
        devices: None,
    };
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = std::process::Command::new("/bin/true");
    // SAFETY: the closure only makes system calls on values prepared before the fork; it neither allocates
    // nor locks.
    #[expect(unsafe_code, reason = "std has no safe way to act between fork and exec")]
    unsafe {
        command.pre_exec(move || trial.enter());
    }
    let possible = command.env_clear().status().is_ok_and(|status| status.success());
    tracing::debug!(possible, "whether commands can have a view of the folders of their own");
    possible
});

fn is_real_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

pub(super) fn text(path: impl AsRef<Path>) -> Option<CString> {
    CString::new(path.as_ref().as_os_str().as_bytes()).ok()
}

pub(super) fn mount(from: &CStr, to: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: both texts end with a zero and outlive the call; the other two pointers may be null.
    #[expect(unsafe_code, reason = "rustix's way allocates, which a forked child must not")]
    checked(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), ptr::null(), flags, ptr::null()) })
}

pub(super) fn restrict(path: &CStr, how: u64) -> io::Result<()> {
    set_attributes(path, 0, how, 0)
}

fn set_attributes(path: &CStr, flags: libc::c_int, set: u64, clear: u64) -> io::Result<()> {
    let wanted = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    // SAFETY: the text ends with a zero, the structure has the size that is given, and both outlive the call.
    #[expect(unsafe_code, reason = "rustix does not have mount_setattr")]
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const wanted,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn write(path: &CStr, bytes: &[u8]) -> io::Result<()> {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
    rustix::io::write(&file, bytes)?;
    Ok(())
}

/// Ignores the error for a path that vanished since it was found and needs no mount.
pub(super) fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result,
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
