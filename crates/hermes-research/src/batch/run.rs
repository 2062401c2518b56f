//! Runs a dataset: so many conversations at once, each record written when its conversation ends.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_task::{TaskError, TaskGroup, spawn_cooperative};
use hermes_text::head;
use hermes_types::{Cancel, Clock};

use super::checkpoint::{BatchStats, RunCheckpoint};
use super::dataset::{Dataset, DatasetRow};
use super::distribution::DistributionSampler;
use super::merge::{MergeReport, merge_batches};
use super::options::BatchOptions;
use super::plan::{BatchPlan, PlannedPrompt, checkpoint_path, plan, statistics_path};
use super::progress::{BatchObserver, BatchProgress, ProgressSnapshot};
use super::records::RecordFiles;
use super::rollout::{RolloutContext, RolloutError, RolloutOutcome, RolloutRunner};
use super::statistics::{RunStatistics, StatisticsHeader};
use crate::error::Error;
use crate::trajectory::iso_time;

/// The failures in a row after which a run stops, unless more conversations than half of it run at once.
const MAX_FAILURES: u64 = 20;
/// Writing checkpoints may take one part in so many of the time.
const CHECKPOINT_SHARE: u32 = 20;

/// A run that can begin.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct BatchRun {
    pub options: BatchOptions,
    pub dataset: Dataset,
    pub sampler: DistributionSampler,
    pub runner: RolloutRunner,
    pub clock: Arc<dyn Clock>,
    pub observer: Arc<dyn BatchObserver>,
}

/// What an invocation did.
#[derive(Debug, Clone)]
pub struct BatchSummary {
    pub progress: ProgressSnapshot,
    /// The prompts that were done before.
    pub skipped: usize,
    pub total_prompts: usize,
    pub seconds: f64,
    pub statistics: RunStatistics,
    pub merge: MergeReport,
    /// Why the run ended before its end.
    pub stopped: Option<String>,
}

impl BatchSummary {
    /// Returns the number of prompts that are still to do.
    pub fn left(&self) -> u64 {
        self.progress.total.saturating_sub(self.progress.written + self.progress.discarded)
    }
}

/// What the workers of a run share.
struct RunState {
    run: BatchRun,
    records: RecordFiles,
    ledger: Mutex<RunLedger>,
    /// Begins no further conversation when it is cancelled.
    stop: Cancel,
}

/// What changes while a run goes on.
struct RunLedger {
    waiting: std::vec::IntoIter<PlannedPrompt>,
    checkpoint: RunCheckpoint,
    statistics: RunStatistics,
    plan: BatchPlan,
    stats: std::collections::BTreeMap<usize, BatchStats>,
    /// The prompts that failed since the last one that did not.
    failures_in_row: u64,
    /// When the checkpoint may be written next, by the monotonic clock.
    next_checkpoint: Duration,
    stopped: Option<String>,
}

impl BatchRun {
    /// Runs the prompts that are left. `stop` begins no further conversation; `cancel` also ends those that are going on.
    pub async fn run(self, stop: &Cancel, cancel: &Cancel) -> Result<BatchSummary, Error> {
        let options = self.options.clone();
        let clock = self.clock.clone();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&options.folder)
            .map_err(Error::file(&options.folder))?;
        let _locks = lock_run(&options)?;
        let began = clock.monotonic();
        let (mut checkpoint, warning) = RunCheckpoint::load(&checkpoint_path(&options), &options.run_name);
        if let Some(warning) = warning {
            self.observer.notice(&format!("warning: {warning}"));
        }
        let redact = self.runner.settings().redact;
        let mut planned = plan(&options, &self.dataset, &mut checkpoint, redact)?;
        let skipped = planned.done;
        let total_prompts = self.dataset.len();
        let progress = self.runner.progress().clone();
        progress.total.store(planned.prompts.len() as u64, Relaxed);
        progress.batches.store(planned.batches.len() as u64, Relaxed);
        if skipped > 0 {
            let left = planned.prompts.len();
            self.observer.notice(&format!(
                "{skipped} of {total_prompts} prompts are done already in {}; {left} are left.",
                options.folder.display()
            ));
        }
        let batches = planned.batches.len();
        let workers = options.workers.min(planned.prompts.len());
        let waiting = std::mem::take(&mut planned.prompts).into_iter();
        let state = Arc::new(RunState {
            records: RecordFiles::new(&options.folder),
            ledger: Mutex::new(RunLedger {
                waiting,
                checkpoint,
                statistics: RunStatistics::default(),
                plan: planned,
                stats: std::collections::BTreeMap::new(),
                failures_in_row: 0,
                next_checkpoint: Duration::ZERO,
                stopped: None,
            }),
            stop: stop.child_token(),
            run: self,
        });
        let group = TaskGroup::new(&Cancel::new());
        for number in 0..workers {
            let (state, cancel) = (state.clone(), cancel.clone());
            // Its result is in the state; a worker that panicked is one less.
            drop(group.spawn_cooperative(format!("batch worker {number}"), |_| async move {
                state.work(&cancel).await;
            }));
        }
        group.join().await;
        let seconds = clock.monotonic().saturating_sub(began).as_secs_f64();
        let registered = state.run.runner.settings().registered_tools.clone();
        let now = state.now();
        let (statistics, mut stopped) = {
            let ledger = state.lock();
            state.records.sync()?;
            ledger.checkpoint.save(&checkpoint_path(&options), state.run.dataset.entries(), &now)?;
            (ledger.statistics.clone(), ledger.stopped.clone())
        };
        let merge = merge_batches(&options.folder, &registered)?;
        let header = StatisticsHeader {
            run_name: &options.run_name,
            distribution: state.run.sampler.distribution().name,
            total_prompts,
            total_batches: batches,
            batch_size: options.batch_size,
            model: &options.model,
            completed_at: now,
            seconds,
        };
        let text = statistics.to_json(&header).pretty();
        hermes_config::write::replace(&statistics_path(&options), text.as_bytes())
            .map_err(|error| Error::Unusable(error.to_string()))?;
        let progress = progress.snapshot();
        if stopped.is_none()
            && (stop.is_cancelled() || cancel.is_cancelled())
            && progress.done() < progress.total
        {
            stopped = Some("interrupted".to_owned());
        }
        Ok(BatchSummary { progress, skipped, total_prompts, seconds, statistics, merge, stopped })
    }
}

impl RunState {
    fn lock(&self) -> MutexGuard<'_, RunLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> String {
        let now = self.run.clock.now();
        iso_time((self.run.runner.settings().calendar)(now), now)
    }

    /// Takes prompts until none is left.
    async fn work(self: &Arc<Self>, cancel: &Cancel) {
        loop {
            if self.stop.is_cancelled() || cancel.is_cancelled() {
                return;
            }
            let Some(prompt) = self.lock().waiting.next() else { return };
            let state = self.clone();
            // A task of its own, so that a panic costs one conversation.
            let outcome =
                spawn_cooperative(format!("prompt {}", prompt.index), cancel, |cancel| async move {
                    state.converse(prompt, &cancel).await
                });
            let outcome = match outcome.await {
                Ok(outcome) => outcome,
                Err(TaskError::Cancelled) => Err(RolloutError::Cancelled),
                Err(panicked @ TaskError::Panicked(_)) => Err(RolloutError::Failed(panicked.to_string())),
            };
            self.finish(prompt, outcome);
        }
    }

    async fn converse(&self, prompt: PlannedPrompt, cancel: &Cancel) -> Result<RolloutOutcome, RolloutError> {
        let run = &self.run;
        let row = run.dataset.row(prompt.index).map_err(RolloutError::Failed)?;
        let toolsets = run.sampler.sample(prompt.index);
        if run.options.verbose {
            self.announce(prompt, &row, &toolsets);
        }
        let context = RolloutContext {
            index: prompt.index,
            batch: prompt.batch,
            toolsets: &toolsets,
            attempt: String::new(),
        };
        let outcome = run.runner.run(&context, &row, cancel).await?;
        if let RolloutOutcome::Record { line, .. } = &outcome {
            let written = self.records.append(prompt.batch, line);
            written.map_err(|error| RolloutError::Failed(error.to_string()))?;
        }
        Ok(outcome)
    }

    fn announce(&self, prompt: PlannedPrompt, row: &DatasetRow, toolsets: &[&str]) {
        let PlannedPrompt { batch, index } = prompt;
        let preview = hermes_text::single_line(head(&row.prompt, self.run.options.preview_chars));
        let image = row.image.as_deref().map(|image| format!(", image {image}")).unwrap_or_default();
        let toolsets = toolsets.join(", ");
        self.run.observer.notice(&format!(
            "[B{batch}:P{index}] {preview}\n[B{batch}:P{index}] toolsets {toolsets}{image}"
        ));
    }

    fn finish(&self, prompt: PlannedPrompt, outcome: Result<RolloutOutcome, RolloutError>) {
        let PlannedPrompt { batch, index } = prompt;
        let progress: &Arc<BatchProgress> = self.run.runner.progress();
        let mut ledger = self.lock();
        let stats = ledger.stats.entry(batch).or_default();
        match &outcome {
            Ok(RolloutOutcome::Record { .. }) => stats.processed += 1,
            Ok(RolloutOutcome::Discarded) => {
                stats.processed += 1;
                stats.discarded += 1;
            }
            Err(_) => {}
        }
        match outcome {
            Ok(outcome) => {
                ledger.failures_in_row = 0;
                ledger.checkpoint.complete(index);
                if let RolloutOutcome::Record { counts, .. } = outcome {
                    ledger.statistics.add(&counts);
                    progress.written.fetch_add(1, Relaxed);
                } else {
                    progress.discarded.fetch_add(1, Relaxed);
                }
            }
            Err(RolloutError::Cancelled) => return,
            Err(RolloutError::Budget(reason)) => {
                self.stop.cancel();
                ledger.stopped.get_or_insert(reason);
                return;
            }
            Err(RolloutError::Failed(reason)) => {
                progress.failed.fetch_add(1, Relaxed);
                ledger.failures_in_row += 1;
                self.run.observer.notice(&format!("[B{batch}:P{index}] failed: {reason}"));
                if ledger.failures_in_row >= MAX_FAILURES.max(2 * self.run.options.workers as u64) {
                    self.stop.cancel();
                    let count = ledger.failures_in_row;
                    ledger
                        .stopped
                        .get_or_insert(format!("{count} prompts in a row failed; the last one: {reason}"));
                }
            }
        }
        self.close_batch(&mut ledger, batch);
    }

    /// Counts a prompt of a batch as ended. When it was the last one, the checkpoint is written, unless that was done so recently
    /// that it would slow the run down: the batch files know the same.
    fn close_batch(&self, ledger: &mut RunLedger, batch: usize) {
        let Some((left, skipped)) = ledger.plan.batches.get_mut(&batch) else { return };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return;
        }
        let skipped = *skipped;
        ledger.plan.batches.remove(&batch);
        let stats = ledger.stats.remove(&batch).unwrap_or_default();
        ledger.checkpoint.set_batch(batch, BatchStats { skipped, ..stats });
        self.run.runner.progress().batches_done.fetch_add(1, Relaxed);
        let clock = &self.run.clock;
        let before = clock.monotonic();
        if before < ledger.next_checkpoint {
            return;
        }
        let saved = self.records.sync().and_then(|()| {
            let entries = self.run.dataset.entries();
            ledger.checkpoint.save(&checkpoint_path(&self.run.options), entries, &self.now())
        });
        if let Err(error) = saved {
            self.run.observer.notice(&format!("warning: the checkpoint was not written: {error}"));
        }
        let after = clock.monotonic();
        ledger.next_checkpoint = after + after.saturating_sub(before) * CHECKPOINT_SHARE;
    }
}

/// Locks a run for this process. The shards of a run share it with each other.
fn lock_run(options: &BatchOptions) -> Result<Vec<File>, Error> {
    let open = |path: &Path| {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
        file.map_err(Error::file(path))
    };
    let busy = |what: &str| {
        Error::Busy(format!(
            "another process works on {what} of {}; nothing was done",
            options.folder.display()
        ))
    };
    let check = |locked: Result<(), TryLockError>, what: &str| match locked {
        Err(TryLockError::WouldBlock) => Err(busy(what)),
        // Some network file systems have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    };
    let whole = open(&options.folder.join(".lock"))?;
    let Some(shard) = options.shard else {
        check(whole.try_lock(), "the run")?;
        return Ok(vec![whole]);
    };
    check(whole.try_lock_shared(), "the run")?;
    let own = open(&options.folder.join(format!(".lock{}", shard.suffix())))?;
    check(own.try_lock(), "this shard")?;
    Ok(vec![whole, own])
}
