//! Who is there while a job runs: nobody, but its signs of life and what it costs are noticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_types::{Answer, BoxFuture, Cancel, Clock, Event, Frontend, Question};

/// Notices that something happens and what it costs, and answers no questions.
pub(super) struct Attendance {
    clock: Arc<dyn Clock>,
    /// Millionths of a dollar that may be spent, and what ends the run when they are.
    left: Option<u64>,
    spent: AtomicU64,
    cancel: Cancel,
    /// Milliseconds on the clock that never steps.
    last: AtomicU64,
}

impl Attendance {
    pub(super) fn new(clock: Arc<dyn Clock>, left: Option<u64>, cancel: Cancel) -> Self {
        let watch = Self { clock, left, spent: AtomicU64::new(0), cancel, last: AtomicU64::new(0) };
        watch.note();
        watch
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left.is_some_and(|left| self.spent.load(Ordering::Relaxed) >= left)
    }

    pub(super) async fn until_silent(&self, patience: Duration) {
        loop {
            let silent = Duration::from_millis(self.now().saturating_sub(self.last.load(Ordering::Relaxed)));
            match patience.checked_sub(silent).filter(|left| !left.is_zero()) {
                Some(left) => self.clock.sleep(left).await,
                None => return,
            }
        }
    }
}

impl Frontend for Attendance {
    fn show(&self, event: Event) {
        self.note();
        if let Event::Spent { cost, .. } = event {
            self.spent.fetch_add(cost.micro_usd.unwrap_or_default(), Ordering::Relaxed);
            if self.is_spent() {
                self.cancel.cancel();
            }
        }
    }

    fn ask<'a>(&'a self, _: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Unavailable))
    }
}
