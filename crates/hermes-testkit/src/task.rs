//! The only module of this crate that starts tasks.

use std::future::Future;

use tokio::task::{AbortHandle, JoinSet};

/// A task that ends when this is dropped, together with every task in sets it owns.
#[derive(Debug)]
pub(crate) struct OwnedTask(AbortHandle);

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "testkit depends on hermes-types alone; the owner's drop ends the task"
)]
pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) -> OwnedTask {
    OwnedTask(tokio::spawn(work).abort_handle())
}

/// Starts a task that belongs to `set` and ends with it.
pub(crate) fn start_in(set: &mut JoinSet<()>, work: impl Future<Output = ()> + Send + 'static) {
    set.spawn(work);
}
