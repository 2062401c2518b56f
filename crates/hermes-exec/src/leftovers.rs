//! What our shells have left on another machine, written down here so that a later connection can remove it.
//!
//! One empty file for each: its name says where it is, who left it there, and what it is called. Invariant: what a living
//! process has written down is its own business.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, getpid, test_kill_process};

use crate::procfs::parse_pid;

const ENDING: &str = ".left";
/// Who has let go of something without removing it.
const NOBODY: &str = "0";

/// The list for one machine.
#[derive(Debug)]
pub(crate) struct Leftovers {
    folder: PathBuf,
    /// Stands for the machine; plain letters.
    machine: String,
}

/// Something nobody uses any more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) id: String,
    note: PathBuf,
}

impl Leftovers {
    /// `folder` is private to this user.
    pub(crate) fn new(folder: &Path, machine: String) -> Self {
        Self { folder: folder.to_owned(), machine }
    }

    fn note(&self, owner: &str, id: &str) -> PathBuf {
        self.folder.join(format!("{}-{owner}-{id}{ENDING}", self.machine))
    }

    /// It is about to be put there.
    pub(crate) fn add(&self, id: &str) {
        // Without a note it stays there if the worst comes; nothing else depends on it.
        let _ = fs::write(self.note(&own_number(), id), "");
    }

    /// It was removed.
    pub(crate) fn forget(&self, id: &str) {
        let _ = fs::remove_file(self.note(&own_number(), id));
    }

    /// It is of no more use and could not be removed.
    pub(crate) fn mark_abandoned(&self, id: &str) {
        let _ = fs::rename(self.note(&own_number(), id), self.note(NOBODY, id));
    }

    /// What can be removed.
    pub(crate) fn orphaned(&self) -> Vec<Leftover> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| self.read(&entry.path())).collect()
    }

    fn read(&self, note: &Path) -> Option<Leftover> {
        let name = note.file_name()?.to_str()?.strip_suffix(ENDING)?;
        let (owner, id) = name.strip_prefix(&self.machine)?.strip_prefix('-')?.split_once('-')?;
        let is_plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_hexdigit());
        let lives = |pid: Pid| test_kill_process(pid).is_ok();
        (is_plain && (owner == NOBODY || parse_pid(owner).is_some_and(|pid| !lives(pid))))
            .then(|| Leftover { id: id.to_owned(), note: note.to_owned() })
    }
}

impl Leftover {
    /// It was removed.
    pub(crate) fn mark_removed(self) {
        let _ = fs::remove_file(self.note);
    }
}

fn own_number() -> String {
    getpid().as_raw_nonzero().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_living_holds_can_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let left = Leftovers::new(folder.path(), "ab12".to_owned());
        let ids = || {
            let mut ids: Vec<String> = left.orphaned().into_iter().map(|left| left.id).collect();
            ids.sort();
            ids
        };
        left.add("a1");
        left.add("b2");
        assert!(ids().is_empty(), "we live");
        left.forget("a1");
        left.mark_abandoned("b2");
        let dead = i32::MAX;
        for name in
            [format!("ab12-{dead}-c3.left"), format!("ab12-{dead}-$(x).left"), "cd34-0-d4.left".to_owned()]
        {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(ids(), ["b2", "c3"]);
        left.orphaned().into_iter().for_each(Leftover::mark_removed);
        assert!(ids().is_empty());
    }
}
