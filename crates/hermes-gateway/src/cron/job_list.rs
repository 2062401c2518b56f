//! Access to the list of jobs and to the documents of their runs.

use hermes_schedule::{Job, JobId, JobStore, RunDocuments, RunStatus, Zone};
use hermes_types::Timestamp;
use tokio::sync::oneshot;

use super::TickError;
use crate::settings::LiveSettings;

/// The list of jobs of a home. Clones refer to the same list.
#[derive(Debug, Clone)]
pub struct JobList {
    settings: LiveSettings,
}

impl JobList {
    pub fn new(settings: LiveSettings) -> Self {
        Self { settings }
    }

    /// Works on the job list on a separate thread, because another process may hold its lock.
    pub async fn with_jobs<T: Send + 'static>(
        &self,
        work: impl FnOnce(&JobStore) -> T + Send + 'static,
    ) -> Result<T, TickError> {
        let (answer, done) = oneshot::channel();
        let jobs = JobStore::new(self.settings.home().clone(), self.zone());
        let started = std::thread::Builder::new().name("jobs".to_owned()).spawn(move || {
            // The receiver is gone when the gateway has ended; the work is completed all the same.
            let _ = answer.send(work(&jobs));
        });
        started.map_err(|error| TickError::Thread(error.to_string()))?;
        done.await.map_err(|_| TickError::Thread("it ended without an answer".to_owned()))
    }

    /// Returns the time zone of schedules from the current configuration.
    pub(super) fn zone(&self) -> Zone {
        let settings = self.settings.current();
        Zone::configured(&settings.config, &settings.env)
    }

    /// Returns the documents of earlier runs.
    pub(super) fn documents(&self) -> RunDocuments {
        RunDocuments::new(self.settings.home().clone(), self.zone())
    }

    /// Returns a job that is still in the list.
    pub(super) async fn find(&self, id: &JobId) -> Result<Option<Job>, TickError> {
        let id = id.clone();
        self.with_jobs(move |jobs| jobs.get(&id)).await
    }

    /// Stores when a job runs next, unless somebody has edited it. Returns what the list has now.
    pub(super) async fn advance(
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
}
