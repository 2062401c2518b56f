//! One run of a job: a new agent without a user; its answer goes to a file and to the job's destinations.

use std::time::Duration;

use hermes_agent::{Agent, Conversation, TurnInput, TurnOutcome, TurnRequest, TurnResult, TurnWork};
use hermes_config::settings::BudgetSettings;
use hermes_schedule::{DocumentedRun, Job, RunDocuments, RunStatus};
use hermes_store::{ChargeRange, EndReason, JobRunEnd, JobRunState};
use hermes_task::TaskError;
use hermes_types::{JobRunId, ModelError, SessionId, SessionKind, Timestamp, ToolUser, TurnId};

use super::script::ScriptDirective;
use super::unattended_frontend::{DangerousCommands, UnattendedFrontend};
use super::{JobTask, TickError, messages, to_micros};
use crate::gateway::Gateway;
use crate::ports::AgentRequest;

/// The time without activity after which a run is stopped.
const TIMEOUT: Duration = Duration::from_mins(10);
/// The time a run may take after a stop request.
const GRACE: Duration = Duration::from_secs(5);
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

impl Gateway {
    pub(super) fn begin_run(&self, ordered: ClaimedRun) -> JobTask {
        let gateway = self.clone();
        let name = format!("job {}", ordered.job.id);
        self.turns.spawn(name.clone(), async move {
            let _place = gateway.job_slots.acquire(|| gateway.max_concurrent_jobs()).await;
            match gateway.store.start_job_run(ordered.run, &gateway.holder, gateway.clock.now()).await {
                Ok(true) => {}
                // Another process took this one for dead and reports the run.
                Ok(false) => return,
                Err(error) => {
                    return tracing::error!(%error, name, "a run could not be written down; it is not begun");
                }
            }
            let (inner, job) = (gateway.clone(), ordered.job.clone());
            let came = gateway.turns.spawn(name.clone(), async move { inner.run_job(&job).await }).await;
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
            if let Err(error) = gateway.record_outcome(&ordered, came).await {
                tracing::error!(%error, name, "what a job came to could not be written down");
            }
        })
    }

    async fn run_job(&self, job: &Job) -> JobOutcome {
        if job.is_script_only() {
            let outcome = self.run_script_only(job).await;
            return JobOutcome { prompt: String::new(), outcome, source: AnswerSource::Script };
        }
        let words = match self.run_prelude_script(job).await {
            ScriptDirective::Nothing => String::new(),
            ScriptDirective::Prepend(words) => words,
            ScriptDirective::SkipAgent => {
                let outcome = Ok("[SILENT] The script found nothing to do.".to_owned());
                return JobOutcome { prompt: job.prompt().to_owned(), outcome, source: AnswerSource::Agent };
            }
        };
        let prompt = self.job_prompt(job, &words);
        let outcome = self.run_job_agent(job, &prompt).await;
        JobOutcome { prompt, outcome, source: AnswerSource::Agent }
    }

    async fn run_job_agent(&self, job: &Job, prompt: &str) -> Result<String, JobFailure> {
        let left = self.remaining_budget(job).await?;
        let toolsets = job.toolsets();
        let agent = self
            .ports
            .agents
            .agent(&AgentRequest {
                platform: "cron",
                tool_user: Some(ToolUser::Job),
                model: job.model.as_deref(),
                provider: job.provider.as_deref(),
                base_url: job.base_url.as_deref(),
                toolsets: toolsets.as_deref(),
                ..AgentRequest::default()
            })
            .map_err(|words| JobFailure::new("Configuration", words))?;
        let tools = self.filter_own_targets(job, agent.tools().to_vec()).await;
        let agent = agent.into_builder().job(job.id.to_string()).tools(tools).build();
        let session = self.unused_session_id(job).await?;
        let mut conversation = agent.new_conversation_with_id(session, "cron", SessionKind::Gateway);
        if let Some(folder) = job.extra("workdir") {
            let folder = std::path::Path::new(folder);
            if !folder.is_absolute() || !folder.is_dir() {
                let words = format!("the working folder {} does not exist", folder.display());
                return Err(JobFailure::new("Configuration", words));
            }
            self.ports.agents.set_working_folder(conversation.task(), folder);
        }
        let ran = self.run_with_idle_timeout(&agent, &mut conversation, prompt, left).await;
        if let Err(error) = agent.end_conversation(&conversation, EndReason::CronComplete).await {
            tracing::warn!(%error, "the session of a job could not be closed");
        }
        answer_or_failure(ran?)
    }

    /// Returns `cron_<job>_YYYYMMDD_HHMMSS`, with a number for a second run in the same second.
    async fn unused_session_id(&self, job: &Job) -> Result<SessionId, JobFailure> {
        let time = self.zone().local(self.clock.now()).format("%Y%m%d_%H%M%S").to_string();
        let base = format!("cron_{}_{time}", job.id);
        let mut session = SessionId::new(base.clone());
        for number in 2.. {
            let known = self
                .store
                .session(&session)
                .await
                .map_err(|error| JobFailure::new("Storage", error.to_string()))?;
            if known.is_none() {
                break;
            }
            session = SessionId::new(format!("{base}_{number}"));
        }
        Ok(session)
    }

    /// Runs the turn and stops it when it shows no activity for too long.
    async fn run_with_idle_timeout(
        &self,
        agent: &Agent,
        conversation: &mut Conversation,
        prompt: &str,
        left: Option<u64>,
    ) -> Result<TurnResult, JobFailure> {
        let cancel = self.turns.cancel_token().child_token();
        let commands = DangerousCommands::configured(&self.settings.current().config);
        let watch = UnattendedFrontend::new(self.clock.clone(), left, cancel.clone(), commands);
        let patience = self.job_idle_timeout();
        let silence = async {
            match patience {
                Some(patience) => watch.wait_until_silent(patience).await,
                None => std::future::pending().await,
            }
        };
        let said = Box::new(TurnInput::text(prompt));
        let work = TurnWork::Begin { id: TurnId::generate(), input: said };
        let request = TurnRequest { work, frontend: &watch, cancel: &cancel, grace: Some(GRACE) };
        let running = agent.drive(conversation, request);
        tokio::pin!(running);
        let ended = tokio::select! {
            ended = &mut running => Some(ended),
            () = silence => None,
        };
        let Some(ended) = ended else {
            cancel.cancel();
            if let Err(error) = running.await {
                tracing::warn!(%error, "a run that would not stop could not be closed");
            }
            let seconds = patience.unwrap_or_default().as_secs();
            return Err(JobFailure::new("Timeout", format!("nothing happened for {seconds} seconds")));
        };
        if watch.is_budget_spent() {
            return Err(budget_exceeded());
        }
        match ended.map_err(|error| JobFailure::new("Session", error.to_string()))? {
            TurnOutcome::Ended(result) => Ok(*result),
            TurnOutcome::Abandoned | TurnOutcome::Parked(_) => {
                Err(JobFailure::new("Timeout", "the run did not stop when told to"))
            }
        }
    }

    /// Returns the millionths of a dollar this job may still spend; `None` means no limit.
    async fn remaining_budget(&self, job: &Job) -> Result<Option<u64>, JobFailure> {
        let Some(cap) = BudgetSettings::from_config(&self.settings.current().config).per_job_usd else {
            return Ok(None);
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a sum of money, not negative"
        )]
        let cap = (cap * 1e6) as u64;
        let spent = self.store.spending(ChargeRange::Job(job.id.to_string(), Timestamp(0.0))).await;
        let spent = spent.map_err(|error| JobFailure::new("Storage", error.to_string()))?.micro_usd;
        match cap.checked_sub(spent).filter(|left| *left > 0) {
            Some(left) => Ok(Some(left)),
            None => Err(budget_exceeded()),
        }
    }

    /// Returns how many jobs may run at once; `None` means no limit.
    fn max_concurrent_jobs(&self) -> Option<usize> {
        let settings = self.settings.current();
        let from_env = settings.env.get("HERMES_CRON_MAX_PARALLEL").and_then(|text| text.trim().parse().ok());
        let most = from_env.or_else(|| settings.config.int("cron.max_parallel_jobs"));
        most.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0)
    }

    fn job_idle_timeout(&self) -> Option<Duration> {
        let settings = self.settings.current();
        let seconds =
            settings.env.get("HERMES_CRON_TIMEOUT").and_then(|text| text.trim().parse::<f64>().ok());
        match seconds {
            None => Some(TIMEOUT),
            Some(seconds) => Duration::try_from_secs_f64(seconds).ok().filter(|patience| !patience.is_zero()),
        }
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
        let sent =
            self.job_replies(job, text.as_deref(), &format!("cron:{}:{}:{run}", job.id, due.seconds())).await;
        let platforms = sent.platforms();
        let end = JobRunEnd { state, error: error.clone(), replies: sent.replies, at: ended };
        if !self.store.finish_job_run(*run, &self.holder, end).await? {
            tracing::warn!(job = %job.id, "a run was given up for dead and ended after all; nothing is said about it");
            return Ok(());
        }
        for platform in platforms {
            self.delivery.wake(&platform);
        }
        let status = error.map_or(RunStatus::Ok, RunStatus::Failed);
        self.record_run_end(&job.id, left_at.clone(), status, ended).await?;
        let (id, problem) = (job.id.clone(), sent.problem);
        self.with_jobs(move |jobs| jobs.note_delivery(&id, problem, ended)).await??;
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
        let documents = RunDocuments::new(self.settings.home().clone(), self.zone());
        let run = DocumentedRun { at, prompt: &came.prompt, outcome };
        if let Err(error) = documents.write(job, &run, keep) {
            tracing::error!(%error, job = %job.id, "the document of a run could not be written; its answer is in the session");
        }
    }
}

/// Returns the answer of a turn, or why it has none.
fn answer_or_failure(result: TurnResult) -> Result<String, JobFailure> {
    if let Some(failure) = &result.failure {
        let kind = match failure {
            ModelError::Budget(_) => "Budget",
            ModelError::Configure(_) => "Configuration",
            _ => "Model",
        };
        return Err(JobFailure::new(kind, result.error.clone().unwrap_or_else(|| failure.to_string())));
    }
    match (result.response, result.error) {
        (Some(answer), _) if !answer.trim().is_empty() => Ok(answer),
        (_, Some(error)) => Err(JobFailure::new("Turn", error)),
        (answer, None) => Ok(answer.unwrap_or_default()),
    }
}

fn budget_exceeded() -> JobFailure {
    JobFailure::new("Budget", "this job has spent its limit. Raise `budget.per_job_usd` to let it go on")
}
