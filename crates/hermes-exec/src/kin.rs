//! Everyone a child started, also those who left its group.
//!
//! Where control groups can be divided they sit in a cell, and none escapes. Elsewhere they are known by descent as long
//! as the child itself lives, which adopts what its descendants leave behind, and by the mark they carry.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use crate::cell::{self, Cell};
use crate::descent::descendants;
use crate::mark::Mark;

/// How often it is looked again for somebody who was born meanwhile.
const MOST_ROUNDS: usize = 20;

/// Those who end with a child.
#[derive(Debug)]
pub(crate) enum Kin {
    Enclosed(Cell),
    Known(Family),
    Nobody,
}

/// What a child's kin are known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) leader: Pid,
    pub(crate) mark: Option<Mark>,
}

impl Kin {
    /// In a cell if there can be one: the leader is about to end, and nobody must be lost sight of then.
    pub(crate) async fn gather(family: Family) -> Self {
        enclose(family.leader).await.map_or(Self::Known(family), Self::Enclosed)
    }

    /// Kills all of a family at once, without waiting for anything.
    pub(crate) fn kill_all_of(family: Family) {
        // Both: somebody may be on the way into the cell at this moment, and the leader may be gone.
        family.kill();
        if let Some(cell) = Cell::of(family.leader) {
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
            Self::Enclosed(cell) => cell.kill(),
            Self::Known(family) => family.kill(),
            Self::Nobody => {}
        }
    }

    /// Whether any of them lives, as far as is known once the leader is gone.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::Enclosed(cell) => !cell.members().is_empty(),
            Self::Known(family) => !family.carriers().is_empty(),
            Self::Nobody => false,
        }
    }

    /// Whether nobody of the child's group is outside of what is counted here.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Enclosed(_))
    }

    /// All that can be done was done.
    pub(crate) fn release(self) {
        if let Self::Enclosed(cell) = self {
            cell::release(cell);
        }
    }

    fn members(&self) -> HashSet<Pid> {
        match self {
            Self::Enclosed(cell) => cell.members(),
            Self::Known(family) => family.members(),
            Self::Nobody => HashSet::new(),
        }
    }
}

impl Family {
    fn carriers(self) -> HashSet<Pid> {
        self.mark.map(Mark::carriers).unwrap_or_default()
    }

    fn members(self) -> HashSet<Pid> {
        let mut members = descendants(self.leader);
        members.extend(self.carriers());
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
async fn enclose(leader: Pid) -> Option<Cell> {
    cell::prefix()?;
    let (answer, made) = oneshot::channel();
    let thread = std::thread::Builder::new().name("cell".to_owned());
    // Nobody waits any more when the call was dropped; then the leader's own end takes the cell back.
    thread.spawn(move || answer.send(Cell::gather(leader))).ok()?;
    made.await.ok().flatten()
}
