//! Which files a tool must not write: keys, shell startup files, system files and files of Hermes.
//!
//! Both paths of a comparison are resolved to real paths, so that neither a link nor `..` bypasses it.

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

const OURS: &[&str] = &[
    "pairing",
    "platforms",
    "matrix",
    "matrix_session.json",
    "sessions",
    "state.db",
    "state.db-wal",
    "state.db-shm",
];

/// Folders that only an administrator changes, with more privileges than a tool has.
const SYSTEM_FOLDERS: &[&str] = &["/etc", "/boot", "/usr/lib/systemd", "/private/etc"];

/// The maximum length of a chain of links; a longer one is treated as a loop.
const MOST_LINKS: usize = 40;

const SOCKETS: &[&str] = &["/var/run/docker.sock", "/run/docker.sock"];

impl FileGuard {
    /// Returns why this file must not be written, if there is a reason. `given` is the path as the model wrote
    /// it; `users` are the homes whose secrets are protected.
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

    /// Tells whether a file holds keys, starts shells or stores Hermes' state. Such a file must not be written
    /// or shown.
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

/// Resolves every link of a path as far as it exists, and appends the missing rest as written.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let mut missing: Vec<OsString> = Vec::new();
    let mut at = path.to_owned();
    let mut links = 0;
    loop {
        if let Ok(real) = at.canonicalize() {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        // For a link to something that does not exist yet, the target of a write decides.
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
