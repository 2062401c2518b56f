//! Scheduled jobs: checks the list every minute, runs what is due and reports the results.
//!
//! The list and its rules are in `hermes-schedule`; the state of each instant is in the database. Invariants: an
//! instant is claimed in the database before anything is done about it, so it runs at most once, whichever
//! process checks; a job's next time is on disk before it runs; a run's end and its message are one write; a
//! missed, failed or cut-off run is reported in a line, unless the job has no destination. The ticker waits for
//! no job.

mod job_agent;
mod job_destinations;
mod job_list;
mod job_replies;
mod job_script;
mod job_slots;
mod messages;
mod prompt;
mod run;
mod tick;
mod unattended_frontend;

pub use hermes_schedule::{
    Error as JobError, Job, JobChange, JobFilter, JobId, JobStore, NewJob, PauseChange,
};
use hermes_task::Task;
use hermes_types::Timestamp;
use thiserror::Error;

pub use job_list::JobList;
pub use tick::Scheduler;

pub(crate) use tick::SchedulerParts;

/// The reason why a check of the jobs failed.
#[derive(Debug, Error)]
pub enum TickError {
    #[error(transparent)]
    Store(#[from] hermes_store::Error),
    #[error(transparent)]
    Jobs(#[from] hermes_schedule::Error),
    #[error("no thread could be started: {0}")]
    Thread(String),
}

/// The task of a running job.
type JobTask = Task<()>;

/// Rounds to microseconds, the precision in which instants and ends of runs are stored and compared.
fn to_micros(at: Timestamp) -> Timestamp {
    Timestamp((at.seconds() * 1e6).round() / 1e6)
}
