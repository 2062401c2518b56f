//! Finds the project folder of a file, and recognizes folders that are not projects.

use std::path::{Path, PathBuf};

const MARKS: [&str; 9] = [
    ".git",
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "Makefile",
    "pom.xml",
    ".hg",
    "Gemfile",
];

/// Shared and system folders, which are not projects but may contain some.
const SHARED: &[&str] = &[
    "/",
    "/Users",
    "/bin",
    "/boot",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/media",
    "/mnt",
    "/opt",
    "/private/tmp",
    "/root",
    "/sbin",
    "/srv",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/share",
    "/usr/sbin",
    "/usr/share",
    "/usr/src",
    "/var",
    "/var/lib",
    "/var/log",
    "/var/tmp",
];
/// Folders of the kernel; nothing inside is a project.
const NOT_ON_DISK: &[&str] = &["/dev", "/proc", "/run", "/sys"];

/// Tells whether a folder is a system folder or contains the user's home.
pub(super) fn is_too_wide(root: &Path, user_home: &Path) -> bool {
    user_home.starts_with(root)
        || SHARED.iter().any(|shared| root == Path::new(shared))
        || NOT_ON_DISK.iter().any(|unreal| root.starts_with(unreal))
}

/// Returns the nearest parent folder below the user's home that looks like a project. Without one, returns the
/// folder of the file, or the nearest one that exists.
pub(super) fn root_of(path: &Path, user_home: &Path) -> PathBuf {
    let start = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let above = || start.ancestors().take_while(|folder| *folder != user_home && folder.parent().is_some());
    above()
        .find(|folder| MARKS.iter().any(|mark| folder.join(mark).exists()))
        .or_else(|| above().find(|folder| folder.is_dir()))
        .unwrap_or(start)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_neither_the_system_nor_all_a_user_has() {
        let wide = |root: &str| is_too_wide(Path::new(root), Path::new("/home/me"));
        for root in
            ["/", "/home", "/home/me", "/tmp", "/usr", "/usr/lib", "/etc", "/proc", "/proc/1/fd", "/dev/shm"]
        {
            assert!(wide(root), "{root}");
        }
        for root in
            ["/home/me/work", "/tmp/x", "/usr/src/app", "/etc/nginx", "/srv/site", "/work", "/home/you"]
        {
            assert!(!wide(root), "{root}");
        }
    }
}
