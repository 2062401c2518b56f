//! One check of the jobs: first it settles runs of earlier processes, then it starts what is due.

use std::time::Duration;

use hermes_schedule::{DueInstants, Job, JobFilter, JobId, RunStatus, ScanFinding, TickLock, scan};
use hermes_store::{CutOffRetry, JobClaim, JobRun, JobRunState, MissedRunNotice};
use hermes_types::{HolderId, Timestamp};

use super::run::ClaimedRun;
use super::{JobTask, TickError};
use crate::gateway::Gateway;

/// The time without a renewed lease after which a process counts as dead, even if its pid exists.
const HOLDER_TIMEOUT: Duration = Duration::from_mins(10);

impl Gateway {
    /// Checks all jobs and starts what is due. Does nothing while another process checks.
    pub(super) async fn tick(&self) -> Result<Vec<JobTask>, TickError> {
        let Some(_lock) = TickLock::try_acquire(self.settings.home())? else { return Ok(Vec::new()) };
        let now = self.clock.now();
        self.store.acquire_lease(&cron_lease_name(&self.holder), &self.holder, now, HOLDER_TIMEOUT).await?;
        self.mark_dead_runs(now).await?;
        self.record_ended_runs().await?;
        let open = self.store.open_job_runs().await?;
        // Missed runs are reported before anything runs again.
        self.report_missed_runs(&open).await?;
        let mut begun = Vec::new();
        if !self.is_draining() {
            for job in self.with_jobs(|jobs| jobs.list(JobFilter::Enabled)).await? {
                let name = job.name().to_owned();
                match self.process_job(job, &open, now).await {
                    Ok(run) => begun.extend(run),
                    // One job's failure must not keep the others from running.
                    Err(error) => tracing::error!(%error, name, "a scheduled job could not be looked after"),
                }
            }
        }
        self.report_missed_runs(&open).await?;
        Ok(begun)
    }

    async fn process_job(
        &self,
        job: Job,
        open: &[JobRun],
        now: Timestamp,
    ) -> Result<Option<JobTask>, TickError> {
        match scan(&job, now, self.zone()) {
            ScanFinding::Nothing => Ok(None),
            ScanFinding::SetNext(next) => {
                self.advance(&job, Some(next), now).await?;
                Ok(None)
            }
            ScanFinding::Broken => {
                tracing::error!(
                    name = job.name(),
                    schedule = job.display(),
                    "this schedule gives no time to run at"
                );
                self.advance(&job, None, now).await?;
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
            self.advance(&job, due.next, now).await?;
            return Ok(None);
        };
        // A recurring job runs again by itself; a one-time job gets a second attempt after a crash.
        let retry = if recurs { CutOffRetry::Never } else { CutOffRetry::Once };
        match self.store.claim_job_run(job.id.as_str(), at, &self.holder, retry, now).await? {
            JobClaim::Granted(run) => {
                let left_at =
                    if recurs { self.advance(&job, due.next, now).await? } else { job.next_run_at.clone() };
                Ok(Some(self.begin_run(ClaimedRun { job, run, due: at, expected_next_run: left_at })))
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
            self.advance(job, next, now).await?;
        } else if !run.state.is_open() {
            self.record_run_end(
                &job.id,
                job.next_run_at.clone(),
                status_of(run),
                run.ended_at.unwrap_or(now),
            )
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

    async fn advance(
        &self,
        job: &Job,
        next: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Option<String>, TickError> {
        let seen = job.clone();
        Ok(self.with_jobs(move |jobs| jobs.advance(&seen, next, now)).await??)
    }

    /// Writes a run's end into the list.
    pub(super) async fn record_run_end(
        &self,
        id: &JobId,
        left_at: Option<String>,
        status: RunStatus,
        ended: Timestamp,
    ) -> Result<(), TickError> {
        let id = id.clone();
        self.with_jobs(move |jobs| jobs.record(&id, left_at.as_deref(), &status, ended)).await??;
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
            let seen = id.clone();
            // A one-time job whose next time differs was edited meanwhile.
            let job = self.with_jobs(move |jobs| jobs.get(&seen)).await?;
            let left = job.filter(|job| job.schedule.recurs() || job.next_run() == Some(run.due_at));
            self.record_run_end(&id, left.and_then(|job| job.next_run_at), status_of(&run), ended).await?;
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
