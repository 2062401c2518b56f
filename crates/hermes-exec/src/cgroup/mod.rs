//! A cell: a control group that holds one child and all it started, also what left its process group.
//!
//! Joining one makes the kernel wait for milliseconds, so a child gets its cell only when it lasts (`warden.rs`) or is to
//! be ended. Who sits in a cell cannot leave it by forking; ending it is one word to the kernel. A cell is removed when its
//! child is over; what the child left running on purpose is put back where we are ourselves.

mod assigner;
mod hierarchy;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::procfs::{descendants, parse_pid};

pub(crate) use assigner::{forget, release, watch};
pub(crate) use hierarchy::prefix;

/// How often it is looked again for somebody who was born meanwhile.
const MOST_ROUNDS: usize = 20;
/// What somebody who was killed gets to be gone.
const MOMENT: Duration = Duration::from_millis(10);
const MOST_MOMENTS: usize = 100;

/// The control group of one child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// The cell we made for this leader, if it has one.
    pub(crate) fn of(leader: Pid) -> Option<Self> {
        hierarchy::folder_for(leader).filter(|folder| folder.is_dir()).map(|folder| Self { folder })
    }

    /// Returns the cell that another process, which is gone, made for this leader.
    pub(crate) fn left_by(maker: &str, leader: Pid) -> Option<Self> {
        hierarchy::folder_made_by(maker, leader)
            .filter(|folder| folder.is_dir())
            .map(|folder| Self { folder })
    }

    /// Puts a leader and all below it into its cell, which is made if there is none. Takes milliseconds where somebody is
    /// still outside.
    pub(crate) fn capture(leader: Pid) -> Option<Self> {
        let cell = Self { folder: hierarchy::folder_for(leader)? };
        cell.fill(leader)
            .inspect_err(|error| {
                tracing::debug!(%error, folder = %cell.folder.display(), "a cell could not be filled");
                let _ = fs::remove_dir(&cell.folder);
            })
            .ok()?;
        Some(cell)
    }

    fn fill(&self, leader: Pid) -> io::Result<()> {
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // The leader first: whoever it starts from now on is born inside.
        if !self.members().contains(&leader) {
            join(&self.folder, leader)?;
        }
        let mut moved = HashSet::new();
        for _ in 0..MOST_ROUNDS {
            let inside = self.members();
            let outside: Vec<Pid> = descendants(leader)
                .into_iter()
                .filter(|pid| !inside.contains(pid) && moved.insert(*pid))
                .collect();
            if outside.is_empty() {
                break;
            }
            for pid in outside {
                // One that has ended meanwhile need not be moved.
                let _ = join(&self.folder, pid);
            }
        }
        Ok(())
    }

    /// Who lives in it.
    pub(crate) fn members(&self) -> HashSet<Pid> {
        let list = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        list.lines().filter_map(parse_pid).collect()
    }

    /// Ends everyone in it at once.
    pub(crate) fn kill(&self) {
        if fs::write(self.folder.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        // Linux before 5.14 has no such word.
        for _ in 0..MOST_ROUNDS {
            let left = self.members();
            if left.is_empty() {
                return;
            }
            for pid in left {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Puts back who still lives in it and removes it.
    fn remove(self) {
        for _ in 0..MOST_MOMENTS {
            if let Some(outer) = self.folder.parent() {
                for pid in self.members() {
                    let _ = join(outer, pid);
                }
            }
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(MOMENT),
                _ => return,
            }
        }
        tracing::debug!(folder = %self.folder.display(), "a cell could not be removed");
    }
}

fn join(folder: &Path, pid: Pid) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), pid.as_raw_nonzero().to_string())
}
