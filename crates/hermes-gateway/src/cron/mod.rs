//! Scheduled jobs: looks at the list every minute, runs what is due, tells what came of it.
//!
//! The list and its rules are `hermes-schedule`'s; what became of each instant is in the database. Invariants: an instant
//! is claimed in the database before anything is done about it, so it is run at most once whoever looks; a job's next time
//! is on disk before it runs; a run's end and what is said about it are one write; what was missed, failed or was cut off
//! is told in a line, unless the job is delivered nowhere. The ticker waits for no job.

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

/// Why a look at the jobs came to nothing.
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
            // What another process queued is sent now rather than in a while.
            for platform in ticking.platforms() {
                ticking.delivery.wake(&platform);
            }
            ticking.clock.sleep(TICK_INTERVAL).await;
        }
    }));
}

/// One look, and the runs it began to their end. Says how many there were.
pub async fn tick_once(gateway: &Gateway) -> Result<usize, TickError> {
    let begun = gateway.tick().await?;
    let count = begun.len();
    for run in begun {
        // One that ended badly has said so where it is told.
        let _: Result<(), _> = run.await;
    }
    Ok(count)
}

impl Gateway {
    /// Where schedules are read, by the configuration of now.
    fn zone(&self) -> Zone {
        let settings = self.settings.current();
        Zone::configured(&settings.config, &settings.env)
    }

    fn jobs(&self) -> JobStore {
        JobStore::new(self.settings.home().clone(), self.zone())
    }

    /// Work on the list, on a thread of its own: another process may hold its lock.
    pub async fn with_jobs<T: Send + 'static>(
        &self,
        work: impl FnOnce(&JobStore) -> T + Send + 'static,
    ) -> Result<T, TickError> {
        let (answer, done) = oneshot::channel();
        let jobs = self.jobs();
        let started = std::thread::Builder::new().name("jobs".to_owned()).spawn(move || {
            // Nobody waits any more when the gateway has ended; the work is done in order all the same.
            let _ = answer.send(work(&jobs));
        });
        started.map_err(|error| TickError::Thread(error.to_string()))?;
        done.await.map_err(|_| TickError::Thread("it ended without an answer".to_owned()))
    }

    /// A sign of life for those who look from outside.
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

/// A run under way.
type JobTask = Task<()>;

/// Instants are written down to the microsecond; so are the ends of runs, to be compared with what the list says.
fn to_micros(at: Timestamp) -> Timestamp {
    Timestamp((at.seconds() * 1e6).round() / 1e6)
}
