//! Everyone a child started, also those who left its group.
//!
//! Where control groups can be divided they sit in a cell, and none escapes. Elsewhere they are known by descent as long
//! as the child itself lives, which adopts what its descendants leave behind, and by the mark they carry.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use crate::cgroup::{self, Cgroup};
use crate::mark::ProcessMark;
use crate::procfs::descendants;

/// How often it is looked again for somebody who was born meanwhile.
const MOST_ROUNDS: usize = 20;

/// Those who end with a child.
#[derive(Debug)]
pub(crate) enum ProcessTree {
    InCgroup(Cgroup),
    Tracked(ProcessTreeKey),
    Empty,
}

/// What a child's kin are known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessTreeKey {
    pub(crate) leader: Pid,
    pub(crate) mark: Option<ProcessMark>,
}

impl ProcessTree {
    /// In a cell if there can be one: the leader is about to end, and nobody must be lost sight of then.
    pub(crate) async fn capture(family: ProcessTreeKey) -> Self {
        move_to_cgroup(family.leader).await.map_or(Self::Tracked(family), Self::InCgroup)
    }

    /// Kills all of a family at once, without waiting for anything.
    pub(crate) fn kill_tree(family: ProcessTreeKey) {
        // Both: somebody may be on the way into the cell at this moment, and the leader may be gone.
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

    /// Whether any of them lives, as far as is known once the leader is gone.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::InCgroup(cell) => !cell.members().is_empty(),
            Self::Tracked(family) => !family.marked_processes().is_empty(),
            Self::Empty => false,
        }
    }

    /// Whether nobody of the child's group is outside of what is counted here.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::InCgroup(_))
    }

    /// All that can be done was done.
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

    /// Those below one that is killed come to the leader, and are found there, or by their mark, in the next round. The
    /// leader is last: it is what they are known by.
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

/// On a thread of its own, because the kernel takes its time.
async fn move_to_cgroup(leader: Pid) -> Option<Cgroup> {
    cgroup::prefix()?;
    let (answer, made) = oneshot::channel();
    let thread = std::thread::Builder::new().name("cell".to_owned());
    // Nobody waits any more when the call was dropped; then the leader's own end takes the cell back.
    thread.spawn(move || answer.send(Cgroup::capture(leader))).ok()?;
    made.await.ok().flatten()
}
