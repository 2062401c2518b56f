//! Clocks for tests: one that only the test moves, and the system clock for the standalone server.

use std::sync::Arc;
use std::time::Duration;

use hermes_types::{BoxFuture, Clock, Timestamp, WallClock};

use crate::watched_value::WatchedValue;

/// A clock that stands still until a test moves it. Clones share the same time.
#[derive(Debug, Clone, Default)]
pub struct TestClock(Arc<WatchedValue<ClockState>>);

#[derive(Debug)]
struct ClockState {
    wall: Timestamp,
    monotonic: Duration,
    sleepers: usize,
    slept: Vec<Duration>,
    auto_up_to: Option<Duration>,
}

impl Default for ClockState {
    fn default() -> Self {
        Self {
            // 2026-01-02 03:04:05 UTC: every field differs, so a test that confuses two of them fails.
            wall: Timestamp(1_767_323_045.0),
            monotonic: Duration::ZERO,
            sleepers: 0,
            slept: Vec::new(),
            auto_up_to: None,
        }
    }
}

impl TestClock {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a clock on which every sleep ends at once and advances the time by its length.
    pub fn auto_advance() -> Self {
        Self::auto_advance_up_to(Duration::MAX)
    }

    /// Works like [`TestClock::auto_advance`] for sleeps of at most `limit`: retry delays pass, long timeouts do
    /// not.
    pub fn auto_advance_up_to(limit: Duration) -> Self {
        let clock = Self::default();
        clock.0.update(|face| face.auto_up_to = Some(limit));
        clock
    }

    /// Sets the time of day, forwards or backwards; the monotonic clock does not change.
    pub fn set_wall(&self, wall: Timestamp) {
        self.0.update(|face| face.wall = wall);
    }

    /// Advances both clocks and ends every sleep that is then over.
    pub fn advance(&self, span: Duration) {
        self.0.update(|face| face.pass(span));
    }

    /// Returns the length of every sleep begun so far, in order.
    pub fn slept(&self) -> Vec<Duration> {
        self.0.read(|face| face.slept.clone())
    }

    /// Waits until at least `count` sleeps have begun, so that [`TestClock::advance`] affects them.
    pub async fn wait_for_sleepers(&self, count: usize) {
        self.0.until(|face| (face.sleepers >= count).then_some(())).await;
    }

    #[track_caller]
    pub fn wait_for_sleepers_blocking(&self, count: usize) {
        self.0.until_blocking(&format!("{count} sleepers"), |face| (face.sleepers >= count).then_some(()));
    }
}

impl ClockState {
    fn pass(&mut self, span: Duration) {
        self.monotonic = self.monotonic.saturating_add(span);
        self.wall = self.wall.plus(span);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.0.read(|face| face.wall)
    }

    fn monotonic(&self) -> Duration {
        self.0.read(|face| face.monotonic)
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        let (deadline, asleep) = self.0.update(|face| {
            face.slept.push(span);
            if face.auto_up_to.is_some_and(|limit| span <= limit) {
                face.pass(span);
                return (face.monotonic, false);
            }
            face.sleepers += 1;
            (face.monotonic.saturating_add(span), true)
        });
        let sleeper = asleep.then(|| Sleeper(self.0.clone()));
        let face = self.0.clone();
        Box::pin(async move {
            face.until(|face| (face.monotonic >= deadline).then_some(())).await;
            drop(sleeper);
        })
    }
}

/// Decrements the number of sleeps when dropped, whether it ended or was cancelled.
struct Sleeper(Arc<WatchedValue<ClockState>>);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.update(|face| face.sleepers = face.sleepers.saturating_sub(1));
    }
}

/// The system clock with the runtime's timers, for the standalone server and scripts that use real time.
#[derive(Debug, Clone, Default)]
pub struct RealClock(WallClock);

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        // The async block defers the timer to the first poll, so that a sleep may be created outside a runtime.
        Box::pin(async move { tokio::time::sleep(span).await })
    }
}
