//! Files of the user's home that programs run by themselves, where they do not exist yet.
//!
//! What exists cannot be changed. What does not exist cannot be kept from being made where the home itself may be written to;
//! so what a command made of it is taken aside when it has ended.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_types::random_hex;

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

    /// Takes aside what was made since: nobody runs it there, and nothing is lost if it was the user's own doing. Says what.
    pub(super) fn restore(&self) -> Vec<String> {
        self.absent.iter().filter_map(|path| taken_aside(path)).collect()
    }
}

fn taken_aside(path: &Path) -> Option<String> {
    fs::symlink_metadata(path).ok()?;
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".taken-aside-{}", random_hex(6)));
    match fs::rename(path, &aside) {
        Ok(()) => Some(format!("{} (it is at {} now)", path.display(), Path::new(&aside).display())),
        Err(error) => {
            tracing::warn!(%error, file = %path.display(), "a start-up file a command made stays");
            Some(format!("{} was made and could not be taken aside: {error}", path.display()))
        }
    }
}
