//! Brings what a user has fetched before into a cache of ours, without a copy of it.
//!
//! Files become links, folders are made. The links lead into the user's own folders, where commands can read and not write: what
//! they change is a file of ours. Looked at again once a day, beside the commands.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// More files than this are not brought: then they are fetched again.
const MOST_FILES: usize = 50_000;
/// Says when it was done last.
const DONE: &str = ".linked";
const DAY: Duration = Duration::from_hours(24);

/// How a file is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bring {
    Link,
    Copy,
}

/// What is brought, each from where to where.
#[derive(Debug, Default)]
pub(super) struct Brought {
    pub(super) linked: Vec<(PathBuf, PathBuf)>,
    pub(super) copied: Vec<(PathBuf, PathBuf)>,
    /// Single files, linked.
    pub(super) settings: Vec<(PathBuf, PathBuf)>,
}

/// When it is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing was brought so far: who wants it waits.
    Now,
    /// Beside everything else.
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

    /// Does it. Commands can put links in the place of folders there, so this must be called on a thread that can write no more
    /// than they can.
    pub(super) fn bring(self, folder: &Path) {
        // First, so that others need not do the same.
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
            // One within a cache is relative, and means the same in ours.
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
