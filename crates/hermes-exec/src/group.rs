//! A child with all it started, and ending it.
//!
//! Every child leads a group of its own, so one signal reaches all it started that did not leave on purpose. Those who left
//! are its kin (`kin.rs`), and end with it.

use std::time::Duration;

use hermes_types::Clock;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process, test_kill_process_group};

use crate::cgroup;
use crate::mark::ProcessMark;
use crate::process_tree::{ProcessTree, ProcessTreeKey};

/// What a group gets to end by itself before it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// The group of a child we started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessGroup {
    leader: Pid,
    scope: KillScope,
    mark: Option<ProcessMark>,
}

/// Who ends with a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillScope {
    /// All it started, wherever that went.
    Tree,
    /// Its group alone. What a client leaves behind serves other calls too: a shared connection, the keeper of a container.
    Group,
}

impl ProcessGroup {
    /// The group of a child that was started with this mark.
    pub(crate) fn with_leader(pid: u32, scope: KillScope, mark: ProcessMark) -> Option<Self> {
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        Some(Self { leader, scope, mark: Some(mark) })
    }

    /// The group of a child an earlier run started.
    pub(crate) fn recovered(pid: u32) -> Option<Self> {
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        Some(Self { leader, scope: KillScope::Tree, mark: ProcessMark::of(leader) })
    }

    fn tree_key(self) -> ProcessTreeKey {
        ProcessTreeKey { leader: self.leader, mark: self.mark }
    }

    pub(crate) fn leader(self) -> Pid {
        self.leader
    }

    pub(crate) fn mark(self) -> Option<ProcessMark> {
        self.mark
    }

    pub(crate) fn pid(self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// It was started just now.
    pub(crate) fn register(self) {
        if self.scope == KillScope::Tree {
            cgroup::watch(self.leader);
        }
    }

    /// Its leader has ended; what it left running may go on.
    pub(crate) fn release(self) {
        if self.scope == KillScope::Tree {
            cgroup::forget(self.leader);
        }
    }

    pub(crate) fn kill(self) {
        if self.scope == KillScope::Tree {
            // Before the leader, which is what they are known by.
            ProcessTree::kill_tree(self.tree_key());
        }
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    pub(crate) fn leader_exists(self) -> bool {
        test_kill_process(self.leader).is_ok()
    }

    /// Ends it with its kin: a request, a second's grace, then the kill. The leader must be reaped meanwhile, or it may count
    /// as alive.
    pub(crate) async fn terminate(self, clock: &dyn Clock) {
        self.terminate_within(GRACE, clock).await;
    }

    /// The same with another grace.
    pub(crate) async fn terminate_within(self, grace: Duration, clock: &dyn Clock) {
        let kin = match self.scope {
            KillScope::Tree => ProcessTree::capture(self.tree_key()).await,
            KillScope::Group => ProcessTree::Empty,
        };
        for signal in [Signal::TERM, Signal::CONT] {
            // A stopped process cannot act on the request before it goes on. One that is gone already is no failure.
            kin.signal(signal);
            let _ = kill_process_group(self.leader, signal);
        }
        let end = clock.monotonic() + grace;
        let mut pause = FIRST_LOOK;
        while self.is_alive(&kin) && clock.monotonic() < end {
            clock.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
        if self.is_alive(&kin) {
            kin.kill();
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
        kin.release();
    }

    /// A group counts as alive until the last of its dead is reaped, which may take init a second; a cell does not.
    fn is_alive(self, kin: &ProcessTree) -> bool {
        !kin.is_complete() && test_kill_process_group(self.leader).is_ok() || kin.is_alive()
    }
}
