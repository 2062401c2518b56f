//! Files of the user's home that programs run by themselves, where they do not exist yet.
//!
//! What exists cannot be changed. What does not exist cannot be kept from being made where the home itself may be written to;
//! so what a command made of it is taken away again when it has ended.

use std::fs;
use std::path::{Path, PathBuf};

use super::secret::STARTUP;

/// What was not there before a command.
#[derive(Debug)]
pub(super) struct Startup {
    absent: Vec<PathBuf>,
}

impl Startup {
    pub(super) fn record(home: &Path) -> Self {
        let absent =
            STARTUP.iter().map(|name| home.join(name)).filter(|path| fs::symlink_metadata(path).is_err());
        Self { absent: absent.collect() }
    }

    /// Takes away what was made since. Says what that was.
    pub(super) fn restore(&self) -> Vec<String> {
        self.absent.iter().filter(|path| is_taken_away(path)).map(|path| path.display().to_string()).collect()
    }
}

fn is_taken_away(path: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    let removed = if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.inspect_err(|error| tracing::warn!(%error, "a start-up file a command made stays")).is_ok()
}
