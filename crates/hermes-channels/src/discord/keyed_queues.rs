//! Concurrent work that stays in order within each queue.

use std::collections::{HashMap, VecDeque};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hermes_types::BoxFuture;

/// Queues by name. An empty queue takes no memory.
pub(super) struct KeyedQueues<'a, T> {
    /// The futures behind the running one of each queue. They are not polled until it is their turn.
    waiting: HashMap<String, VecDeque<BoxFuture<'a, T>>>,
    working: FuturesUnordered<BoxFuture<'a, (String, T)>>,
    count: usize,
}

impl<'a, T: Send + 'a> KeyedQueues<'a, T> {
    pub(super) fn new() -> Self {
        Self { waiting: HashMap::new(), working: FuturesUnordered::new(), count: 0 }
    }

    pub(super) fn push(&mut self, lane: String, work: BoxFuture<'a, T>) {
        self.count += 1;
        if let Some(queue) = self.waiting.get_mut(&lane) {
            queue.push_back(work);
            return;
        }
        self.waiting.insert(lane.clone(), VecDeque::new());
        self.begin(lane, work);
    }

    /// Waits for the next result; returns `None` when all queues are empty. The future may be dropped and the
    /// method called again.
    pub(super) async fn next(&mut self) -> Option<T> {
        let (lane, done) = self.working.next().await?;
        self.count -= 1;
        match self.waiting.get_mut(&lane).and_then(VecDeque::pop_front) {
            Some(work) => self.begin(lane, work),
            None => drop(self.waiting.remove(&lane)),
        }
        Some(done)
    }

    /// Returns the number of unfinished futures.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn begin(&mut self, lane: String, work: BoxFuture<'a, T>) {
        self.working.push(Box::pin(async move { (lane, work.await) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lane_keeps_its_order_and_does_not_hold_up_others() {
        let (release, held) = tokio::sync::oneshot::channel::<()>();
        let mut lanes = KeyedQueues::new();
        lanes.push("a".to_owned(), Box::pin(async { held.await.map_or("?", |()| "a1") }));
        lanes.push("a".to_owned(), Box::pin(async { "a2" }));
        lanes.push("b".to_owned(), Box::pin(async { "b1" }));
        assert_eq!(lanes.next().await, Some("b1"));
        release.send(()).unwrap();
        assert_eq!((lanes.next().await, lanes.next().await), (Some("a1"), Some("a2")));
        assert_eq!((lanes.next().await, lanes.len()), (None, 0));
    }
}
