//! A child with all it started, and ending it.
//!
//! Every child leads a group of its own, so one signal reaches all it started that did not leave on purpose. Those who left
//! are its kin (`kin.rs`), and end with it.

use std::time::Duration;

use hermes_types::Clock;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process, test_kill_process_group};

use crate::cell;
use crate::kin::{Family, Kin};
use crate::mark::Mark;

/// What a group gets to end by itself before it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// The group of a child we started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    leader: Pid,
    scope: Scope,
    mark: Option<Mark>,
}

/// Who ends with a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All it started, wherever that went.
    Kin,
    /// Its group alone. What a client leaves behind serves other calls too: a shared connection, the keeper of a container.
    Group,
}

impl Group {
    /// The group of a child that was started with this mark.
    pub(crate) fn led_by(pid: u32, scope: Scope, mark: Mark) -> Option<Self> {
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        Some(Self { leader, scope, mark: Some(mark) })
    }

    /// The group of a child an earlier run started.
    pub(crate) fn found(pid: u32) -> Option<Self> {
        let leader = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        Some(Self { leader, scope: Scope::Kin, mark: Mark::of(leader) })
    }

    fn family(self) -> Family {
        Family { leader: self.leader, mark: self.mark }
    }

    pub(crate) fn leader(self) -> Pid {
        self.leader
    }

    pub(crate) fn mark(self) -> Option<Mark> {
        self.mark
    }

    pub(crate) fn pid(self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// It was started just now.
    pub(crate) fn begin(self) {
        if self.scope == Scope::Kin {
            cell::watch(self.leader);
        }
    }

    /// Its leader has ended; what it left running may go on.
    pub(crate) fn let_go(self) {
        if self.scope == Scope::Kin {
            cell::forget(self.leader);
        }
    }

    pub(crate) fn kill(self) {
        if self.scope == Scope::Kin {
            // Before the leader, which is what they are known by.
            Kin::kill_all_of(self.family());
        }
        let _ = kill_process_group(self.leader, Signal::KILL);
    }

    pub(crate) fn leader_exists(self) -> bool {
        test_kill_process(self.leader).is_ok()
    }

    /// Ends it with its kin: a request, a second's grace, then the kill. The leader must be reaped meanwhile, or it may count
    /// as alive.
    pub(crate) async fn end(self, clock: &dyn Clock) {
        self.end_within(GRACE, clock).await;
    }

    /// The same with another grace.
    pub(crate) async fn end_within(self, grace: Duration, clock: &dyn Clock) {
        let kin = match self.scope {
            Scope::Kin => Kin::gather(self.family()).await,
            Scope::Group => Kin::Nobody,
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
    fn is_alive(self, kin: &Kin) -> bool {
        !kin.is_complete() && test_kill_process_group(self.leader).is_ok() || kin.is_alive()
    }
}
