//! A process that an earlier run of Hermes started and that still runs.
//!
//! It is identified by its pid and its start time, because pids are reused.

use std::fs;

use hermes_types::Clock;

use crate::group::ProcessGroup;
use crate::procfs::is_zombie;

/// A process found by its pid; its output is lost, but it can be observed and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveredProcess {
    group: ProcessGroup,
    started: Option<u64>,
}

impl RecoveredProcess {
    /// Returns the process with this pid if it lives and, where the start time is known, was started at that
    /// time.
    pub fn find(pid: u32, started: Option<u64>) -> Option<Self> {
        let found = Self { group: ProcessGroup::recovered(pid)?, started };
        found.is_alive().then_some(found)
    }

    /// Returns the kernel's start time of a process; `None` where the system does not provide it.
    pub fn start_time(pid: u32) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets and may contain any characters, including brackets; the 20th field after it
        // is the time.
        stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
    }

    pub fn pid(&self) -> u32 {
        self.group.pid()
    }

    pub fn is_alive(&self) -> bool {
        // The group may outlive its leader; the process that was started is the leader.
        if !self.group.leader_exists() || is_zombie(self.group.leader()) {
            return false;
        }
        match (self.started, Self::start_time(self.pid())) {
            (Some(then), Some(now)) => then == now,
            _ => true,
        }
    }

    /// Ends the process with all processes it started.
    pub async fn kill(&self, clock: &dyn Clock) {
        if self.is_alive() {
            self.group.terminate(clock).await;
        }
    }
}
