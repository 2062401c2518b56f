//! The process group of a child, and how it is ended.
//!
//! Every child leads a group of its own, so one signal reaches all processes it started that did not leave
//! the group. Those that left belong to its process tree (`process_tree.rs`) and end with it.

use std::time::Duration;

use hermes_types::Clock;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process, test_kill_process_group};

use crate::cgroup;
use crate::mark::ProcessMark;
use crate::process_tree::{ProcessTree, ProcessTreeKey};

/// The time a group has to end by itself before it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// The process group of a child that Hermes started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessGroup {
    leader: Pid,
    scope: KillScope,
    mark: Option<ProcessMark>,
}

/// Selects which processes end with a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillScope {
    /// All processes it started, in whichever group or session they are.
    Tree,
    /// Its process group alone. Processes that a client leaves behind serve other calls too, such as a shared
    /// connection or the monitor of a container.
    Group,
}

impl ProcessGroup {
    /// Returns the group of a child that was started with this mark.
    pub(crate) fn with_leader(pid: u32, scope: KillScope, mark: ProcessMark) -> Option<Self> {
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        Some(Self { leader, scope, mark: Some(mark) })
    }

    /// Returns the group of a child that an earlier run started.
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

    /// Registers a group that was just started.
    pub(crate) fn register(self) {
        if self.scope == KillScope::Tree {
            cgroup::watch(self.leader);
        }
    }

    /// Unregisters the group because its leader has exited; processes it left running may go on.
    pub(crate) fn release(self) {
        if self.scope == KillScope::Tree {
            cgroup::forget(self.leader);
        }
    }

    pub(crate) fn kill(self) {
        if self.scope == KillScope::Tree {
            // The tree is killed before the leader, because its members are identified by the leader.
            ProcessTree::kill_tree(self.tree_key());
        }
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    pub(crate) fn leader_exists(self) -> bool {
        test_kill_process(self.leader).is_ok()
    }

    /// Ends the group with its process tree: a termination request, a second of grace, then a kill. The
    /// leader must be reaped meanwhile, or it may count as alive.
    pub(crate) async fn terminate(self, clock: &dyn Clock) {
        self.terminate_within(GRACE, clock).await;
    }

    /// Ends the group as [`Self::terminate`] does, with another grace period.
    pub(crate) async fn terminate_within(self, grace: Duration, clock: &dyn Clock) {
        let tree = match self.scope {
            KillScope::Tree => ProcessTree::capture(self.tree_key()).await,
            KillScope::Group => ProcessTree::Empty,
        };
        for signal in [Signal::TERM, Signal::CONT] {
            // A stopped process cannot act on the request before it continues. One that has exited already is
            // no failure.
            tree.signal(signal);
            let _ = kill_process_group(self.leader, signal);
        }
        let end = clock.monotonic() + grace;
        let mut pause = FIRST_LOOK;
        while self.is_alive(&tree) && clock.monotonic() < end {
            clock.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
        if self.is_alive(&tree) {
            tree.kill();
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
        tree.release();
    }

    /// Tells whether a process of the group or tree is alive. A group counts as alive until its last zombie
    /// is reaped, which may take init a second; a control group does not.
    fn is_alive(self, tree: &ProcessTree) -> bool {
        !tree.is_complete() && test_kill_process_group(self.leader).is_ok() || tree.is_alive()
    }
}
