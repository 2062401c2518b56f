//! Classifies paths for the rules.

use std::borrow::Cow;

use super::unwrap::{is_glob, matches_glob};

/// Folders that contain the operating system.
const SYSTEM: &[&str] = &[
    "/home",
    "/root",
    "/etc",
    "/usr",
    "/var",
    "/bin",
    "/sbin",
    "/boot",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/dev",
    "/proc",
    "/sys",
    "/System",
    "/Library",
    "/Users",
    "/Applications",
];
/// The folders of these that may never be deleted recursively.
const NEVER: &[&str] = &[
    "/", "~", "/home", "/root", "/etc", "/usr", "/var", "/bin", "/sbin", "/boot", "/lib", "/lib64", "/Users",
    "/System",
];

const RC_FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".config/fish/config.fish",
];
const CREDENTIAL_FILES: &[&str] =
    &[".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".aws/credentials"];

const AUTOSTART: &[&str] = &[
    "~/.config/autostart",
    "~/.config/systemd/user",
    "~/.local/share/systemd/user",
    "~/Library/LaunchAgents",
    "/Library/LaunchDaemons",
    "/var/spool/cron",
];
/// Files and folders that contain keys and passwords.
const SECRETS: &[&str] = &[
    ".ssh/",
    ".aws/",
    ".gnupg",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".hermes/.env",
    ".hermes/auth.json",
    ".kube/config",
    ".docker/config.json",
    "/etc/shadow",
    ".config/gcloud",
    ".password-store",
];

/// The effect of writing to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SensitivePath {
    BlockDevice,
    SystemConfig,
    SshFolder,
    StartupFile,
    Credentials,
    HermesFile,
    /// Files there are started at every login or boot.
    Autostart,
}

/// Returns a path without `//`, `/./`, `x/..` and a final slash; `*` at the end means the folder itself.
pub(super) fn collapse(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.last().is_some_and(|last| *last != ".." && *last != "~") {
                    parts.pop();
                } else if !absolute {
                    parts.push("..");
                }
            }
            part => parts.push(spelled_out(part, absolute && parts.is_empty())),
        }
    }
    while parts.len() > usize::from(!absolute)
        && parts.last().is_some_and(|last| matches!(*last, "*" | ".*" | "{*,.*}"))
    {
        parts.pop();
    }
    let joined = parts.join("/");
    if absolute { format!("/{joined}") } else { joined }
}

/// Tells whether deleting the whole path is never allowed.
pub(super) fn is_vital(path: &str) -> bool {
    let collapsed = collapse(path);
    NEVER.contains(&collapsed.as_str())
}

/// Returns the name of a sensitive file or folder that a pattern can stand for: `.bash?c`, `et[c]`.
fn spelled_out(part: &str, is_first: bool) -> &str {
    const OTHERS: &[&str] = &[
        "sda",
        "nvme0n1",
        "vda",
        ".ssh",
        ".aws",
        ".hermes",
        ".env",
        "config.yaml",
        "auth.json",
        "shadow",
        "sys",
    ];
    // A pattern of little else than wildcards means many files, and rules look at those as they are.
    let literal = part.chars().filter(|c| !matches!(c, '*' | '?' | '[' | ']')).count();
    if !is_glob(part) || literal < if is_first { 1 } else { 2 } {
        return part;
    }
    let folders = SYSTEM.iter().map(|folder| folder.trim_start_matches('/')).filter(|_| is_first);
    let files = [OTHERS, RC_FILES, CREDENTIAL_FILES].into_iter().flatten().copied().filter(|_| !is_first);
    folders.chain(files).find(|name| matches_glob(part, name)).unwrap_or(part)
}

pub(super) fn is_temporary(path: &str) -> bool {
    let path = collapse(path);
    ["/tmp/", "/var/tmp/", "/dev/shm/", "/private/tmp/"].iter().any(|folder| path.starts_with(folder))
}

pub(super) fn is_block_device(path: &str) -> bool {
    let path = collapse(path);
    let Some(name) = path.strip_prefix("/dev/") else { return false };
    ["sd", "nvme", "hd", "mmcblk", "vd", "xvd", "disk", "rdisk", "dm-", "mapper/"]
        .iter()
        .any(|kind| name.starts_with(kind))
}

pub(super) fn sensitive(path: &str) -> Option<SensitivePath> {
    if is_block_device(path) {
        return Some(SensitivePath::BlockDevice);
    }
    let path = collapse(path);
    if path == "/etc"
        || path.starts_with("/etc/")
        || path.starts_with("/boot/")
        || path.starts_with("/proc/sys")
        || path.starts_with("/usr/lib/systemd")
    {
        return Some(SensitivePath::SystemConfig);
    }
    if path.ends_with("/.ssh") || path.contains("/.ssh/") || path.starts_with(".ssh/") {
        return Some(SensitivePath::SshFolder);
    }
    let lies_in =
        |folder: &str| path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if AUTOSTART.iter().any(|folder| lies_in(folder)) {
        return Some(SensitivePath::Autostart);
    }
    if let Some(file) = path.strip_prefix("~/") {
        if RC_FILES.contains(&file) {
            return Some(SensitivePath::StartupFile);
        }
        if CREDENTIAL_FILES.contains(&file) {
            return Some(SensitivePath::Credentials);
        }
    }
    let hermes = path.split_once(".hermes/").map(|(_, file)| file);
    if hermes.is_some_and(|file| {
        matches!(file, ".env" | "config.yaml" | "auth.json" | "SOUL.md" | "processes.json")
    }) {
        return Some(SensitivePath::HermesFile);
    }
    None
}

/// Tells whether a path contains keys or passwords. Public keys, `known_hosts` and `.ssh/config` do not count.
pub(super) fn is_secret(path: &str) -> bool {
    let path = if is_glob(path) { Cow::Owned(collapse(path)) } else { Cow::Borrowed(path) };
    let public = [".pub", "known_hosts", ".ssh/config"].iter().any(|ending| path.ends_with(ending));
    !public
        && (path == ".env"
            || path.ends_with("/.env")
            || path.ends_with("/.ssh")
            || path.ends_with("/.aws")
            || SECRETS.iter().any(|part| path.contains(part)))
}

/// Tells whether a path is a whole system folder.
pub(super) fn is_system_folder(path: &str) -> bool {
    let path = collapse(path);
    path == "/" || SYSTEM.contains(&path.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_collapse() {
        for path in
            ["/", "//", "/.", "/*", "/./", "/usr/..", "/etc/", "~/", "~/*", "/home/*", "~/x/..", "/.*"]
        {
            assert!(is_vital(path), "{path}");
        }
        for path in ["*", ".", "..", "/tmp", "/usr/local", "~/x", "/home/me/x", "./", ""] {
            assert!(!is_vital(path), "{path}");
        }
    }
}
