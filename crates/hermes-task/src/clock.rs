//! The system clock: wall time, and sleeping on the runtime's timers.

use std::time::Duration;

use hermes_types::{BoxFuture, Clock, Timestamp, WallClock};

/// The clock the program runs on; tests use the clock of hermes-testkit instead.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock(WallClock);

impl SystemClock {
    pub fn new() -> Self {
        Self::default()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        // The block defers creating the timer to the first poll, so that `sleep` may be called outside a runtime.
        Box::pin(async move { tokio::time::sleep(span).await })
    }
}
