//! Which files a tool must not write: keys, shells' start files, the system's and our own.
//!
//! Both sides are compared as the real paths they lead to, so no link and no `..` gets around it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::guard::{FileGuard, SECRET_IN_HOME};

const FILES_OF_USER: &[&str] = &[
    ".bashrc",
    ".zshrc",
    ".profile",
    ".bash_profile",
    ".zprofile",
    ".netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".hermes/.env",
];

const FOLDERS_OF_USER: &[&str] =
    &[".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".config/gh", ".config/gcloud"];

const OURS: &[&str] = &["pairing", "sessions", "state.db", "state.db-wal", "state.db-shm"];

/// Written with more rights than a tool has, by people who know why.
const SYSTEM_FOLDERS: &[&str] = &["/etc", "/boot", "/usr/lib/systemd", "/private/etc"];

/// A chain of links longer than this is a loop.
const MOST_LINKS: usize = 40;

const SOCKETS: &[&str] = &["/var/run/docker.sock", "/run/docker.sock"];

impl FileGuard {
    /// Why this file must not be written, if there is a reason. `given` is the path as the model wrote it; `users` are the
    /// homes whose secrets count.
    pub(crate) fn write_refusal(
        &self,
        given: &str,
        path: &Path,
        users: &[PathBuf],
        roots: &[PathBuf],
    ) -> Option<String> {
        let real = real_path(path);
        let is = |other: PathBuf| real == real_path(&other);
        let under = |other: PathBuf| real.starts_with(real_path(&other));
        let home = self.home();
        if self.belongs_to_keys(&real, users) {
            return Some(format!("Write denied: '{given}' is a protected system/credential file."));
        }
        if is(home.join("config.yaml")) {
            return Some(format!(
                "Write denied: '{given}' is Hermes' configuration; use `hermes config set` in the terminal."
            ));
        }
        let system = SYSTEM_FOLDERS.iter().any(|name| under(PathBuf::from(name)))
            || SOCKETS.iter().any(|name| is(PathBuf::from(name)));
        if system {
            return Some(format!(
                "Write denied: '{given}' is a protected system/credential file. Use the terminal with sudo if the user wants it changed."
            ));
        }
        if !roots.is_empty() && !roots.iter().any(|root| under(root.clone())) {
            return Some(format!("Write denied: '{given}' lies outside the folders writing is allowed in."));
        }
        None
    }

    /// Whether it holds keys, starts shells, or is what Hermes remembers: not to be written, nor shown around.
    pub(crate) fn is_protected(&self, path: &Path) -> bool {
        self.belongs_to_keys(&real_path(path), &[self.user_home().to_owned()])
    }

    fn belongs_to_keys(&self, real: &Path, users: &[PathBuf]) -> bool {
        let under = |other: PathBuf| real.starts_with(real_path(&other));
        let of_user = |user: &PathBuf| {
            FILES_OF_USER.iter().any(|name| real == real_path(&user.join(name)))
                || FOLDERS_OF_USER.iter().any(|name| under(user.join(name)))
        };
        users.iter().any(of_user)
            || SECRET_IN_HOME.iter().chain(OURS).any(|name| under(self.home().join(name)))
    }
}

/// The path with every link followed as far as it exists; what does not exist yet is added as written.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let mut missing: Vec<OsString> = Vec::new();
    let mut at = path.to_owned();
    let mut links = 0;
    loop {
        if let Ok(real) = at.canonicalize() {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        // A link to something that does not exist yet: what counts is where a write would end up.
        if let Ok(target) = std::fs::read_link(&at)
            && links < MOST_LINKS
        {
            links += 1;
            at = at.parent().unwrap_or(Path::new("/")).join(target);
            continue;
        }
        let (Some(name), Some(parent)) = (at.file_name(), at.parent()) else { return path.to_owned() };
        missing.push(name.to_owned());
        at = parent.to_owned();
    }
}
