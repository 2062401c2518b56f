//! Scheduled jobs: checks the list every minute, runs what is due and reports the results.
//!
//! The list and its rules are in `hermes-schedule`; the state of each instant is in the database. Invariants: an
//! instant is claimed in the database before anything is done about it, so it runs at most once, whichever
//! process checks; a job's next time is on disk before it runs; a run's end and its message are one write; a
//! missed, failed or cut-off run is reported in a line, unless the job has no destination. The ticker waits for
//! no job.

pub(crate) mod destination;
mod job_replies;
mod job_slots;
mod messages;
mod prompt;
mod run;
mod script;
mod send_filter;
mod tick;
mod unattended_frontend;

use std::time::Duration;

use hermes_schedule::Zone;
pub use hermes_schedule::{
    Error as JobError, Job, JobChange, JobFilter, JobId, JobStore, NewJob, PauseChange,
};
use hermes_task::Task;
use hermes_types::Timestamp;
use thiserror::Error;
use tokio::sync::oneshot;

use crate::gateway::Gateway;

pub(crate) use job_slots::JobSlots;

const TICK_INTERVAL: Duration = Duration::from_mins(1);

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

/// Starts the ticker. It ends with the gateway.
pub fn start(gateway: &Gateway) {
    let ticking = gateway.clone();
    drop(gateway.tasks.spawn("scheduled jobs", async move {
        loop {
            ticking.write_heartbeat("ticker_heartbeat");
            match ticking.tick().await {
                Ok(begun) => {
                    ticking.write_heartbeat("ticker_last_success");
                    drop(begun);
                }
                Err(error) => tracing::error!(%error, "the scheduled jobs could not be looked at"),
            }
            // Replies that another process queued are sent now instead of at the next poll.
            for platform in ticking.platforms() {
                ticking.delivery.wake(&platform);
            }
            ticking.clock.sleep(TICK_INTERVAL).await;
        }
    }));
}

/// Checks the jobs once, waits for the runs this starts and returns their number.
pub async fn tick_once(gateway: &Gateway) -> Result<usize, TickError> {
    let begun = gateway.tick().await?;
    let count = begun.len();
    for run in begun {
        // A failed run has already been reported.
        let _: Result<(), _> = run.await;
    }
    Ok(count)
}

impl Gateway {
    /// Returns the time zone of schedules from the current configuration.
    fn zone(&self) -> Zone {
        let settings = self.settings.current();
        Zone::configured(&settings.config, &settings.env)
    }

    fn jobs(&self) -> JobStore {
        JobStore::new(self.settings.home().clone(), self.zone())
    }

    /// Works on the job list on a separate thread, because another process may hold its lock.
    pub async fn with_jobs<T: Send + 'static>(
        &self,
        work: impl FnOnce(&JobStore) -> T + Send + 'static,
    ) -> Result<T, TickError> {
        let (answer, done) = oneshot::channel();
        let jobs = self.jobs();
        let started = std::thread::Builder::new().name("jobs".to_owned()).spawn(move || {
            // The receiver is gone when the gateway has ended; the work is completed all the same.
            let _ = answer.send(work(&jobs));
        });
        started.map_err(|error| TickError::Thread(error.to_string()))?;
        done.await.map_err(|_| TickError::Thread("it ended without an answer".to_owned()))
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
}

/// The task of a running job.
type JobTask = Task<()>;

/// Rounds to microseconds, the precision in which instants and ends of runs are stored and compared.
fn to_micros(at: Timestamp) -> Timestamp {
    Timestamp((at.seconds() * 1e6).round() / 1e6)
}
