//! A process of an earlier run of Hermes that still lives.
//!
//! Known by its pid and the moment it was started, because pids are given out again.

use std::fs;

use hermes_types::Clock;

use crate::group::ProcessGroup;
use crate::procfs::is_zombie;

/// Found again by its pid; its output is lost, but it can be watched and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveredProcess {
    group: ProcessGroup,
    started: Option<u64>,
}

impl RecoveredProcess {
    /// The process with this pid, if it lives and, where that is known, was started at the same moment.
    pub fn find(pid: u32, started: Option<u64>) -> Option<Self> {
        let found = Self { group: ProcessGroup::recovered(pid)?, started };
        found.is_alive().then_some(found)
    }

    /// The kernel's own figure for when a process was started; none where the system does not tell.
    pub fn start_time(pid: u32) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in brackets and may hold anything, brackets too; the 20th field after it is the time.
        stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
    }

    pub fn pid(&self) -> u32 {
        self.group.pid()
    }

    pub fn is_alive(&self) -> bool {
        // The group may outlive its leader; what was started is the leader.
        if !self.group.leader_exists() || is_zombie(self.group.leader()) {
            return false;
        }
        match (self.started, Self::start_time(self.pid())) {
            (Some(then), Some(now)) => then == now,
            _ => true,
        }
    }

    /// Ends it with all it started.
    pub async fn kill(&self, clock: &dyn Clock) {
        if self.is_alive() {
            self.group.terminate(clock).await;
        }
    }
}
