//! Records of the files that remote shells have left on another machine, kept here so that a later connection
//! can remove them.
//!
//! Each record is one empty file whose name holds the machine, the process that left the file and the id of
//! the file. Invariant: only the process that wrote a record acts on it, as long as that process lives.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, getpid, test_kill_process};

use crate::procfs::parse_pid;

const ENDING: &str = ".left";
/// The owner in the record of a file that was released without being removed.
const NOBODY: &str = "0";

/// The records for one machine.
#[derive(Debug)]
pub(crate) struct Leftovers {
    folder: PathBuf,
    /// The identifier of the machine, in plain letters.
    machine: String,
}

/// A file on the other machine that is no longer used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub(crate) id: String,
    note: PathBuf,
}

impl Leftovers {
    /// Returns the records kept in `folder`, which is private to this user.
    pub(crate) fn new(folder: &Path, machine: String) -> Self {
        Self { folder: folder.to_owned(), machine }
    }

    fn note(&self, owner: &str, id: &str) -> PathBuf {
        self.folder.join(format!("{}-{owner}-{id}{ENDING}", self.machine))
    }

    /// Records a file that is about to be created.
    pub(crate) fn add(&self, id: &str) {
        // Without a record the file stays there if the connection breaks; nothing else depends on the record.
        let _ = fs::write(self.note(&own_number(), id), "");
    }

    /// Deletes the record of a file that was removed.
    pub(crate) fn forget(&self, id: &str) {
        let _ = fs::remove_file(self.note(&own_number(), id));
    }

    /// Records that a file is no longer used and could not be removed.
    pub(crate) fn mark_abandoned(&self, id: &str) {
        let _ = fs::rename(self.note(&own_number(), id), self.note(NOBODY, id));
    }

    /// Returns the files that can be removed.
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
    /// Deletes the record after the file was removed.
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
