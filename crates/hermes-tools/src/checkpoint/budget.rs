//! How much a look at a project may cost.
//!
//! A snapshot is there to make work safer, not slower: whoever waits for it waits a second at most, and not at all once they
//! have been interrupted. What was read until then is remembered, so that the next one comes further.

use std::io;
use std::time::Duration;

use hermes_types::{Cancel, Clock};

/// What a command or a write waits at most.
pub(crate) const SHORT_LIMIT: Duration = Duration::from_secs(1);
/// What somebody waits who asked for it.
const LONG_LIMIT: Duration = Duration::from_mins(1);

#[derive(Clone, Copy)]
pub(super) struct SnapshotBudget<'a> {
    pub(super) clock: &'a dyn Clock,
    stop: Option<&'a Cancel>,
    limit: Duration,
    began: Duration,
    /// Larger files are left out, in bytes.
    pub(super) max_file_bytes: u64,
}

impl<'a> SnapshotBudget<'a> {
    /// Somebody waits for something else.
    pub(super) fn short(clock: &'a dyn Clock, max_file_bytes: u64, stop: &'a Cancel) -> Self {
        Self { clock, stop: Some(stop), limit: SHORT_LIMIT, began: clock.monotonic(), max_file_bytes }
    }

    /// Somebody waits for this.
    pub(super) fn long(clock: &'a dyn Clock, max_file_bytes: u64) -> Self {
        Self { clock, stop: None, limit: LONG_LIMIT, began: clock.monotonic(), max_file_bytes }
    }

    /// Fails when it has been enough.
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
