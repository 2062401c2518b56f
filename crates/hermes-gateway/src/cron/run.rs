//! One run of a job: a new agent without a user; its answer goes to a file and to the job's destinations.

use std::sync::Arc;

use hermes_schedule::{DocumentedRun, Job, RunStatus};
use hermes_store::{JobRunEnd, JobRunState, Store};
use hermes_task::{TaskError, TaskGroup};
use hermes_types::{Clock, HolderId, JobRunId, Timestamp};

use super::job_agent::JobAgents;
use super::job_list::JobList;
use super::job_replies::JobMessenger;
use super::job_script::{JobScriptStep, ScriptDirective};
use super::job_slots::JobSlots;
use super::prompt::JobPrompts;
use super::{JobTask, TickError, messages, to_micros};
use crate::resources::GatewayResources;
use crate::settings::LiveSettings;

const KEPT_DOCUMENTS: i64 = 50;

/// A run that this process has claimed.
pub(super) struct ClaimedRun {
    pub(super) job: Job,
    pub(super) run: JobRunId,
    pub(super) due: Timestamp,
    /// The next run time in the list after the claim; if it has changed since, somebody edited the job and their
    /// value stays.
    pub(super) expected_next_run: Option<String>,
}

/// The source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerSource {
    Agent,
    /// The output of the job's script, delivered unchanged.
    Script,
}

/// The reason why there is no answer.
#[derive(Debug)]
pub(super) struct JobFailure {
    /// The kind of failure, for the document.
    pub(super) kind: &'static str,
    pub(super) message: String,
}

impl JobFailure {
    pub(super) fn new(kind: &'static str, words: impl Into<String>) -> Self {
        Self { kind, message: words.into() }
    }
}

/// The outcome of a run, and the whole prompt.
struct JobOutcome {
    prompt: String,
    outcome: Result<String, JobFailure>,
    source: AnswerSource,
}

/// Runs jobs that are due.
pub(super) struct JobRunner {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    holder: HolderId,
    jobs: JobList,
    agents: JobAgents,
    scripts: JobScriptStep,
    prompts: JobPrompts,
    messenger: JobMessenger,
    slots: Arc<JobSlots>,
    turns: Arc<TaskGroup>,
}

/// What a run of a job passes through.
pub(super) struct JobRunParts {
    pub(super) jobs: JobList,
    pub(super) agents: JobAgents,
    pub(super) scripts: JobScriptStep,
    pub(super) prompts: JobPrompts,
    pub(super) messenger: JobMessenger,
}

impl JobRunner {
    pub(super) fn new(resources: &GatewayResources, parts: JobRunParts) -> Self {
        let JobRunParts { jobs, agents, scripts, prompts, messenger } = parts;
        Self {
            store: resources.store.clone(),
            clock: resources.clock.clone(),
            settings: resources.settings.clone(),
            holder: resources.holder.clone(),
            jobs,
            agents,
            scripts,
            prompts,
            messenger,
            slots: Arc::default(),
            turns: resources.turns.clone(),
        }
    }

    /// Starts a run, which waits for a slot first.
    pub(super) fn start(self: &Arc<Self>, ordered: ClaimedRun) -> JobTask {
        let runner = Arc::clone(self);
        let name = format!("job {}", ordered.job.id);
        self.turns.spawn(name.clone(), async move {
            let _slot = runner.slots.acquire(|| runner.max_concurrent_jobs()).await;
            match runner.store.start_job_run(ordered.run, &runner.holder, runner.clock.now()).await {
                Ok(true) => {}
                // Another process took this one for dead and reports the run.
                Ok(false) => return,
                Err(error) => {
                    return tracing::error!(%error, name, "a run could not be written down; it is not begun");
                }
            }
            let (inner, job) = (runner.clone(), ordered.job.clone());
            let came = runner.turns.spawn(name.clone(), async move { inner.run_job(&job).await }).await;
            let came = match came {
                Ok(came) => came,
                // The gateway is stopping; the next start finds the run and reports it.
                Err(TaskError::Cancelled) => return,
                Err(TaskError::Panicked(reason)) => JobOutcome {
                    prompt: ordered.job.prompt().to_owned(),
                    outcome: Err(JobFailure::new("Panic", reason)),
                    source: AnswerSource::Agent,
                },
            };
            if let Err(error) = runner.record_outcome(&ordered, came).await {
                tracing::error!(%error, name, "what a job came to could not be written down");
            }
        })
    }

    async fn run_job(&self, job: &Job) -> JobOutcome {
        if job.is_script_only() {
            let outcome = self.scripts.run_alone(job).await;
            return JobOutcome { prompt: String::new(), outcome, source: AnswerSource::Script };
        }
        let words = match self.scripts.run_prelude(job).await {
            ScriptDirective::Nothing => String::new(),
            ScriptDirective::Prepend(words) => words,
            ScriptDirective::SkipAgent => {
                let outcome = Ok("[SILENT] The script found nothing to do.".to_owned());
                return JobOutcome { prompt: job.prompt().to_owned(), outcome, source: AnswerSource::Agent };
            }
        };
        let prompt = self.prompts.build(job, &words);
        let outcome = self.agents.run(job, &prompt).await;
        JobOutcome { prompt, outcome, source: AnswerSource::Agent }
    }

    /// Returns how many jobs may run at once; `None` means no limit.
    fn max_concurrent_jobs(&self) -> Option<usize> {
        let settings = self.settings.current();
        let from_env = settings.env.get("HERMES_CRON_MAX_PARALLEL").and_then(|text| text.trim().parse().ok());
        let most = from_env.or_else(|| settings.config.int("cron.max_parallel_jobs"));
        most.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0)
    }

    /// Writes the document, the message, the row and the list, in this order.
    async fn record_outcome(&self, ordered: &ClaimedRun, came: JobOutcome) -> Result<(), TickError> {
        let ClaimedRun { job, run, due, expected_next_run: left_at } = ordered;
        let ended = to_micros(self.clock.now());
        self.write_document(job, &came, ended);
        let (state, error) = match &came.outcome {
            Ok(_) => (JobRunState::Completed, None),
            Err(failure) => (JobRunState::Failed, Some(failure.message.clone())),
        };
        let settings = self.settings.current();
        let wrapped = came.source == AnswerSource::Agent && settings.config.flag("cron.wrap_response");
        let text = match (came.source, &came.outcome) {
            (AnswerSource::Script, Ok(words)) => Some(words.clone()).filter(|words| !words.trim().is_empty()),
            (_, outcome) => messages::message_for_run(job, outcome, wrapped),
        };
        let sent = self
            .messenger
            .replies(job, text.as_deref(), &format!("cron:{}:{}:{run}", job.id, due.seconds()))
            .await;
        let platforms = sent.platforms();
        let end = JobRunEnd { state, error: error.clone(), replies: sent.replies, at: ended };
        if !self.store.finish_job_run(*run, &self.holder, end).await? {
            tracing::warn!(job = %job.id, "a run was given up for dead and ended after all; nothing is said about it");
            return Ok(());
        }
        self.messenger.wake(&platforms);
        let status = error.map_or(RunStatus::Ok, RunStatus::Failed);
        self.jobs.record_run_end(&job.id, left_at.clone(), status, ended).await?;
        let (id, problem) = (job.id.clone(), sent.problem);
        self.jobs.with_jobs(move |jobs| jobs.note_delivery(&id, problem, ended)).await??;
        self.store.mark_job_run_recorded(*run).await?;
        Ok(())
    }

    fn write_document(&self, job: &Job, came: &JobOutcome, at: Timestamp) {
        let error =
            came.outcome.as_ref().err().map(|failure| format!("{}: {}", failure.kind, failure.message));
        let outcome = match (&came.outcome, &error) {
            (Ok(answer), _) => Ok(answer.as_str()),
            (Err(_), error) => Err(error.as_deref().unwrap_or_default()),
        };
        let keep = self.settings.current().config.int("cron.output_retention").unwrap_or(KEPT_DOCUMENTS);
        let keep = usize::try_from(keep).ok().filter(|keep| *keep > 0);
        let documents = self.jobs.documents();
        let run = DocumentedRun { at, prompt: &came.prompt, outcome };
        if let Err(error) = documents.write(job, &run, keep) {
            tracing::error!(%error, job = %job.id, "the document of a run could not be written; its answer is in the session");
        }
    }
}
