//! Sends messages about jobs to the chats that receive them.

use std::collections::BTreeMap;

use hermes_schedule::{Job, JobId};
use hermes_store::{JobRun, JobRunState};
use hermes_types::{Envelope, OutgoingMessage, Sender};

use super::destination::ChatDestination;
use super::{TickError, messages};
use crate::deliver::{self, OutgoingAnswer};
use crate::gateway::Gateway;

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

impl Gateway {
    /// Builds a message for every destination of a job. Without a text there are no messages.
    pub(super) async fn job_replies(&self, job: &Job, text: Option<&str>, key: &str) -> JobReplies {
        let Some(text) = text else { return JobReplies::default() };
        let addresses = self.job_destinations(job).await;
        for problem in &addresses.problems {
            tracing::warn!(job = %job.id, name = job.name(), problem, "a job's answer cannot be delivered");
        }
        let replies = addresses.found.iter().enumerate().flat_map(|(at, address)| {
            let conversation = format!("{}:{}", address.platform, address.place.chat_id);
            let planned = self.plan_job_reply(address, text, &format!("{key}:{at}"));
            planned.into_iter().map(move |reply| (conversation.clone(), reply))
        });
        let problem = (!addresses.problems.is_empty()).then(|| addresses.problems.join("; "));
        JobReplies { replies: replies.collect(), problem }
    }

    fn plan_job_reply(&self, address: &ChatDestination, text: &str, key: &str) -> Vec<OutgoingMessage> {
        let envelope = Envelope {
            platform: address.platform.clone(),
            platform_key: String::new(),
            place: address.place.clone(),
            sender: Sender::default(),
            parts: Vec::new(),
            message_id: None,
            reply_to: None,
            reply_to_text: None,
            skill: None,
            quiet_ms: 0,
            received_at: self.clock.now(),
        };
        deliver::plan_replies(&OutgoingAnswer {
            text,
            envelope: &envelope,
            abilities: self.delivery.abilities(&address.platform),
            drafts: Vec::new(),
            key,
        })
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
            let seen = JobId::new(id.clone());
            let job = self.with_jobs(move |jobs| jobs.get(&seen)).await?;
            let Some(job) = job else {
                tracing::warn!(
                    job = id,
                    runs = runs.len(),
                    "runs of a job that is gone were missed or cut off"
                );
                self.store.notify_job_runs(ids(&runs), Vec::new(), self.clock.now()).await?;
                continue;
            };
            let text = messages::describe_missed_runs(&job, &runs, self.zone());
            tracing::warn!("{text}");
            let last = runs.iter().map(|run| run.id.0).max().unwrap_or_default();
            let attempts: u32 = runs.iter().map(|run| run.attempts).sum();
            let sent =
                self.job_replies(&job, Some(&text), &format!("cron:{id}:missed:{last}:{attempts}")).await;
            let platforms = sent.platforms();
            self.store.notify_job_runs(ids(&runs), sent.replies, self.clock.now()).await?;
            for platform in platforms {
                self.delivery.wake(&platform);
            }
        }
        Ok(())
    }
}

fn ids(runs: &[JobRun]) -> Vec<hermes_types::JobRunId> {
    runs.iter().map(|run| run.id).collect()
}
