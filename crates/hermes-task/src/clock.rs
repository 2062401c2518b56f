//! The machine's clock, with the runtime's timers.

use std::time::Duration;

use hermes_types::{BoxFuture, Clock, Timestamp, WallClock};

/// What the product runs on; tests use the testkit's clock instead.
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
        // The block defers the timer to the first poll, so that a clock may be asked outside a runtime.
        Box::pin(async move { tokio::time::sleep(span).await })
    }
}
