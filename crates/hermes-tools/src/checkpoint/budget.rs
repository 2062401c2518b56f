//! Limits the time that a scan of a project may take.
//!
//! A snapshot must not slow down work: a caller waits for it at most one second, and not at all after a
//! cancellation. Files that were read until then are cached, so that the next scan gets further.

use std::io;
use std::time::Duration;

use hermes_types::{Cancel, Clock};

/// The maximum time that a command or a write waits for a snapshot.
pub(crate) const SHORT_LIMIT: Duration = Duration::from_secs(1);
/// The maximum time of an operation that the user requested.
const LONG_LIMIT: Duration = Duration::from_mins(1);

#[derive(Clone, Copy)]
pub(super) struct SnapshotBudget<'a> {
    pub(super) clock: &'a dyn Clock,
    stop: Option<&'a Cancel>,
    limit: Duration,
    began: Duration,
    /// The size in bytes above which files are left out.
    pub(super) max_file_bytes: u64,
}

impl<'a> SnapshotBudget<'a> {
    /// Creates a budget for a snapshot that delays other work.
    pub(super) fn short(clock: &'a dyn Clock, max_file_bytes: u64, stop: &'a Cancel) -> Self {
        Self { clock, stop: Some(stop), limit: SHORT_LIMIT, began: clock.monotonic(), max_file_bytes }
    }

    /// Creates a budget for an operation that the user requested.
    pub(super) fn long(clock: &'a dyn Clock, max_file_bytes: u64) -> Self {
        Self { clock, stop: None, limit: LONG_LIMIT, began: clock.monotonic(), max_file_bytes }
    }

    /// Fails if the budget was used up or cancelled.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.stop.is_some_and(Cancel::is_cancelled) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "it was interrupted"));
        }
        if self.clock.monotonic().saturating_sub(self.began) > self.limit {
            return Err(io::Error::other(format!("it takes longer than {} s", self.limit.as_secs())));
        }
        Ok(())
    }
}
