//! A process group, and ending it.
//!
//! Every child leads a group of its own, so one signal reaches all it started that did not leave on purpose.

use std::time::Duration;

use hermes_types::Clock;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process, test_kill_process_group};

/// What a group gets to end by itself before it is killed.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// The group of a child we started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group(Pid);

impl Group {
    pub(crate) fn led_by(pid: u32) -> Option<Self> {
        i32::try_from(pid).ok().and_then(Pid::from_raw).map(Self)
    }

    pub(crate) fn pid(self) -> u32 {
        self.0.as_raw_nonzero().get().unsigned_abs()
    }

    /// Asks to end. A group that is gone already is no failure.
    pub(crate) fn terminate(self) {
        let _ = kill_process_group(self.0, Signal::TERM);
        // A stopped process cannot act on the request before it goes on.
        let _ = kill_process_group(self.0, Signal::CONT);
    }

    pub(crate) fn kill(self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }

    pub(crate) fn is_alive(self) -> bool {
        test_kill_process_group(self.0).is_ok()
    }

    pub(crate) fn leader_exists(self) -> bool {
        test_kill_process(self.0).is_ok()
    }

    /// Ends every member: a request, a second's grace, then the kill. The leader must be reaped meanwhile, or it counts
    /// as alive.
    pub(crate) async fn end(self, clock: &dyn Clock) {
        self.end_within(GRACE, clock).await;
    }

    /// The same with another grace.
    pub(crate) async fn end_within(self, grace: Duration, clock: &dyn Clock) {
        self.terminate();
        let end = clock.monotonic() + grace;
        let mut pause = FIRST_LOOK;
        while self.is_alive() && clock.monotonic() < end {
            clock.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
        }
        if self.is_alive() {
            self.kill();
        }
    }
}
