//! Time as a port: the wall clock for recorded times, the monotonic clock for time limits.
//!
//! Nothing else in the workspace reads a clock, so tests run without waiting.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::BoxFuture;

/// Seconds since the Unix epoch, with fractions: the unit of every time column in `state.db`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub f64);

impl Timestamp {
    pub fn seconds(self) -> f64 {
        self.0
    }

    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0 + span.as_secs_f64())
    }

    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0 - span.as_secs_f64())
    }

    /// Returns how much later `self` is than `earlier`, or zero when the clock stepped backwards.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::try_from_secs_f64(self.0 - earlier.0).unwrap_or_default()
    }
}

/// Returns a wait that was doubled so many times, up to the longest.
pub fn doubling_wait(first: Duration, doublings: u32, longest: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(longest)
}

/// The clock that every crate reads.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the wall-clock time, which may step.
    fn now(&self) -> Timestamp;

    /// Returns the time since an arbitrary origin, which never steps.
    fn monotonic(&self) -> Duration;

    /// Completes once `monotonic` has advanced by `span`.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;
}

/// The instant, on the monotonic clock, by which a turn and everything it started must have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Duration);

impl Deadline {
    pub fn after(clock: &dyn Clock, span: Duration) -> Self {
        Self(clock.monotonic().saturating_add(span))
    }

    /// Returns the time left, or zero once the deadline has passed.
    pub fn remaining(self, clock: &dyn Clock) -> Duration {
        self.0.saturating_sub(clock.monotonic())
    }

    pub fn is_past(self, clock: &dyn Clock) -> bool {
        self.remaining(clock).is_zero()
    }

    /// Returns the earlier of this deadline and `span` from now, for a step with its own limit.
    #[must_use]
    pub fn at_most(self, clock: &dyn Clock, span: Duration) -> Self {
        self.min(Self::after(clock, span))
    }
}

/// A reader of the machine's clocks. It cannot sleep by itself: the crate with the async runtime wraps it and adds
/// that.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    origin: Instant,
}

impl Default for WallClock {
    fn default() -> Self {
        #[expect(clippy::disallowed_methods, reason = "this is the one reader of the clock")]
        Self { origin: Instant::now() }
    }
}

impl WallClock {
    pub fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the one reader of the clock")]
        let now = SystemTime::now();
        Timestamp(now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
    }

    pub fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}
