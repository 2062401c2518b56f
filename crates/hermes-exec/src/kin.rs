//! Everyone a child started, also those who left its group.
//!
//! Where control groups can be divided they sit in a cell, and none escapes. Elsewhere they are known by descent as long
//! as the child itself lives, which adopts what its descendants leave behind.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use crate::cell::{self, Cell};
use crate::descent::descendants;

/// How often it is looked again for somebody who was born meanwhile.
const MOST_ROUNDS: usize = 20;

/// Those who end with a child.
#[derive(Debug)]
pub(crate) enum Kin {
    Enclosed(Cell),
    Descended(Pid),
    Nobody,
}

impl Kin {
    /// In a cell if there can be one: the leader is about to end, and nobody must be lost sight of then.
    pub(crate) async fn gather(leader: Pid) -> Self {
        enclose(leader).await.map_or(Self::Descended(leader), Self::Enclosed)
    }

    /// Kills all of a leader's at once, without waiting for anything.
    pub(crate) fn kill_all_of(leader: Pid) {
        // Both: somebody may be on the way into the cell at this moment, and the leader may be gone.
        kill_descendants(leader);
        if let Some(cell) = Cell::of(leader) {
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
            Self::Descended(leader) => kill_descendants(*leader),
            Self::Nobody => {}
        }
    }

    /// Whether any of them lives, the leader too; none where that is not known once the leader is gone.
    pub(crate) fn is_alive(&self) -> Option<bool> {
        match self {
            Self::Enclosed(cell) => Some(!cell.members().is_empty()),
            Self::Descended(_) | Self::Nobody => None,
        }
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
            Self::Descended(leader) => descendants(*leader),
            Self::Nobody => HashSet::new(),
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

/// Those below one that is killed come to the leader, and are found there in the next round.
fn kill_descendants(leader: Pid) {
    let mut killed = HashSet::new();
    for _ in 0..MOST_ROUNDS {
        let left: Vec<Pid> = descendants(leader).into_iter().filter(|pid| killed.insert(*pid)).collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
