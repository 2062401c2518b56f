//! The queue of what a service is told: in order, one after another, without anybody waiting.
//!
//! Invariant: the queue is bounded. When it is full, the oldest entry is dropped and the caller is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Clock};
use tokio::sync::watch;

/// The most entries that wait.
const MOST_WAITING: usize = 256;

pub(crate) type QueuedWork = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// Whether something had to be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueRoom {
    Enough,
    OldestDropped,
}

/// Runs work in order, in the background.
#[derive(Clone)]
pub(crate) struct WorkQueue {
    waiting: Arc<Mutex<QueueState>>,
    /// The number of entries that wait or run.
    open: Arc<watch::Sender<usize>>,
    cancel: Cancel,
}

#[derive(Default)]
struct QueueState {
    entries: VecDeque<QueuedWork>,
    is_running: bool,
}

impl WorkQueue {
    pub(crate) fn new(cancel: &Cancel) -> Self {
        Self { waiting: Arc::default(), open: Arc::new(watch::channel(0).0), cancel: cancel.clone() }
    }

    /// Adds work. Must be called within a runtime.
    pub(crate) fn push(&self, work: QueuedWork) -> QueueRoom {
        let mut state = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        state.entries.push_back(work);
        let mut room = QueueRoom::Enough;
        if state.entries.len() > MOST_WAITING {
            state.entries.pop_front();
            room = QueueRoom::OldestDropped;
        } else {
            self.open.send_modify(|open| *open += 1);
        }
        if !state.is_running {
            state.is_running = true;
            let queue = self.clone();
            hermes_task::spawn_named("memory-writes", &self.cancel, async move { queue.run().await });
        }
        room
    }

    async fn run(&self) {
        loop {
            let next = {
                let mut state = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let next = state.entries.pop_front();
                state.is_running = next.is_some();
                next
            };
            let Some(work) = next else { return };
            work().await;
            self.open.send_modify(|open| *open = open.saturating_sub(1));
        }
    }

    /// Waits until everything is done, at most this long.
    pub(crate) async fn drain(&self, clock: &dyn Clock, limit: Duration) {
        let mut open = self.open.subscribe();
        tokio::select! {
            biased;
            _ = open.wait_for(|open| *open == 0) => {}
            () = clock.sleep(limit) => tracing::warn!("a memory service did not take up everything in time"),
        }
    }
}
