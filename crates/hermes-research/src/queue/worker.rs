//! Works on the items of a queue: so many at once, each under its lease.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_task::{TaskGroup, spawn_cooperative};
use hermes_text::JsonTree;
use hermes_types::{Cancel, Clock};

use super::client::{GiveBack, ItemClose, RunQueue};
use super::item::LeasedItem;
use crate::batch::{
    BatchObserver, DistributionSampler, ItemCounts, ProgressSnapshot, RolloutContext, RolloutError,
    RolloutOutcome, RolloutRunner,
};
use crate::error::Error;

/// The wait before the queue is asked again for items that others may give up.
const POLL: Duration = Duration::from_secs(1);
/// A lease is extended this many times before it ends.
const HEARTBEATS: u32 = 5;
/// The attempts to write a result, and the first wait between two.
const CLOSE_ATTEMPTS: u32 = 6;
const CLOSE_WAIT: Duration = Duration::from_millis(500);

/// One process that works on a run.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct QueueWorker {
    pub queue: RunQueue,
    pub runner: RolloutRunner,
    pub sampler: DistributionSampler,
    pub batch_size: usize,
    pub workers: usize,
    /// Names this process in the queue.
    pub owner: String,
    pub clock: Arc<dyn Clock>,
    pub observer: Arc<dyn BatchObserver>,
}

/// What a process did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSummary {
    pub progress: ProgressSnapshot,
    /// Results that were dropped because another process had taken the item over.
    pub fenced: u64,
    pub stopped: Option<String>,
}

struct WorkerState {
    worker: QueueWorker,
    fenced: AtomicU64,
    stopped: Mutex<Option<String>>,
    stop: Cancel,
}

impl QueueWorker {
    /// Works until no item is open. `stop` begins no further one; `cancel` also gives back those that are going on.
    pub async fn run(self, stop: &Cancel, cancel: &Cancel) -> Result<WorkerSummary, Error> {
        let workers = self.workers;
        let state = Arc::new(WorkerState {
            worker: self,
            fenced: AtomicU64::new(0),
            stopped: Mutex::default(),
            stop: stop.child_token(),
        });
        let group = TaskGroup::new(&Cancel::new());
        for number in 0..workers {
            let (state, cancel) = (state.clone(), cancel.clone());
            drop(group.spawn_cooperative(format!("queue worker {number}"), |_| async move {
                if let Err(error) = state.work(&cancel).await {
                    state.end(&error.to_string());
                }
            }));
        }
        group.join().await;
        let progress = state.worker.runner.progress().snapshot();
        let mut stopped = state.stopped.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if stopped.is_none() && (stop.is_cancelled() || cancel.is_cancelled()) {
            stopped = Some("interrupted".to_owned());
        }
        Ok(WorkerSummary { progress, fenced: state.fenced.load(Relaxed), stopped })
    }
}

impl WorkerState {
    fn end(&self, reason: &str) {
        self.stop.cancel();
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason.to_owned());
    }

    async fn work(self: &Arc<Self>, cancel: &Cancel) -> Result<(), Error> {
        let QueueWorker { queue, clock, owner, .. } = &self.worker;
        loop {
            if self.stop.is_cancelled() || cancel.is_cancelled() {
                return Ok(());
            }
            let Some(item) = queue.claim(owner, 1).await?.pop() else {
                if queue.status().await?.open() == 0 {
                    return Ok(());
                }
                tokio::select! {
                    () = clock.sleep(POLL) => continue,
                    () = self.stop.cancelled() => return Ok(()),
                }
            };
            self.do_item(item, cancel).await?;
        }
    }

    async fn do_item(self: &Arc<Self>, item: LeasedItem, cancel: &Cancel) -> Result<(), Error> {
        let progress = self.worker.runner.progress();
        progress.total.fetch_add(1, Relaxed);
        let own = cancel.child_token();
        let (state, held) = (self.clone(), item.clone());
        // A task of its own, so that a panic costs one conversation.
        let task = spawn_cooperative(format!("item {}", item.index), &own, |cancel| async move {
            state.converse(&held, &cancel).await
        });
        let mut task = std::pin::pin!(task);
        let interval = self.worker.queue.options.lease / HEARTBEATS;
        let outcome = loop {
            tokio::select! {
                outcome = &mut task => break outcome.unwrap_or_else(|error| Err(RolloutError::Failed(error.to_string()))),
                () = self.worker.clock.sleep(interval) => {
                    // Without the lease, the work is somebody else's.
                    if !self.worker.queue.extend(&item).await.unwrap_or(false) {
                        own.cancel();
                    }
                }
            }
        };
        match outcome {
            Ok(RolloutOutcome::Record { line, counts }) => {
                let (tools, reasoning) = (tools_json(&counts), reasoning_json(&counts));
                let closed = self.close(&item, Some((&line, &tools, &reasoning))).await?;
                let counter = if closed == ItemClose::Closed { &progress.written } else { &self.fenced };
                counter.fetch_add(1, Relaxed);
            }
            Ok(RolloutOutcome::Discarded) => {
                let closed = self.close(&item, None).await?;
                let counter = if closed == ItemClose::Closed { &progress.discarded } else { &self.fenced };
                counter.fetch_add(1, Relaxed);
            }
            Err(RolloutError::Cancelled) if own.is_cancelled() && !cancel.is_cancelled() => {
                self.fenced.fetch_add(1, Relaxed);
            }
            Err(RolloutError::Cancelled) => self.worker.queue.give_back(&item, GiveBack::Unused).await?,
            Err(RolloutError::Budget(reason)) => {
                self.worker.queue.give_back(&item, GiveBack::Unused).await?;
                self.end(&reason);
            }
            Err(RolloutError::Failed(reason)) => {
                progress.failed.fetch_add(1, Relaxed);
                self.worker.observer.notice(&format!("[P{}] failed: {reason}", item.index));
                self.worker.queue.give_back(&item, GiveBack::Failed).await?;
            }
        }
        Ok(())
    }

    async fn converse(&self, item: &LeasedItem, cancel: &Cancel) -> Result<RolloutOutcome, RolloutError> {
        let worker = &self.worker;
        let row = item.row().map_err(RolloutError::Failed)?;
        let toolsets = worker.sampler.sample(item.index);
        let context = RolloutContext {
            index: item.index,
            batch: item.index / worker.batch_size.max(1),
            toolsets: &toolsets,
            // Another claim of the same item gets another sandbox.
            attempt: format!("_{}_{}", item.key.get(..8).unwrap_or_default(), item.fence),
        };
        worker.runner.run(&context, &row, cancel).await
    }

    /// Closes an item, again when the connection fails: a repetition changes nothing.
    async fn close(&self, item: &LeasedItem, record: Option<(&str, &str, &str)>) -> Result<ItemClose, Error> {
        let mut wait = CLOSE_WAIT;
        for _ in 1..CLOSE_ATTEMPTS {
            match self.worker.queue.close(item, record).await {
                Ok(closed) => return Ok(closed),
                Err(error) => tracing::warn!(%error, "a result was not written; it is tried again"),
            }
            self.worker.clock.sleep(wait).await;
            wait *= 2;
        }
        self.worker.queue.close(item, record).await
    }
}

pub(super) fn tools_json(counts: &ItemCounts) -> String {
    let tools = counts.tools.iter().map(|(name, counts)| {
        let counts = [counts.count, counts.success, counts.failure].into_iter().collect::<JsonTree>();
        (name.clone(), counts)
    });
    JsonTree::Object(tools.collect()).to_string()
}

pub(super) fn reasoning_json(counts: &ItemCounts) -> String {
    [counts.reasoning.turns, counts.reasoning.with_reasoning].into_iter().collect::<JsonTree>().to_string()
}
