//! Finds sockets of programs that act on requests outside the sandbox: they start programs, type into
//! terminals, draw on the screen, hand out keys or run containers. They are found by the usual places of such
//! programs, and, in the user's home, by being sockets.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The sockets of the system, for every user.
const SYSTEM: &[&str] = &[
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/buildkit/buildkitd.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/io.system.ManagedOOM",
    "/run/snapd.socket",
    "/run/snapd-snap.socket",
    "/run/libvirt/libvirt-sock",
    "/run/libvirt/virtqemud-sock",
    "/var/lib/incus/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/var/lib/lxd/unix.socket",
    "/run/tailscale/tailscaled.sock",
    "/run/acpid.socket",
    "/run/uuidd/request",
    "/run/gssproxy.sock",
    "/run/pcscd/pcscd.comm",
];
/// The prefixes of folders in a temporary folder in which programs keep such sockets.
const IN_TEMPORARY: &[&str] = &[
    ".X11-unix",
    ".ICE-unix",
    ".XIM-unix",
    "tmux-",
    "ssh-",
    "emacs",
    "nvim",
    "vscode-",
    "kitty",
    "wezterm",
    "zellij",
    "screen",
    "screens",
    "gpg-",
    "dbus-",
    "com.apple",
    "sway-ipc",
    "i3-",
    "ksocket-",
    "orbit-",
    "mc-",
    "keyring-",
    "agent.",
    "wayland-",
    "hypr",
    "dtach",
    "abduco",
    "xpra",
];
/// The folders of the home in which sockets may be deeply nested.
const DEEP: &[&str] = &[
    ".docker",
    ".colima",
    ".lima",
    ".rd",
    ".orbstack",
    ".local/share/containers",
    ".gnupg",
    ".ssh",
    ".emacs.d/server",
    ".local/state",
    ".config/emacs/server",
    ".vscode-server",
    ".screen",
    ".tmux",
    ".wezterm",
    ".config/zellij",
    ".cache/zellij",
    ".dbus",
    ".byobu",
    ".local/share/kitty",
    ".pulse",
    ".mpd",
];
const MOST_DEPTH: usize = 3;
const MOST_ENTRIES: usize = 400;

/// The paths to hide.
#[derive(Debug, Default)]
pub(super) struct HiddenSockets {
    /// The sockets that are hidden individually.
    pub(super) single: Vec<PathBuf>,
    /// The folders that are hidden with the sockets in them.
    pub(super) folders: Vec<PathBuf>,
}

impl HiddenSockets {
    /// Finds the sockets, except those in `usable`.
    pub(super) fn find(user_home: &Path, usable: &[PathBuf]) -> Self {
        let uid = geteuid().as_raw();
        let mut found = Self::default();
        let runtime = PathBuf::from(format!("/run/user/{uid}"));
        // A folder that contains a usable socket is searched instead.
        let is_usable = |path: &Path| usable.iter().any(|usable| usable.starts_with(path));
        let mut open = vec![];
        if is_usable(&runtime) {
            open.push((runtime, MOST_DEPTH));
        } else {
            found.folders.push(runtime);
        }
        found.single.extend(SYSTEM.iter().map(PathBuf::from));
        found.folders.push(PathBuf::from(format!("/run/screen/S-{uid}")));
        for temporary in ["/tmp", "/var/tmp", "/run/screen"] {
            for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let known =
                    IN_TEMPORARY.iter().any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()));
                let mine = || entry.metadata().is_ok_and(|meta| meta.uid() == uid || meta.uid() == 0);
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() && known && mine() && holds_socket(&entry.path()) => {
                        found.folders.push(entry.path());
                    }
                    Ok(kind) if kind.is_socket() && known => found.single.push(entry.path()),
                    _ => {}
                }
            }
        }
        open.extend(DEEP.iter().map(|name| (user_home.join(name), MOST_DEPTH)));
        open.push((user_home.to_owned(), 1));
        while let Some((folder, depth)) = open.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES) {
                match entry.file_type() {
                    Ok(kind) if kind.is_socket() => found.single.push(entry.path()),
                    Ok(kind) if kind.is_dir() && depth > 1 => open.push((entry.path(), depth - 1)),
                    _ => {}
                }
            }
        }
        found.single.retain(|path| !usable.contains(path) && path.exists());
        found
            .folders
            .retain(|path| !is_usable(path) && path.symlink_metadata().is_ok_and(|found| found.is_dir()));
        found
    }
}

/// Tells whether a folder holds a socket; an empty folder counts too, because a program may create its socket
/// later.
fn holds_socket(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MOST_ENTRIES).peekable();
    entries.peek().is_none() || entries.any(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
}
