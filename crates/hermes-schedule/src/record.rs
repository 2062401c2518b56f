//! The changes that the scheduler writes to the list: next times, results of runs, delivery errors.

use hermes_types::Timestamp;
use serde_json::Value;

use crate::error::Result;
use crate::file::{JobFileEntry, SaveDecision};
use crate::job::{Job, JobId, JobState, RunStatus};
use crate::jobs::JobStore;
use crate::zone::parse_instant;

/// The effect that recording a run had on its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordOutcome {
    Updated,
    /// The job had completed all its runs and was removed.
    Finished,
    /// The job was removed while it ran.
    Removed,
}

impl JobStore {
    /// Sets a job's next time, unless that time has changed since the caller read the job.
    pub fn advance(&self, seen: &Job, next: Option<Timestamp>, now: Timestamp) -> Result<Option<String>> {
        self.change(now, |content| {
            let found =
                content.jobs_mut().find(|job| job.id == seen.id && job.next_run_at == seen.next_run_at);
            let Some(job) = found else { return Ok((None, SaveDecision::No)) };
            job.next_run_at = next.map(|next| self.zone.iso(next));
            if next.is_none() {
                job.set_state(JobState::Error);
            } else if job.state() == JobState::Error.as_str() {
                job.set_state(JobState::Scheduled);
            }
            Ok((job.next_run_at.clone(), SaveDecision::Yes))
        })
    }

    /// Records the end of a run in its job. `left_at` is the job's next time when the run began; a job with another
    /// next time was changed meanwhile and keeps it. A run that is recorded already is not counted twice.
    pub fn record(
        &self,
        id: &JobId,
        left_at: Option<&str>,
        status: &RunStatus,
        ended: Timestamp,
    ) -> Result<RecordOutcome> {
        self.change(ended, |content| {
            let Some(job) = content.jobs_mut().find(|job| job.id == *id) else {
                return Ok((RecordOutcome::Removed, SaveDecision::No));
            };
            if job.last_run().is_some_and(|last| last.seconds() >= ended.seconds()) {
                return Ok((RecordOutcome::Updated, SaveDecision::No));
            }
            let untouched = job.next_run_at.as_deref() == left_at;
            record_run(job, status, self.zone.iso(ended));
            let done = job
                .repeat
                .as_ref()
                .is_some_and(|repeat| repeat.times.is_some_and(|times| repeat.completed >= times));
            if done && untouched {
                content.jobs.retain(|entry| !matches!(entry, JobFileEntry::Job(job) if job.id == *id));
                return Ok((RecordOutcome::Finished, SaveDecision::Yes));
            }
            if untouched {
                self.set_next_run(job, ended);
            }
            Ok((RecordOutcome::Updated, SaveDecision::Yes))
        })
    }

    /// Records that an answer could not be delivered, or clears the error when it could.
    pub fn note_delivery(&self, id: &JobId, problem: Option<String>, now: Timestamp) -> Result<()> {
        self.change(now, |content| {
            let Some(job) = content.jobs_mut().find(|job| job.id == *id) else {
                return Ok(((), SaveDecision::No));
            };
            let known = job.more.get("last_delivery_error").and_then(Value::as_str);
            if known == problem.as_deref() {
                return Ok(((), SaveDecision::No));
            }
            job.more.insert("last_delivery_error".to_owned(), problem.map_or(Value::Null, Value::String));
            Ok(((), SaveDecision::Yes))
        })
    }

    fn set_next_run(&self, job: &mut Job, ended: Timestamp) {
        let next = job.schedule.next(Some(ended), ended, self.zone);
        job.next_run_at = next.map(|next| self.zone.iso(next));
        match next {
            Some(_) if job.is_paused() => {}
            Some(_) => job.set_state(JobState::Scheduled),
            None if job.schedule.recurs() => job.set_state(JobState::Error),
            None => {
                job.enabled = Some(false);
                job.set_state(JobState::Completed);
            }
        }
    }
}

fn record_run(job: &mut Job, status: &RunStatus, at: String) {
    job.last_run_at = Some(at);
    let (word, error) = match status {
        RunStatus::Ok => ("ok", None),
        RunStatus::Failed(why) => ("error", Some(why.clone())),
    };
    job.last_status = Some(word.to_owned());
    job.last_error = error;
    job.repeat.get_or_insert_default().completed += 1;
}

/// Returns the earliest stored next time as an instant.
pub fn earliest_next_run<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Option<Timestamp> {
    let times = jobs.into_iter().filter_map(|job| job.next_run_at.as_deref().and_then(parse_instant));
    times.min_by(|a, b| a.seconds().total_cmp(&b.seconds()))
}
