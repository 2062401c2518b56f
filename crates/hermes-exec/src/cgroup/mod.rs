//! Control groups that hold one child and all processes it started, also those that left its process group.
//!
//! Joining one makes the kernel wait for milliseconds, so a child gets its control group only when it lasts
//! (`assigner.rs`) or is to be ended. A process cannot leave a control group by forking, and one write to the
//! kernel ends all members. A control group is removed when its child is over; processes that the child left
//! running on purpose are moved back to the control group of Hermes.

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

/// Limits how often the search for newly started processes is repeated.
const MOST_ROUNDS: usize = 20;
/// The time a killed process has to exit before the next round.
const MOMENT: Duration = Duration::from_millis(10);
const MOST_MOMENTS: usize = 100;

/// The control group of one child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Returns the control group that this process made for the leader, if there is one.
    pub(crate) fn of(leader: Pid) -> Option<Self> {
        hierarchy::folder_for(leader).filter(|folder| folder.is_dir()).map(|folder| Self { folder })
    }

    /// Returns the control group that another process, which is gone, made for this leader.
    pub(crate) fn left_by(maker: &str, leader: Pid) -> Option<Self> {
        hierarchy::folder_made_by(maker, leader)
            .filter(|folder| folder.is_dir())
            .map(|folder| Self { folder })
    }

    /// Moves a leader and all its descendants into its control group, which is created if there is none.
    /// Takes milliseconds where a process is still outside.
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
        // The leader is moved first: processes that it starts from then on are created inside.
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
                // A process that has exited meanwhile need not be moved.
                let _ = join(&self.folder, pid);
            }
        }
        Ok(())
    }

    /// Returns the living members.
    pub(crate) fn members(&self) -> HashSet<Pid> {
        let list = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        list.lines().filter_map(parse_pid).collect()
    }

    /// Kills all members at once.
    pub(crate) fn kill(&self) {
        if fs::write(self.folder.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        // Linux before 5.14 has no `cgroup.kill`.
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

    /// Moves the living members back and removes the control group.
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
