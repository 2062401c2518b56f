//! Brings earlier downloads of the user into a cache of Hermes, without copying them.
//!
//! Files become links, and folders are created. The links lead to the user's own folders, which commands can
//! read and not write, so a command that replaces a file changes only the Hermes cache. The links are updated
//! once a day, in the background.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Limits how many files are brought; further ones are downloaded again.
const MOST_FILES: usize = 50_000;
/// The name of the file whose time is that of the last update.
const DONE: &str = ".linked";
const DAY: Duration = Duration::from_hours(24);

/// Selects how a file is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bring {
    Link,
    Copy,
}

/// The paths to bring, each as source and target.
#[derive(Debug, Default)]
pub(super) struct Brought {
    pub(super) linked: Vec<(PathBuf, PathBuf)>,
    pub(super) copied: Vec<(PathBuf, PathBuf)>,
    /// The single files to link.
    pub(super) settings: Vec<(PathBuf, PathBuf)>,
}

/// Selects when an update is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing was brought so far, so the command waits for it.
    Now,
    /// The update runs in the background.
    Beside,
    No,
}

impl Brought {
    pub(super) fn due(&self, folder: &Path) -> Due {
        let found = fs::metadata(folder.join(DONE)).and_then(|found| found.modified());
        let Some(age) = found.ok().and_then(|at| at.elapsed().ok()) else { return Due::Now };
        if !self.settings.iter().all(|(from, to)| is_link(from, to)) {
            Due::Now
        } else if age > DAY {
            Due::Beside
        } else {
            Due::No
        }
    }

    /// Brings the files. Commands can replace folders there with links, so this must be called on a thread
    /// that can write no more than they can.
    pub(super) fn bring(self, folder: &Path) {
        // This comes first, so that other processes do not repeat the work.
        let _ = fs::write(folder.join(DONE), "");
        for (from, to) in &self.settings {
            if !is_link(from, to) {
                let _ = to.parent().map(fs::create_dir_all);
                let _ = fs::remove_file(to);
                let _ = symlink(from, to);
            }
        }
        let mut left = MOST_FILES;
        let linked = self.linked.into_iter().map(|pair| (pair, Bring::Link));
        for ((from, to), how) in linked.chain(self.copied.into_iter().map(|pair| (pair, Bring::Copy))) {
            if let Err(error) = bring_all(&from, &to, how, &mut left) {
                tracing::debug!(%error, from = %from.display(), "a cache could not be brought to commands");
            }
        }
    }
}

fn is_link(from: &Path, to: &Path) -> bool {
    fs::read_link(to).is_ok_and(|target| target == from)
}

fn bring_all(from: &Path, to: &Path, how: Bring, left: &mut usize) -> io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)?.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let place = to.join(entry.file_name());
        if kind.is_dir() {
            bring_all(&entry.path(), &place, how, left)?;
            continue;
        }
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        if place.symlink_metadata().is_ok() {
            continue;
        }
        match how {
            // A link within a cache is relative, and has the same meaning in the Hermes cache.
            Bring::Link if kind.is_symlink() => symlink(fs::read_link(entry.path())?, &place)?,
            Bring::Link => symlink(entry.path(), &place)?,
            Bring::Copy if kind.is_file() => {
                fs::copy(entry.path(), &place)?;
            }
            Bring::Copy => {}
        }
    }
    Ok(())
}
