//! The process tree of a child: all processes it started, also those that left its group.
//!
//! Where control groups can be divided, the processes are in a control group of their own, and none escapes.
//! Elsewhere they are found by descent as long as the child lives, because it adopts orphaned descendants,
//! and by the mark they carry.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use crate::cgroup::{self, Cgroup};
use crate::mark::ProcessMark;
use crate::procfs::descendants;

/// Limits how often the search for newly started processes is repeated.
const MOST_ROUNDS: usize = 20;

/// The processes that end with a child.
#[derive(Debug)]
pub(crate) enum ProcessTree {
    InCgroup(Cgroup),
    Tracked(ProcessTreeKey),
    Empty,
}

/// Identifies the processes of a child's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessTreeKey {
    pub(crate) leader: Pid,
    pub(crate) mark: Option<ProcessMark>,
}

impl ProcessTree {
    /// Captures the tree, in a control group if possible: the leader is about to exit, and every process must
    /// stay known after that.
    pub(crate) async fn capture(family: ProcessTreeKey) -> Self {
        move_to_cgroup(family.leader).await.map_or(Self::Tracked(family), Self::InCgroup)
    }

    /// Kills all processes of a tree at once, without waiting for anything.
    pub(crate) fn kill_tree(family: ProcessTreeKey) {
        // Both ways are needed: a process may be moving into the control group at this moment, and the leader
        // may be gone.
        family.kill();
        if let Some(cell) = Cgroup::of(family.leader) {
            cell.kill();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        for pid in self.members() {
            let _ = kill_process(pid, signal);
        }
    }

    pub(crate) fn kill(&self) {
        match self {
            Self::InCgroup(cell) => cell.kill(),
            Self::Tracked(family) => family.kill(),
            Self::Empty => {}
        }
    }

    /// Tells whether any process of the tree lives, as far as that is known once the leader is gone.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::InCgroup(cell) => !cell.members().is_empty(),
            Self::Tracked(family) => !family.marked_processes().is_empty(),
            Self::Empty => false,
        }
    }

    /// Tells whether the tree is known to include every process of the child's group.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::InCgroup(_))
    }

    /// Releases the control group after all processes were signalled.
    pub(crate) fn release(self) {
        if let Self::InCgroup(cell) = self {
            cgroup::release(cell);
        }
    }

    fn members(&self) -> HashSet<Pid> {
        match self {
            Self::InCgroup(cell) => cell.members(),
            Self::Tracked(family) => family.members(),
            Self::Empty => HashSet::new(),
        }
    }
}

impl ProcessTreeKey {
    fn marked_processes(self) -> HashSet<Pid> {
        self.mark.map(ProcessMark::marked_processes).unwrap_or_default()
    }

    fn members(self) -> HashSet<Pid> {
        let mut members = descendants(self.leader);
        members.extend(self.marked_processes());
        members.remove(&self.leader);
        members
    }

    /// Kills the tree in rounds. Children of a killed process are adopted by the leader and found there, or
    /// by their mark, in the next round. The leader is killed last, because the others are identified by it.
    fn kill(self) {
        let mut killed = HashSet::new();
        for _ in 0..MOST_ROUNDS {
            let left: Vec<Pid> = self.members().into_iter().filter(|pid| killed.insert(*pid)).collect();
            if left.is_empty() {
                return;
            }
            for pid in left {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Moves the tree into a control group, on a thread of its own, because the kernel takes milliseconds for it.
async fn move_to_cgroup(leader: Pid) -> Option<Cgroup> {
    cgroup::prefix()?;
    let (answer, made) = oneshot::channel();
    let thread = std::thread::Builder::new().name("cell".to_owned());
    // The receiver is gone when the call was dropped; then the control group is removed when the leader
    // exits.
    thread.spawn(move || answer.send(Cgroup::capture(leader))).ok()?;
    made.await.ok().flatten()
}
