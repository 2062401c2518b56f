//! One check of the jobs: first it settles runs of earlier processes, then it starts what is due.

use std::sync::Arc;
use std::time::Duration;

use hermes_schedule::{DueInstants, Job, JobFilter, JobId, RunStatus, ScanFinding, TickLock, scan};
use hermes_store::{CutOffRetry, JobClaim, JobRun, JobRunState, MissedRunNotice, Store};
use hermes_task::TaskGroup;
use hermes_types::{Clock, HolderId, Timestamp};

use super::job_agent::JobAgents;
use super::job_destinations::JobAddressing;
use super::job_list::JobList;
use super::job_replies::JobMessenger;
use super::job_script::JobScriptStep;
use super::prompt::JobPrompts;
use super::run::{ClaimedRun, JobRunParts, JobRunner};
use super::{JobTask, TickError};
use crate::deliver::{ChatDestinations, Delivery, Outbox};
use crate::ports::GatewayPorts;
use crate::resources::{DrainSwitch, GatewayResources};
use crate::settings::LiveSettings;

const TICK_INTERVAL: Duration = Duration::from_mins(1);
/// The time without a renewed lease after which a process counts as dead, even if its pid exists.
const HOLDER_TIMEOUT: Duration = Duration::from_mins(10);

/// Checks the jobs every minute.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Scheduler {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    holder: HolderId,
    draining: DrainSwitch,
    jobs: JobList,
    runner: Arc<JobRunner>,
    messenger: JobMessenger,
    delivery: Delivery,
    tasks: Arc<TaskGroup>,
}

/// What scheduled jobs are passed to.
pub(crate) struct SchedulerParts {
    pub(crate) destinations: ChatDestinations,
    pub(crate) delivery: Delivery,
    pub(crate) outbox: Outbox,
}

impl Scheduler {
    pub(crate) fn new(resources: &GatewayResources, parts: SchedulerParts, ports: &GatewayPorts) -> Self {
        let SchedulerParts { destinations, delivery, outbox } = parts;
        let (store, clock) = (resources.store.clone(), resources.clock.clone());
        let settings = resources.settings.clone();
        let jobs = JobList::new(settings.clone());
        let addressing = JobAddressing::new(destinations, delivery.clone());
        let messenger =
            JobMessenger::new(store.clone(), clock.clone(), jobs.clone(), addressing.clone(), outbox);
        let run = JobRunParts {
            jobs: jobs.clone(),
            agents: JobAgents::new(resources, ports.agents.clone(), jobs.clone(), addressing),
            scripts: JobScriptStep::new(settings.clone(), ports.programs.clone()),
            prompts: JobPrompts::new(jobs.clone(), ports.skills.clone()),
            messenger: messenger.clone(),
        };
        Self {
            store,
            clock,
            settings,
            holder: resources.holder.clone(),
            draining: resources.draining.clone(),
            jobs,
            runner: Arc::new(JobRunner::new(resources, run)),
            messenger,
            delivery,
            tasks: resources.tasks.clone(),
        }
    }

    /// Starts the ticker. It ends with the gateway.
    pub fn start(self: &Arc<Self>) {
        let scheduler = Arc::clone(self);
        drop(self.tasks.spawn("scheduled jobs", async move {
            loop {
                scheduler.write_heartbeat("ticker_heartbeat");
                match scheduler.tick().await {
                    Ok(begun) => {
                        scheduler.write_heartbeat("ticker_last_success");
                        drop(begun);
                    }
                    Err(error) => tracing::error!(%error, "the scheduled jobs could not be looked at"),
                }
                // Replies that another process queued are sent now instead of at the next poll.
                for platform in scheduler.delivery.platforms() {
                    scheduler.delivery.wake(&platform);
                }
                scheduler.clock.sleep(TICK_INTERVAL).await;
            }
        }));
    }

    /// Checks the jobs once, waits for the runs this starts and returns their number.
    pub async fn tick_once(&self) -> Result<usize, TickError> {
        let begun = self.tick().await?;
        let count = begun.len();
        for run in begun {
            // A failed run has already been reported.
            let _: Result<(), _> = run.await;
        }
        Ok(count)
    }

    /// Writes a timestamp by which other programs see that the ticker runs.
    fn write_heartbeat(&self, name: &str) {
        let now = self.clock.now().seconds();
        let written = self.settings.home().folder("cron").and_then(|folder| {
            hermes_config::write::replace(&folder.join(name), format!("{now:.3}").as_bytes())
        });
        if let Err(error) = written {
            tracing::warn!(%error, "the ticker's sign of life could not be written");
        }
    }

    /// Checks all jobs and starts what is due. Does nothing while another process checks.
    async fn tick(&self) -> Result<Vec<JobTask>, TickError> {
        let Some(_lock) = TickLock::try_acquire(self.settings.home())? else { return Ok(Vec::new()) };
        let now = self.clock.now();
        self.store.acquire_lease(&cron_lease_name(&self.holder), &self.holder, now, HOLDER_TIMEOUT).await?;
        self.mark_dead_runs(now).await?;
        self.record_ended_runs().await?;
        let open = self.store.open_job_runs().await?;
        // Missed runs are reported before anything runs again.
        self.messenger.report_missed_runs(&open).await?;
        let mut begun = Vec::new();
        if !self.draining.is_draining() {
            for job in self.jobs.with_jobs(|jobs| jobs.list(JobFilter::Enabled)).await? {
                let name = job.name().to_owned();
                match self.process_job(job, &open, now).await {
                    Ok(run) => begun.extend(run),
                    // One job's failure must not keep the others from running.
                    Err(error) => tracing::error!(%error, name, "a scheduled job could not be looked after"),
                }
            }
        }
        self.messenger.report_missed_runs(&open).await?;
        Ok(begun)
    }

    async fn process_job(
        &self,
        job: Job,
        open: &[JobRun],
        now: Timestamp,
    ) -> Result<Option<JobTask>, TickError> {
        match scan(&job, now, self.jobs.zone()) {
            ScanFinding::Nothing => Ok(None),
            ScanFinding::SetNext(next) => {
                self.jobs.advance(&job, Some(next), now).await?;
                Ok(None)
            }
            ScanFinding::Broken => {
                tracing::error!(
                    name = job.name(),
                    schedule = job.display(),
                    "this schedule gives no time to run at"
                );
                self.jobs.advance(&job, None, now).await?;
                Ok(None)
            }
            ScanFinding::Due(due) => self.begin_due(job, due, open, now).await,
        }
    }

    async fn begin_due(
        &self,
        job: Job,
        mut due: DueInstants,
        open: &[JobRun],
        now: Timestamp,
    ) -> Result<Option<JobTask>, TickError> {
        let recurs = job.schedule.recurs();
        let busy = open.iter().any(|run| run.job == job.id.as_str());
        let missed = std::mem::take(&mut due.missed);
        self.record_missed(&job, missed, "Hermes was not running", MissedRunNotice::Send, now).await?;
        if busy && recurs {
            let all = due.coalesced.iter().copied().chain(due.run).collect();
            self.record_missed(&job, all, "the run before it had not ended", MissedRunNotice::Send, now)
                .await?;
            due.run = None;
        } else {
            self.record_missed(
                &job,
                due.coalesced,
                "run together with a later one",
                MissedRunNotice::Skip,
                now,
            )
            .await?;
        }
        let Some(at) = due.run else {
            self.jobs.advance(&job, due.next, now).await?;
            return Ok(None);
        };
        // A recurring job runs again by itself; a one-time job gets a second attempt after a crash.
        let retry = if recurs { CutOffRetry::Never } else { CutOffRetry::Once };
        match self.store.claim_job_run(job.id.as_str(), at, &self.holder, retry, now).await? {
            JobClaim::Granted(run) => {
                let left_at = if recurs {
                    self.jobs.advance(&job, due.next, now).await?
                } else {
                    job.next_run_at.clone()
                };
                Ok(Some(self.runner.start(ClaimedRun { job, run, due: at, expected_next_run: left_at })))
            }
            JobClaim::Taken(run) => {
                self.reconcile_run(&job, &run, due.next, now).await?;
                Ok(None)
            }
        }
    }

    /// Handles an instant that already has a row: a process died before it updated the list.
    async fn reconcile_run(
        &self,
        job: &Job,
        run: &JobRun,
        next: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<(), TickError> {
        if job.schedule.recurs() {
            self.jobs.advance(job, next, now).await?;
        } else if !run.state.is_open() {
            self.jobs
                .record_run_end(&job.id, job.next_run_at.clone(), status_of(run), run.ended_at.unwrap_or(now))
                .await?;
        }
        Ok(())
    }

    async fn record_missed(
        &self,
        job: &Job,
        due: Vec<Timestamp>,
        reason: &str,
        telling: MissedRunNotice,
        now: Timestamp,
    ) -> Result<(), TickError> {
        if !due.is_empty() {
            self.store.record_missed_runs(job.id.as_str(), due, reason, telling, now).await?;
        }
        Ok(())
    }

    /// Marks runs whose process has died; how far they got is unknown.
    async fn mark_dead_runs(&self, now: Timestamp) -> Result<(), TickError> {
        for run in self.store.open_job_runs().await? {
            let Some(holder) = run.holder.clone().filter(|holder| *holder != self.holder) else { continue };
            let key = cron_lease_name(&holder);
            let silent = self.store.lease_holder(&key, now).await?.is_none();
            if silent || !hermes_task::may_be_alive(&holder) {
                let when = if run.state == JobRunState::Claimed { "before it began" } else { "while it ran" };
                self.store.cut_off_job_run(&run, &format!("Hermes was stopped {when}"), now).await?;
                self.store.release_lease(&key, &holder).await?;
            }
        }
        Ok(())
    }

    /// Records ends of runs that are missing in the list because the process died in between.
    async fn record_ended_runs(&self) -> Result<(), TickError> {
        for run in self.store.unreported_job_runs().await?.into_iter().filter(|run| !run.recorded) {
            let alive = run.holder.as_ref().is_some_and(|holder| *holder == self.holder);
            let recent = run.ended_at.is_some_and(|ended| self.clock.now().since(ended) < HOLDER_TIMEOUT);
            if alive && recent {
                // The run's own task is about to record it.
                continue;
            }
            let (id, ended) = (JobId::new(run.job.clone()), run.ended_at.unwrap_or(run.claimed_at));
            // A one-time job whose next time differs was edited meanwhile.
            let job = self.jobs.find(&id).await?;
            let left = job.filter(|job| job.schedule.recurs() || job.next_run() == Some(run.due_at));
            self.jobs
                .record_run_end(&id, left.and_then(|job| job.next_run_at), status_of(&run), ended)
                .await?;
            self.store.mark_job_run_recorded(run.id).await?;
        }
        Ok(())
    }
}

/// Returns the name of the lease a process holds while it runs jobs.
fn cron_lease_name(holder: &HolderId) -> String {
    format!("cron:{holder}")
}

fn status_of(run: &JobRun) -> RunStatus {
    match run.state {
        JobRunState::Completed => RunStatus::Ok,
        _ => RunStatus::Failed(run.error.clone().unwrap_or_else(|| run.state.as_str().to_owned())),
    }
}
