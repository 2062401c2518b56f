//! A value that asynchronous and blocking tests can wait on.
//!
//! Every change wakes every waiter, which looks again; that is cheap at the scale of a test and cannot lose a wake-up.

use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// How long a blocking wait goes on before it is taken for a broken test. Never reached when things work.
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

    /// Waits until `look` finds what it looks for; it may also take it out.
    pub(crate) async fn until<R>(&self, mut look: impl FnMut(&mut T) -> Option<R>) -> R {
        loop {
            let notified = self.notify.notified();
            tokio::pin!(notified);
            // Registered before looking, so that a change between the look and the wait still wakes us.
            notified.as_mut().enable();
            let found = look(&mut self.lock());
            if let Some(found) = found {
                return found;
            }
            notified.await;
        }
    }

    /// The same for tests without a runtime. Panics, saying what was awaited, when it never comes.
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
