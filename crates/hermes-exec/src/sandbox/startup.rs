//! Files of the user's home that programs run by themselves, where they do not exist yet.
//!
//! What exists cannot be changed. What does not exist cannot be kept from being made where the home itself may be written to;
//! so what a command made of it is taken away again when it has ended.

use std::fs;
use std::path::{Path, PathBuf};

/// Read by shells, git and ssh without being asked to.
const FILES: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".gitconfig",
    ".ssh/authorized_keys",
    ".ssh/config",
    ".ssh/rc",
    ".ssh/environment",
    ".pam_environment",
    ".xprofile",
    ".xsessionrc",
];

/// What was not there before a command.
#[derive(Debug)]
pub(super) struct Startup {
    absent: Vec<PathBuf>,
}

impl Startup {
    pub(super) fn record(home: &Path) -> Self {
        let absent =
            FILES.iter().map(|name| home.join(name)).filter(|path| fs::symlink_metadata(path).is_err());
        Self { absent: absent.collect() }
    }

    /// Takes away what was made since. Says what that was.
    pub(super) fn restore(&self) -> Vec<String> {
        let made =
            self.absent.iter().filter(|path| fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir()));
        made.filter(|path| fs::remove_file(path).is_ok()).map(|path| path.display().to_string()).collect()
    }
}
