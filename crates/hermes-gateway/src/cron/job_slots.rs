//! Limits how many jobs run at once.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The number of running jobs. The limit is read again at each attempt.
#[derive(Debug, Default)]
pub(crate) struct JobSlots {
    taken: Mutex<usize>,
    freed: Notify,
}

/// A slot, held until dropped.
#[derive(Debug)]
pub(super) struct JobSlotGuard(Arc<JobSlots>);

impl JobSlots {
    /// Waits until fewer than `most` slots are taken; without a limit it returns at once.
    pub(super) async fn acquire(self: &Arc<Self>, most: impl Fn() -> Option<usize>) -> JobSlotGuard {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // Enabled before the check, so that no wake-up is missed between the check and the wait.
            freed.as_mut().enable();
            if self.try_acquire(most()) {
                return JobSlotGuard(self.clone());
            }
            freed.await;
        }
    }

    fn try_acquire(&self, most: Option<usize>) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = most.is_none_or(|most| *taken < most.max(1));
        if free {
            *taken += 1;
        }
        free
    }
}

impl Drop for JobSlotGuard {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_waiters();
    }
}
