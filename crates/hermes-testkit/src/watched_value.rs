//! A value that asynchronous and blocking tests can wait on.
//!
//! Every change wakes every waiter, which checks again; that is cheap at the scale of a test and cannot lose a
//! wake-up.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Limits a blocking wait, after which the test counts as broken. Never reached when things work.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(crate) struct WatchedValue<T> {
    value: Mutex<T>,
    changed: Condvar,
    notify: Notify,
}

impl<T: fmt::Debug> WatchedValue<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Condvar::new(), notify: Notify::new() }
    }

    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        self.notify.notify_waiters();
        result
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Waits until `look` returns a value; it may also change the watched one.
    pub(crate) async fn until<R>(&self, mut look: impl FnMut(&mut T) -> Option<R>) -> R {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            // Registered before the check, so that a change between the check and the wait still wakes this waiter.
            notified.as_mut().enable();
            let found = look(&mut self.lock());
            if let Some(found) = found {
                return found;
            }
            notified.await;
        }
    }

    /// Waits without a runtime. Panics, naming what was awaited, after the time limit.
    #[track_caller]
    pub(crate) fn until_blocking<R>(&self, what: &str, mut look: impl FnMut(&mut T) -> Option<R>) -> R {
        let mut guard = self.lock();
        loop {
            if let Some(found) = look(&mut guard) {
                return found;
            }
            let (next, wait) =
                self.changed.wait_timeout(guard, PATIENCE).unwrap_or_else(PoisonError::into_inner);
            guard = next;
            assert!(!wait.timed_out(), "waited {PATIENCE:?} in vain for {what}; state: {:#?}", *guard);
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
