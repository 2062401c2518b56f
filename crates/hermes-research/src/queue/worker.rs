//! Works on the items of a queue: so many at once, each under its lease.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_task::{TaskGroup, spawn_cooperative};
use hermes_text::JsonTree;
use hermes_types::{Cancel, Clock};

use super::client::{GiveBack, ItemClose, ItemRecord, ItemResult, RunQueue};
use super::item::LeasedItem;
use crate::batch::{
    BatchObserver, DistributionSampler, ItemCounts, ProgressSnapshot, RolloutContext, RolloutError,
    RolloutOutcome, RolloutRunner,
};
use crate::error::Error;

/// The first and the longest wait before the queue is asked again for items that others may give up.
const FIRST_POLL: Duration = Duration::from_millis(25);
const LONGEST_POLL: Duration = Duration::from_secs(1);
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
    /// Cancelled when no item is open any more.
    done: Cancel,
    /// Held by the one that asks the queue again and again, so that not all do.
    asking: tokio::sync::Mutex<()>,
    /// The workers that want an item, and items that were claimed for them.
    waiting: AtomicUsize,
    claimed: tokio::sync::Mutex<VecDeque<LeasedItem>>,
    /// Results that wait until those before them are written.
    results: Mutex<Vec<ItemResult>>,
    writing: tokio::sync::Mutex<()>,
    /// The tasks that write results.
    closings: TaskGroup,
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
            done: Cancel::new(),
            asking: tokio::sync::Mutex::default(),
            waiting: AtomicUsize::new(0),
            claimed: tokio::sync::Mutex::default(),
            results: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            closings: TaskGroup::new(&Cancel::new()),
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
        state.closings.join().await;
        for item in state.claimed.lock().await.drain(..) {
            if let Err(error) = state.worker.queue.give_back(&item, GiveBack::Unused).await {
                tracing::warn!(%error, "an item was not given back; its lease ends by itself");
            }
        }
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
        loop {
            if self.stop.is_cancelled() || cancel.is_cancelled() {
                return Ok(());
            }
            let item = match self.claim().await? {
                Some(item) => item,
                None => match self.wait_for_item().await? {
                    Some(item) => item,
                    None => return Ok(()),
                },
            };
            self.do_item(item, cancel).await?;
        }
    }

    /// Claims an item: one statement for all workers that want one.
    async fn claim(&self) -> Result<Option<LeasedItem>, Error> {
        self.waiting.fetch_add(1, Relaxed);
        let mut claimed = self.claimed.lock().await;
        let result = if let Some(item) = claimed.pop_front() {
            Ok(Some(item))
        } else {
            let wanted = self.waiting.load(Relaxed);
            let found = self.worker.queue.claim(&self.worker.owner, wanted).await;
            found.map(|items| {
                claimed.extend(items);
                claimed.pop_front()
            })
        };
        self.waiting.fetch_sub(1, Relaxed);
        result
    }

    /// Waits for an item that another worker gives up; `None` when none is open any more, or the work stops.
    async fn wait_for_item(&self) -> Result<Option<LeasedItem>, Error> {
        let QueueWorker { queue, clock, owner, .. } = &self.worker;
        let _turn = tokio::select! {
            turn = self.asking.lock() => turn,
            () = self.done.cancelled() => return Ok(None),
            () = self.stop.cancelled() => return Ok(None),
        };
        let mut wait = FIRST_POLL;
        loop {
            if self.done.is_cancelled() || self.stop.is_cancelled() {
                return Ok(None);
            }
            if let Some(item) = queue.claim(owner, 1).await?.pop() {
                return Ok(Some(item));
            }
            if !queue.has_open().await? {
                self.done.cancel();
                return Ok(None);
            }
            tokio::select! {
                () = clock.sleep(wait) => {}
                () = self.stop.cancelled() => return Ok(None),
            }
            wait = (wait * 3 / 2).min(LONGEST_POLL);
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
                let record = Some(ItemRecord { line, tools, reasoning });
                self.close_later(ItemResult { item, record });
            }
            Ok(RolloutOutcome::Discarded) => self.close_later(ItemResult { item, record: None }),
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

    /// Closes an item while the next conversation goes on, together with others that ended meanwhile.
    fn close_later(self: &Arc<Self>, result: ItemResult) {
        let state = self.clone();
        let name = format!("result of item {}", result.item.index);
        self.results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        drop(self.closings.spawn_cooperative(name, |_| async move {
            let _turn = state.writing.lock().await;
            let results = std::mem::take(&mut *state.results.lock().unwrap_or_else(PoisonError::into_inner));
            if let Err(error) = state.close(&results).await {
                state.end(&error.to_string());
            }
        }));
    }

    /// Closes items and counts them; again when the connection fails, since a repetition changes nothing, and then each alone.
    async fn close(&self, results: &[ItemResult]) -> Result<(), Error> {
        if results.is_empty() {
            return Ok(());
        }
        let mut wait = CLOSE_WAIT;
        for _ in 1..CLOSE_ATTEMPTS {
            match self.worker.queue.close(results).await {
                Ok(closed) => {
                    self.count(results, &closed);
                    return Ok(());
                }
                Err(error) => tracing::warn!(%error, "results were not written; it is tried again"),
            }
            self.worker.clock.sleep(wait).await;
            wait *= 2;
        }
        for result in results.chunks(1) {
            let closed = self.worker.queue.close(result).await?;
            self.count(result, &closed);
        }
        Ok(())
    }

    fn count(&self, results: &[ItemResult], closed: &[ItemClose]) {
        let progress = self.worker.runner.progress();
        for (result, closed) in results.iter().zip(closed) {
            let counter = match closed {
                ItemClose::Closed if result.record.is_some() => &progress.written,
                ItemClose::Closed => &progress.discarded,
                ItemClose::Fenced => &self.fenced,
            };
            counter.fetch_add(1, Relaxed);
        }
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
