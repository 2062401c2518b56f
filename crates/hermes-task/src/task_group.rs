//! A group of tasks with one owner.

use std::borrow::Cow;
use std::future::Future;

use hermes_types::Cancel;
use tokio_util::task::TaskTracker;

use crate::task::{Task, spawn_cooperative, spawn_named};

/// A set of tasks that are cancelled together. Finished tasks use no memory, so a group may live as long as the
/// process. Dropping the group cancels its tasks; `shut_down` also waits for them.
#[derive(Debug)]
pub struct TaskGroup {
    tracker: TaskTracker,
    cancel: Cancel,
}

impl TaskGroup {
    /// Creates a group below `parent`: cancelling the parent cancels its tasks, cancelling the group leaves the
    /// parent alone.
    pub fn new(parent: &Cancel) -> Self {
        Self { tracker: TaskTracker::new(), cancel: parent.child_token() }
    }

    /// Starts work that is dropped at its current await when the group is cancelled.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        spawn_named(name, &self.cancel, self.tracker.track_future(work))
    }

    /// Starts work that ends by itself once the token passed to it is cancelled.
    pub fn spawn_cooperative<T, F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        work: impl FnOnce(Cancel) -> F,
    ) -> Task<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        spawn_cooperative(name, &self.cancel, |cancel| self.tracker.track_future(work(cancel)))
    }

    /// Returns the token that cancels every task in this group.
    pub fn cancel_token(&self) -> &Cancel {
        &self.cancel
    }

    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits until every task has ended by itself.
    pub async fn join(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Cancels every task and waits until the last has ended.
    pub async fn shut_down(&self) {
        self.cancel.cancel();
        self.join().await;
    }
}

impl Drop for TaskGroup {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
