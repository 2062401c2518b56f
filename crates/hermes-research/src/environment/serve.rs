//! Works for a trainer: groups are made as fast as it takes them, and no faster.
//!
//! Invariant: an item whose group was given up is taken up again, except where it took too long.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hermes_task::{Task, TaskGroup, spawn_cooperative};
use hermes_types::Cancel;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::agent_loop::RolloutToolError;
use super::atropos::{AtroposClient, Registration, TrainerInfo, TrainerStatus};
use super::group::ScoredGroup;
use super::run::{EnvironmentReport, EnvironmentRun, state_path};
use super::saving::LineFile;
use super::settings::EvaluationPriority;
use crate::error::Error;

/// How often the trainer is looked at.
const TICK: Duration = Duration::from_millis(100);
/// The wait after the registration, in which the trainer's servers begin.
const BEGIN_WAIT: Duration = Duration::from_secs(5);
/// Groups that wait while the server is away, at most.
const MAX_UNSENT: usize = 1000;

/// A group that is being made.
struct GroupWorker {
    id: usize,
    item: Value,
    began: Duration,
    cancel: Cancel,
}

/// What came of a group.
struct WorkerEnd {
    id: usize,
    outcome: Result<(ScoredGroup, Vec<RolloutToolError>), String>,
}

/// What is known at a moment about how many groups may be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WorkerDemand {
    pub(super) max_workers: i64,
    pub(super) group_size: i64,
    pub(super) batch_size: i64,
    pub(super) max_offpolicy: i64,
    pub(super) min_allocation: Option<f64>,
    pub(super) status: TrainerStatus,
}

impl WorkerDemand {
    /// Returns how many groups are to be made at once; 0 where the queue is full.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "numbers of sequences")]
    pub(super) fn workers(&self) -> i64 {
        let Self { max_workers, group_size, batch_size, max_offpolicy, min_allocation, status } = *self;
        if batch_size <= 0 {
            return 0;
        }
        let own_target = min_allocation.map(|share| (batch_size as f64 * share).ceil());
        let is_own_met = own_target.is_none_or(|target| {
            status.self_queue_size as f64 * group_size as f64 >= target * max_offpolicy.max(1) as f64
        });
        let is_full = max_offpolicy > 0 && status.queue_size * group_size >= max_offpolicy * batch_size;
        if is_full && is_own_met {
            return 0;
        }
        if max_offpolicy <= 0 {
            return max_workers;
        }
        let share = status.unallocated_fraction + min_allocation.unwrap_or(0.0);
        let reachable = (batch_size as f64 * share).floor() as i64;
        let mut cap = max_offpolicy * reachable / group_size - status.queue_size;
        if let Some(share) = min_allocation {
            // At least as many as fill the packs that are this environment's own.
            let largest = status.max_group_size.max(1);
            let wanted = (batch_size as f64 * share * max_offpolicy as f64).ceil() as i64;
            let packs = (wanted + largest - 1) / largest + (largest / group_size.max(1)).max(1);
            let missing = packs * largest - status.self_queue_size * group_size;
            cap = cap.max((missing + group_size - 1) / group_size);
        }
        max_workers.min(cap).max(0)
    }
}

/// Everything that changes while an environment serves.
struct ServeState<'a> {
    run: &'a EnvironmentRun,
    client: AtroposClient,
    registration: Option<Registration>,
    info: TrainerInfo,
    step: i64,
    workers: Vec<GroupWorker>,
    backlog: Vec<Value>,
    unsent: VecDeque<Value>,
    next_id: usize,
    sent_since_log: u64,
    file: Option<LineFile>,
    evaluation: Option<Task<()>>,
    evaluating: Arc<AtomicUsize>,
    report: EnvironmentReport,
    score_sum: f64,
    kept: VecDeque<String>,
    group: TaskGroup,
    ends: UnboundedSender<WorkerEnd>,
    no_items: bool,
}

impl EnvironmentRun {
    /// Serves a trainer until it has all its steps.
    pub async fn serve(self: &Arc<Self>, cancel: &Cancel) -> Result<EnvironmentReport, Error> {
        self.refuse_evaluation_only()?;
        self.set_up().await?;
        let settings = self.settings().clone();
        let means = &self.pool.means;
        let client = AtroposClient::new(means.net.clone(), means.clock.clone(), &settings.rollout_server_url);
        if settings.use_wandb {
            self.observer.notice(&format!("Waiting for the trainer at {}", settings.rollout_server_url));
            client.wait_for_project(cancel).await;
        }
        let file = settings.data_path_to_save_groups.as_deref().map(LineFile::create).transpose()?;
        let (ends, mut received) = unbounded_channel();
        let mut state = ServeState {
            run: self,
            client,
            registration: None,
            info: TrainerInfo { batch_size: -1, max_token_len: -1 },
            step: -1,
            workers: Vec::new(),
            backlog: Vec::new(),
            unsent: VecDeque::new(),
            next_id: 0,
            sent_since_log: 0,
            file,
            evaluation: None,
            evaluating: Arc::default(),
            report: EnvironmentReport::default(),
            score_sum: 0.0,
            kept: VecDeque::new(),
            group: TaskGroup::new(&Cancel::new()),
            ends,
            no_items: false,
        };
        let served = state.serve(&mut received, cancel).await;
        state.give_up_workers();
        state.group.shut_down().await;
        if let Some(evaluation) = state.evaluation.take() {
            evaluation.abort();
        }
        if let Some(registration) = &state.registration {
            state.client.disconnect(registration.env_id).await;
        }
        served?;
        let mut report = state.report;
        report.interrupted = cancel.is_cancelled();
        report.mean_score =
            super::definition::ratio(state.score_sum, usize::try_from(report.groups).unwrap_or(usize::MAX));
        report.files.extend(state.file.map(|file| file.path().to_owned()));
        Ok(report)
    }

    fn max_workers(&self) -> i64 {
        let settings = self.settings();
        if settings.max_num_workers > 0 {
            return settings.max_num_workers;
        }
        settings.max_num_workers_per_node.max(1) * i64::try_from(self.pool.means.servers.count()).unwrap_or(1)
    }
}

impl ServeState<'_> {
    async fn serve(
        &mut self,
        received: &mut UnboundedReceiver<WorkerEnd>,
        cancel: &Cancel,
    ) -> Result<(), Error> {
        loop {
            if self.registration.is_none() && !self.register(cancel).await? {
                return Ok(());
            }
            if self.tick(cancel).await? {
                return Ok(());
            }
            let mut pause = self.run.clock().sleep(TICK);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    Some(end) = received.recv() => self.take(end, cancel).await?,
                    () = cancel.cancelled() => return Ok(()),
                }
            }
        }
    }

    /// Registers and learns what the trainer wants. False when it was cancelled.
    async fn register(&mut self, cancel: &Cancel) -> Result<bool, Error> {
        let (settings, name) = (self.run.settings(), self.run.name());
        let registered = self.client.register(settings, &name, cancel).await;
        let Some(registration) = registered.map_err(Error::Unusable)? else { return Ok(false) };
        self.run
            .observer
            .notice(&format!("Registered as {} ({})", registration.wandb_name, registration.env_id));
        if registration.starting_step > 0 && self.step < 0 {
            let folder = PathBuf::from(&registration.checkpoint_dir);
            let path = state_path(&folder, &registration.wandb_name, registration.starting_step);
            match std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok()) {
                Some(state) => self.run.pool.environment.restore(&state),
                None => self
                    .run
                    .observer
                    .notice(&format!("note: {} cannot be read; the items begin anew", path.display())),
            }
        }
        let info = self.client.info(cancel).await.map_err(|failure| Error::Failing(failure.reason))?;
        let size = i64::try_from(settings.group_size).unwrap_or(i64::MAX);
        if info.batch_size > 0 && size > info.batch_size {
            return Err(Error::Unusable(format!(
                "env.group_size is {size}, more than the trainer's batch of {} sequences",
                info.batch_size
            )));
        }
        let is_first = self.step < 0;
        self.info = info;
        self.step = registration.starting_step;
        self.registration = Some(registration);
        if is_first {
            tokio::select! {
                () = self.run.clock().sleep(BEGIN_WAIT) => {}
                () = cancel.cancelled() => return Ok(false),
            }
        }
        self.send_waiting(cancel).await?;
        Ok(true)
    }

    /// Looks at the trainer, and starts or gives up groups. True when everything is done.
    async fn tick(&mut self, cancel: &Cancel) -> Result<bool, Error> {
        let Some(registration) = self.registration.clone() else { return Ok(false) };
        let status = match self.client.status(registration.env_id, cancel).await {
            Ok(Some(status)) if status.current_step >= self.step => status,
            Ok(_) => {
                self.run.observer.notice("The trainer's API server was restarted; Hermes registers again");
                self.registration = None;
                return Ok(false);
            }
            // It does not answer just now; the groups go on.
            Err(_) => return Ok(false),
        };
        self.run.pool.means.servers.set_share(status.env_weight);
        let settings = self.run.settings().clone();
        if status.current_step > self.step {
            self.step_changed(self.step, status.current_step, &registration)?;
            self.step = status.current_step;
        }
        let total = if settings.total_steps < 0 { registration.num_steps } else { settings.total_steps };
        let size = i64::try_from(settings.group_size).unwrap_or(i64::MAX);
        if total >= 0 && self.info.batch_size > 0 {
            let queued = status.queue_size * size / self.info.batch_size;
            if status.current_step + queued > total || status.current_step >= total {
                return Ok(true);
            }
        }
        let demand = WorkerDemand {
            max_workers: self.run.max_workers(),
            group_size: size,
            batch_size: self.info.batch_size,
            max_offpolicy: settings.max_batches_offpolicy,
            min_allocation: settings.min_batch_allocation,
            status,
        };
        let mut wanted = usize::try_from(demand.workers()).unwrap_or_default();
        let is_evaluating = self.evaluating.load(Relaxed) > 0;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of workers"
        )]
        match settings.eval_handling {
            EvaluationPriority::StopTrain if is_evaluating => wanted = 0,
            EvaluationPriority::LimitTrain if is_evaluating => {
                let most = (self.run.max_workers() as f64 * settings.eval_limit_ratio) as usize;
                wanted = wanted.min(most);
            }
            _ => {}
        }
        self.end_late_workers(settings.worker_timeout);
        while self.workers.len() > wanted {
            let oldest = self.workers.remove(0);
            self.give_up(oldest);
        }
        while self.workers.len() < wanted {
            let Some(item) = self.next_item().await? else {
                if !std::mem::replace(&mut self.no_items, true) {
                    self.run.observer.notice("The environment has no further item now");
                }
                break;
            };
            self.start(item);
        }
        Ok(false)
    }

    /// Returns an item that was given up, or a new one.
    async fn next_item(&mut self) -> Result<Option<Value>, Error> {
        if let Some(item) = self.backlog.pop() {
            return Ok(Some(item));
        }
        self.run.pool.environment.next_item().await.map_err(Error::Unusable)
    }

    fn step_changed(&mut self, before: i64, now: i64, registration: &Registration) -> Result<(), Error> {
        // The counter jumps by several steps.
        let wrapped =
            |interval: i64| interval > 0 && (before % interval > now % interval || now - before >= interval);
        let settings = self.run.settings();
        if wrapped(registration.checkpoint_interval) && !registration.checkpoint_dir.is_empty() {
            let folder = PathBuf::from(&registration.checkpoint_dir);
            if let Err(error) = self.run.save_state(&folder, &registration.wandb_name, now) {
                tracing::warn!(%error, "the state of the environment was not saved");
            }
        }
        if self.sent_since_log >= settings.min_items_sent_before_logging {
            self.sent_since_log = 0;
            let mut figures = self.run.take_figures();
            if !self.kept.is_empty() {
                figures.insert("train/rollouts".to_owned(), json!(self.kept));
                self.kept.clear();
            }
            self.run.log(&registration.wandb_name, now, figures)?;
        }
        if wrapped(settings.steps_per_eval) && self.evaluating.load(Relaxed) == 0 {
            if settings.eval_handling == EvaluationPriority::StopTrain {
                self.give_up_workers();
            }
            self.begin_evaluation(now, registration.wandb_name.clone());
        }
        Ok(())
    }

    fn begin_evaluation(&mut self, step: i64, name: String) {
        self.evaluating.fetch_add(1, Relaxed);
        let (running, pool) = (self.evaluating.clone(), self.run.pool.clone());
        let run = EnvironmentRun {
            pool,
            observer: self.run.observer.clone(),
            folder: self.run.folder.clone(),
            now: self.run.now.clone(),
            figures: self.run.figures.clone(),
        };
        let task = spawn_cooperative("evaluation", &Cancel::new(), move |cancel| async move {
            match run.evaluate_items(&cancel).await {
                Ok((metrics, _)) => {
                    if let Err(error) = run.log(&name, step, metrics) {
                        tracing::warn!(%error, "the figures of an evaluation were not written");
                    }
                }
                Err(error) => tracing::warn!(%error, "an evaluation failed"),
            }
            running.fetch_sub(1, Relaxed);
        });
        self.evaluation = Some(task);
    }

    fn start(&mut self, item: Value) {
        self.no_items = false;
        let id = self.next_id;
        self.next_id += 1;
        let cancel = Cancel::new();
        let (pool, ends, own, given) =
            (self.run.pool.clone(), self.ends.clone(), cancel.clone(), item.clone());
        let task = self.group.spawn_cooperative(format!("group {id}"), move |group| async move {
            let stopped = own.clone();
            let outcome = {
                let mut work = std::pin::pin!(pool.group(id, &given, &own));
                tokio::select! {
                    outcome = &mut work => outcome,
                    () = group.cancelled() => {
                        stopped.cancel();
                        work.await
                    }
                }
            };
            // Nobody listens any more when the environment ends.
            let _ = ends.send(WorkerEnd { id, outcome });
        });
        drop(task);
        self.workers.push(GroupWorker { id, item, began: self.run.clock().monotonic(), cancel });
    }

    /// Ends a group and takes its item back.
    fn give_up(&mut self, worker: GroupWorker) {
        worker.cancel.cancel();
        self.backlog.push(worker.item);
    }

    fn give_up_workers(&mut self) {
        for worker in std::mem::take(&mut self.workers) {
            self.give_up(worker);
        }
    }

    /// Ends groups that took too long. Their items are not taken up again.
    fn end_late_workers(&mut self, seconds: f64) {
        let Ok(limit) = Duration::try_from_secs_f64(seconds) else { return };
        let now = self.run.clock().monotonic();
        self.workers.retain(|worker| {
            let is_late = now.saturating_sub(worker.began) > limit;
            if is_late {
                worker.cancel.cancel();
                tracing::warn!(group = worker.id, "a group took too long and was ended");
            }
            !is_late
        });
    }

    /// Takes what a group came to.
    async fn take(&mut self, end: WorkerEnd, cancel: &Cancel) -> Result<(), Error> {
        let Some(at) = self.workers.iter().position(|worker| worker.id == end.id) else { return Ok(()) };
        self.workers.remove(at);
        let Ok((group, errors)) = end.outcome else { return Ok(()) };
        let settings = self.run.settings().clone();
        let longest = u64::try_from(self.info.max_token_len).ok().filter(|most| *most > 0);
        self.run.count(&group, errors);
        if let Err(refusal) = group.check(settings.group_size, settings.ensure_scores_are_not_same, longest) {
            *self.report.refused.entry(refusal.name()).or_default() += 1;
            return Ok(());
        }
        let shown = match usize::try_from(settings.num_rollouts_per_group_for_logging) {
            Ok(count) => count,
            Err(_) => group.rollouts.len(),
        };
        let texts = group.rollouts.iter().take(shown);
        self.kept.extend(texts.map(|rollout| super::rollout::display_text(&rollout.messages)));
        let most = usize::try_from(settings.num_rollouts_to_keep).unwrap_or(usize::MAX);
        while self.kept.len() > most {
            self.kept.pop_front();
        }
        if let Some(file) = &self.file {
            file.add(&group.to_line())?;
        }
        self.score_sum += group.mean_score();
        self.unsent.push_back(group.to_value());
        if self.unsent.len() > MAX_UNSENT {
            self.unsent.pop_front();
        }
        self.send_waiting(cancel).await
    }

    /// Sends what waits. What the server refuses is dropped; what cannot be sent now waits.
    async fn send_waiting(&mut self, cancel: &Cancel) -> Result<(), Error> {
        while let Some(group) = self.unsent.front() {
            let Some(registration) = &self.registration else { return Ok(()) };
            match self.client.send(registration.env_id, group.clone(), cancel).await {
                Ok(()) => {
                    self.report.groups += 1;
                    self.sent_since_log += 1;
                    let count = self.report.groups;
                    if count == 1 || count.is_multiple_of(100) {
                        self.run.observer.notice(&format!("{count} groups sent"));
                    }
                }
                Err(failure) if failure.status.is_some() && !failure.may_pass => {
                    tracing::warn!(
                        reason = failure.reason,
                        "the trainer's API server refused a group; it is dropped"
                    );
                    *self.report.refused.entry("refused by the server").or_default() += 1;
                }
                Err(failure) => {
                    tracing::warn!(reason = failure.reason, "a group was not sent; it waits");
                    return Ok(());
                }
            }
            self.unsent.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(queue: i64, own: i64) -> WorkerDemand {
        let status = TrainerStatus {
            current_step: 0,
            queue_size: queue,
            self_queue_size: own,
            max_group_size: 4,
            unallocated_fraction: 1.0,
            env_weight: 1.0,
        };
        WorkerDemand {
            max_workers: 8,
            group_size: 4,
            batch_size: 16,
            max_offpolicy: 3,
            min_allocation: None,
            status,
        }
    }

    #[test]
    fn as_many_groups_are_made_as_the_trainer_will_take() {
        assert_eq!(demand(0, 0).workers(), 8, "no more than there are workers");
        assert_eq!(demand(10, 10).workers(), 2, "12 groups may wait");
        assert_eq!(demand(12, 12).workers(), 0, "the queue is full");
        assert_eq!(WorkerDemand { batch_size: -1, ..demand(0, 0) }.workers(), 0, "no trainer yet");
        assert_eq!(WorkerDemand { max_offpolicy: -1, ..demand(500, 0) }.workers(), 8, "no limit");
        let own = WorkerDemand { min_allocation: Some(0.5), ..demand(12, 0) };
        assert_eq!(own.workers(), 7, "its own share is missing, however full the queue is");
        assert_eq!(WorkerDemand { min_allocation: Some(0.5), ..demand(12, 6) }.workers(), 0);
    }
}
