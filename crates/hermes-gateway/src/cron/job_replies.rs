//! Sends messages about jobs to the chats that receive them.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_schedule::{Job, JobId};
use hermes_store::{JobRun, JobRunState, Store};
use hermes_types::{Clock, OutgoingMessage};

use super::job_destinations::JobAddressing;
use super::job_list::JobList;
use super::{TickError, messages};
use crate::deliver::{Outbox, ReplyTarget};

/// The messages about a run.
#[derive(Debug, Default)]
pub(super) struct JobReplies {
    /// The messages, each with the conversation it belongs to.
    pub(super) replies: Vec<(String, OutgoingMessage)>,
    /// The reason why some chats are not reached.
    pub(super) problem: Option<String>,
}

impl JobReplies {
    pub(super) fn platforms(&self) -> Vec<String> {
        let mut names: Vec<String> = self.replies.iter().map(|(_, reply)| reply.platform.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Writes the messages about jobs.
#[derive(Clone)]
pub(super) struct JobMessenger {
    store: Store,
    clock: Arc<dyn Clock>,
    jobs: JobList,
    addressing: JobAddressing,
    outbox: Outbox,
}

impl JobMessenger {
    pub(super) fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        jobs: JobList,
        addressing: JobAddressing,
        outbox: Outbox,
    ) -> Self {
        Self { store, clock, jobs, addressing, outbox }
    }

    /// Builds a message for every destination of a job. Without a text there are no messages.
    pub(super) async fn replies(&self, job: &Job, text: Option<&str>, key: &str) -> JobReplies {
        let Some(text) = text else { return JobReplies::default() };
        let addresses = self.addressing.resolve(job).await;
        for problem in &addresses.problems {
            tracing::warn!(job = %job.id, name = job.name(), problem, "a job's answer cannot be delivered");
        }
        let replies = addresses.found.iter().enumerate().flat_map(|(at, address)| {
            let conversation = format!("{}:{}", address.platform, address.place.chat_id);
            let target = ReplyTarget::chat(&address.platform, &address.place);
            let planned = self.outbox.plan(target, text, &format!("{key}:{at}"));
            planned.into_iter().map(move |reply| (conversation.clone(), reply))
        });
        let problem = (!addresses.problems.is_empty()).then(|| addresses.problems.join("; "));
        JobReplies { replies: replies.collect(), problem }
    }

    /// Has stored messages sent.
    pub(super) fn wake(&self, platforms: &[String]) {
        for platform in platforms {
            self.outbox.wake(platform);
        }
    }

    /// Reports missed and cut-off runs once, in one line per job. A job that is running is left to finish first.
    pub(super) async fn report_missed_runs(&self, open: &[JobRun]) -> Result<(), TickError> {
        let mut by_job: BTreeMap<String, Vec<JobRun>> = BTreeMap::new();
        for run in self.store.unreported_job_runs().await?.into_iter().filter(|run| !run.notified) {
            let untold = matches!(run.state, JobRunState::Missed | JobRunState::Unknown);
            if untold && !open.iter().any(|other| other.job == run.job) {
                by_job.entry(run.job.clone()).or_default().push(run);
            }
        }
        for (id, runs) in by_job {
            let job = self.jobs.find(&JobId::new(id.clone())).await?;
            let Some(job) = job else {
                tracing::warn!(job = id, runs = runs.len(), "runs of a removed job were missed or cut off");
                self.store.notify_job_runs(ids(&runs), Vec::new(), self.clock.now()).await?;
                continue;
            };
            let text = messages::describe_missed_runs(&job, &runs, self.jobs.zone());
            tracing::warn!("{text}");
            let last = runs.iter().map(|run| run.id.0).max().unwrap_or_default();
            let attempts: u32 = runs.iter().map(|run| run.attempts).sum();
            let sent = self.replies(&job, Some(&text), &format!("cron:{id}:missed:{last}:{attempts}")).await;
            let platforms = sent.platforms();
            self.store.notify_job_runs(ids(&runs), sent.replies, self.clock.now()).await?;
            self.wake(&platforms);
        }
        Ok(())
    }
}

fn ids(runs: &[JobRun]) -> Vec<hermes_types::JobRunId> {
    runs.iter().map(|run| run.id).collect()
}
