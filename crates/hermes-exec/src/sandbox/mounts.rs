//! A view of the folders made for the command: everything read-only but what it may write to, hooks and start-up files
//! read-only, secrets and sockets of programs that would act for it hidden.
//!
//! Landlock can only allow, and knows nothing of owners, modes and times of files; a mount namespace can take back what
//! it allows, and covers those too. It needs a user namespace, or to be root; where the system forbids both, this does
//! nothing and what a command changes is put back afterwards (`repository`). Asked once.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::LazyLock;

use rustix::process::{getegid, geteuid};

const NOTHING: &CStr = c"/dev/null";
/// Folders of devices that are memory, not hardware.
const SHARED_MEMORY: &[&str] = &["/dev/shm", "/dev/mqueue"];

/// What a child does to its view before anything else holds it in. Paths in each list stand above those within them.
#[derive(Debug)]
pub(super) struct Mounts {
    writable: Vec<CString>,
    /// Bound to themselves, so that they cannot be renamed.
    fixed: Vec<CString>,
    read_only: Vec<CString>,
    hidden: Vec<CString>,
    /// Files and folders with secrets, and what takes the place of the folders.
    closed_files: Vec<CString>,
    closed_folders: Vec<CString>,
    emptiness: CString,
    /// Where the command starts: entered once more, through the new view.
    start: CString,
    user: Option<UserMaps>,
}

/// Who we are inside a user namespace: the same as outside.
#[derive(Debug)]
struct UserMaps {
    user: Vec<u8>,
    group: Vec<u8>,
}

impl Mounts {
    /// Whether the system lets us.
    pub(super) fn are_possible() -> bool {
        *POSSIBLE
    }

    /// For a command that starts there and may write to these folders, with these repositories in them. Sockets that stay usable are named.
    pub(super) fn around(
        start: &Path,
        writable: &[PathBuf],
        repositories: &[PathBuf],
        usable: &[PathBuf],
    ) -> Option<Self> {
        if !Self::are_possible() {
            return None;
        }
        let hooks = repositories.iter().map(|git| git.join("hooks")).filter(|hooks| is_real_folder(hooks));
        let sockets = sockets().into_iter().filter(|path| path.exists() && !usable.contains(path));
        let memory = SHARED_MEMORY.iter().map(PathBuf::from);
        Some(Self {
            writable: texts(writable.iter().cloned().chain(memory)),
            fixed: texts(repositories.iter().filter(|git| is_real_folder(git)).cloned()),
            read_only: texts(hooks),
            hidden: texts(sockets),
            closed_files: Vec::new(),
            closed_folders: Vec::new(),
            emptiness: CString::default(),
            start: text(start)?,
            user: UserMaps::needed(),
        })
    }

    /// Also keeps these from being read, and those from being changed or moved away with the folders around them. An empty
    /// folder in `home` stands in for folders with secrets.
    pub(super) fn keeping(
        mut self,
        unreadable: &[PathBuf],
        unchangeable: &[PathBuf],
        open: &[PathBuf],
        home: &Path,
    ) -> io::Result<Self> {
        self.emptiness = empty_folder(home)?;
        let around = unreadable.iter().chain(unchangeable).flat_map(|path| ways_to(path, open));
        let fixed = self.fixed.iter().map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path.to_bytes())));
        self.fixed = texts(fixed.chain(around));
        let (folders, files): (Vec<_>, Vec<_>) =
            unreadable.iter().cloned().partition(|path| is_real_folder(path));
        self.closed_folders = texts(folders);
        self.closed_files = texts(files);
        let changeable = unchangeable.iter().filter(|path| !unreadable.contains(path));
        self.read_only.extend(texts(changeable.cloned()));
        Ok(self)
    }

    /// Makes system calls only: it runs in a forked child.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.unshare()?;
        for path in &self.writable {
            unless_gone(mount(path, path, libc::MS_BIND | libc::MS_REC))?;
        }
        set_attributes(c"/", libc::AT_RECURSIVE, libc::MOUNT_ATTR_RDONLY, 0)?;
        for path in &self.writable {
            let whole = set_attributes(path, libc::AT_RECURSIVE, 0, libc::MOUNT_ATTR_RDONLY);
            // Something below may be read-only for good.
            unless_gone(whole.or_else(|_| set_attributes(path, 0, 0, libc::MOUNT_ATTR_RDONLY)))?;
        }
        for path in self.fixed.iter().chain(&self.read_only) {
            unless_gone(mount(path, path, libc::MS_BIND | libc::MS_REC))?;
        }
        for path in &self.read_only {
            unless_gone(restrict(path, libc::MOUNT_ATTR_RDONLY))?;
        }
        for path in &self.hidden {
            unless_gone(mount(NOTHING, path, libc::MS_BIND))?;
        }
        for path in &self.closed_folders {
            unless_gone(mount(&self.emptiness, path, libc::MS_BIND))?;
            // Whose it is could otherwise open it.
            unless_gone(restrict(path, libc::MOUNT_ATTR_RDONLY))?;
        }
        for path in &self.closed_files {
            unless_gone(mount(NOTHING, path, libc::MS_BIND))?;
            // A device where there must be none: not even root can open it.
            unless_gone(restrict(path, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV))?;
        }
        // The folder we are in is still the one of the old view, where all is read-only. Not found: it stays that.
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

/// Sockets of programs that do what they are told, outside: start programs, type into terminals, hand out keys.
fn sockets() -> Vec<PathBuf> {
    let uid = geteuid().as_raw();
    let own = format!("/run/user/{uid}");
    let mut sockets: Vec<String> = ["bus", "systemd/private", "podman/podman.sock", "docker.sock"]
        .iter()
        .map(|name| format!("{own}/{name}"))
        .chain(
            ["/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"]
                .map(str::to_owned),
        )
        .collect();
    if uid == 0 {
        sockets.extend(["/run/dbus/system_bus_socket", "/run/systemd/private"].map(str::to_owned));
    }
    let mut found: Vec<PathBuf> = sockets.into_iter().map(PathBuf::from).collect();
    for folder in [format!("/tmp/tmux-{uid}"), format!("/run/screen/S-{uid}"), format!("{own}/keyring")] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        // An agent that signs is what `git push` needs.
        found.extend(entries.map(|entry| entry.path()).filter(|path| !path.ends_with("keyring/ssh")));
    }
    found
}

/// The folders between a path and the folder it may be written in.
fn ways_to(path: &Path, open: &[PathBuf]) -> Vec<PathBuf> {
    let Some(root) =
        open.iter().filter(|root| path.starts_with(root)).max_by_key(|root| root.as_os_str().len())
    else {
        return Vec::new();
    };
    path.ancestors().skip(1).take_while(|above| above != root).map(Path::to_owned).collect()
}

/// Without repeats, those above before those within them.
fn texts(paths: impl IntoIterator<Item = PathBuf>) -> Vec<CString> {
    let mut paths: Vec<PathBuf> = paths.into_iter().collect();
    paths.sort();
    paths.dedup();
    paths.iter().filter_map(text).collect()
}

/// A folder of ours that nobody may open and nothing is in; made where it is missing.
fn empty_folder(home: &Path) -> io::Result<CString> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    let shelf = home.join("sandboxes");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&shelf)?;
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
    /// Root can do without. In a namespace it would lose its power over the files of others.
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
        hidden: Vec::new(),
        closed_files: Vec::new(),
        closed_folders: Vec::new(),
        emptiness: CString::default(),
        start: CString::default(),
        user: UserMaps::needed(),
    };
    #[expect(clippy::disallowed_methods, reason = "this is the crate that starts processes")]
    let mut command = std::process::Command::new("/bin/true");
    // SAFETY: the closure only makes system calls on values prepared before the fork; it neither allocates nor locks.
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

fn text(path: impl AsRef<Path>) -> Option<CString> {
    CString::new(path.as_ref().as_os_str().as_bytes()).ok()
}

fn mount(from: &CStr, to: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: both texts end with a zero and outlive the call; the other two pointers may be null.
    #[expect(unsafe_code, reason = "rustix's way allocates, which a forked child must not")]
    checked(unsafe { libc::mount(from.as_ptr(), to.as_ptr(), ptr::null(), flags, ptr::null()) })
}

fn restrict(path: &CStr, how: u64) -> io::Result<()> {
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

/// What vanished since it was found needs no mount.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result,
    }
}

fn checked(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
