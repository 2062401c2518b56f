//! One run of a job: a new agent with nobody present, the answer into a file and to where it is wanted.

use std::time::Duration;

use hermes_agent::{Agent, Conversation, Said, TurnOutcome, TurnRequest, TurnResult, TurnWork};
use hermes_config::settings::BudgetSettings;
use hermes_schedule::{DocumentedRun, Documents, Job, RunStatus};
use hermes_store::{EndReason, JobEnd, JobRunState, Span};
use hermes_task::Ended;
use hermes_types::{JobRunId, ModelError, SessionId, SessionKind, Timestamp, TurnId};

use super::attendance::{Attendance, DangerousCommands};
use super::script::Prelude;
use super::{Begun, TickError, to_micros, words};
use crate::gateway::Gateway;
use crate::ports::Wish;

/// No recursion, no messages of its own, no questions.
const WITHOUT: [&str; 3] = ["cronjob", "messaging", "clarify"];
/// How long a run may give no sign of life.
const PATIENCE: Duration = Duration::from_mins(10);
/// How long one that was told to stop may take.
const GRACE: Duration = Duration::from_secs(5);
const KEPT_DOCUMENTS: i64 = 50;

/// A run that was claimed.
pub(super) struct Ordered {
    pub(super) job: Job,
    pub(super) run: JobRunId,
    pub(super) due: Timestamp,
    /// What the list says about its next time now; whoever changes it meanwhile has the last word.
    pub(super) left_at: Option<String>,
}

/// Whose words an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Agent,
    /// They go out as they are.
    Script,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Failure {
    /// The kind of it, for the document.
    pub(super) kind: &'static str,
    pub(super) words: String,
}

impl Failure {
    pub(super) fn new(kind: &'static str, words: impl Into<String>) -> Self {
        Self { kind, words: words.into() }
    }
}

/// What a run came to, and all the model was told.
struct Came {
    prompt: String,
    outcome: Result<String, Failure>,
    speaker: Speaker,
}

impl Gateway {
    pub(super) fn begin_run(&self, ordered: Ordered) -> Begun {
        let gateway = self.clone();
        let name = format!("job {}", ordered.job.id);
        self.turns.spawn(name.clone(), async move {
            let _place = gateway.places.take(|| gateway.most_jobs()).await;
            match gateway.store.start_job_run(ordered.run, &gateway.holder, gateway.clock.now()).await {
                Ok(true) => {}
                // Somebody gave it up for dead; it is theirs to tell.
                Ok(false) => return,
                Err(error) => {
                    return tracing::error!(%error, name, "a run could not be written down; it is not begun");
                }
            }
            let (inner, job) = (gateway.clone(), ordered.job.clone());
            let came = gateway.turns.spawn(name.clone(), async move { inner.carry_out(&job).await }).await;
            let came = match came {
                Ok(came) => came,
                // The gateway ends; the next start finds the run and tells of it.
                Err(Ended::Cancelled) => return,
                Err(Ended::Panicked(reason)) => Came {
                    prompt: ordered.job.prompt().to_owned(),
                    outcome: Err(Failure::new("Panic", reason)),
                    speaker: Speaker::Agent,
                },
            };
            if let Err(error) = gateway.conclude(&ordered, came).await {
                tracing::error!(%error, name, "what a job came to could not be written down");
            }
        })
    }

    async fn carry_out(&self, job: &Job) -> Came {
        if job.is_without_agent() {
            let outcome = self.script_alone(job).await;
            return Came { prompt: String::new(), outcome, speaker: Speaker::Script };
        }
        let words = match self.prelude(job).await {
            Prelude::Nothing => String::new(),
            Prelude::Words(words) => words,
            Prelude::Rest => {
                let outcome = Ok("[SILENT] The script found nothing to do.".to_owned());
                return Came { prompt: job.prompt().to_owned(), outcome, speaker: Speaker::Agent };
            }
        };
        let prompt = self.job_prompt(job, &words);
        let outcome = self.ask_agent(job, &prompt).await;
        Came { prompt, outcome, speaker: Speaker::Agent }
    }

    async fn ask_agent(&self, job: &Job, prompt: &str) -> Result<String, Failure> {
        let left = self.money_left(job).await?;
        let toolsets = job.toolsets();
        let mut agent = self
            .ports
            .agents
            .agent(&Wish {
                platform: "cron",
                without: &WITHOUT,
                model: job.model.as_deref(),
                provider: job.provider.as_deref(),
                base_url: job.base_url.as_deref(),
                toolsets: toolsets.as_deref(),
                ..Wish::default()
            })
            .map_err(|words| Failure::new("Configuration", words))?;
        agent.job = Some(job.id.to_string());
        self.spare_own_targets(job, &mut agent.tools).await;
        let session = self.free_session(job).await?;
        let mut conversation = agent.begin_as(session, "cron", SessionKind::Gateway);
        if let Some(folder) = job.extra("workdir") {
            let folder = std::path::Path::new(folder);
            if !folder.is_absolute() || !folder.is_dir() {
                let words = format!("the working folder {} does not exist", folder.display());
                return Err(Failure::new("Configuration", words));
            }
            self.ports.agents.place(conversation.task(), folder);
        }
        let ran = self.run_watched(&agent, &mut conversation, prompt, left).await;
        if let Err(error) = agent.end(&conversation, EndReason::CronComplete).await {
            tracing::warn!(%error, "the session of a job could not be closed");
        }
        judge(ran?)
    }

    /// `cron_<job>_YYYYMMDD_HHMMSS`; a second run in the same second gets a number.
    async fn free_session(&self, job: &Job) -> Result<SessionId, Failure> {
        let time = self.zone().local(self.clock.now()).format("%Y%m%d_%H%M%S").to_string();
        let base = format!("cron_{}_{time}", job.id);
        let mut session = SessionId::new(base.clone());
        for number in 2.. {
            let known = self
                .store
                .session(&session)
                .await
                .map_err(|error| Failure::new("Storage", error.to_string()))?;
            if known.is_none() {
                break;
            }
            session = SessionId::new(format!("{base}_{number}"));
        }
        Ok(session)
    }

    /// Runs the turn, and ends it when it gives no sign of life for too long.
    async fn run_watched(
        &self,
        agent: &Agent,
        conversation: &mut Conversation,
        prompt: &str,
        left: Option<u64>,
    ) -> Result<TurnResult, Failure> {
        let cancel = self.turns.cancel_token().child_token();
        let commands = DangerousCommands::configured(&self.live.now().config);
        let watch = Attendance::new(self.clock.clone(), left, cancel.clone(), commands);
        let patience = self.job_patience();
        let silence = async {
            match patience {
                Some(patience) => watch.until_silent(patience).await,
                None => std::future::pending().await,
            }
        };
        let said = Box::new(Said::text(prompt));
        let work = TurnWork::Begin { id: TurnId::generate(), said };
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
            return Err(Failure::new("Timeout", format!("nothing happened for {seconds} seconds")));
        };
        if watch.is_spent() {
            return Err(too_dear());
        }
        match ended.map_err(|error| Failure::new("Session", error.to_string()))? {
            TurnOutcome::Ended(result) => Ok(*result),
            TurnOutcome::Abandoned | TurnOutcome::Parked(_) => {
                Err(Failure::new("Timeout", "the run did not stop when told to"))
            }
        }
    }

    /// Millionths of a dollar this job may still spend; nothing is no limit.
    async fn money_left(&self, job: &Job) -> Result<Option<u64>, Failure> {
        let Some(cap) = BudgetSettings::from_config(&self.live.now().config).per_job_usd else {
            return Ok(None);
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a sum of money, not negative"
        )]
        let cap = (cap * 1e6) as u64;
        let spent = self.store.spent(Span::Job(job.id.to_string(), Timestamp(0.0))).await;
        let spent = spent.map_err(|error| Failure::new("Storage", error.to_string()))?.micro_usd;
        match cap.checked_sub(spent).filter(|left| *left > 0) {
            Some(left) => Ok(Some(left)),
            None => Err(too_dear()),
        }
    }

    /// How many jobs may run at once; nothing is no limit.
    fn most_jobs(&self) -> Option<usize> {
        let settings = self.live.now();
        let from_env = settings.env.get("HERMES_CRON_MAX_PARALLEL").and_then(|text| text.trim().parse().ok());
        let most = from_env.or_else(|| settings.config.int("cron.max_parallel_jobs"));
        most.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0)
    }

    fn job_patience(&self) -> Option<Duration> {
        let settings = self.live.now();
        let seconds =
            settings.env.get("HERMES_CRON_TIMEOUT").and_then(|text| text.trim().parse::<f64>().ok());
        match seconds {
            None => Some(PATIENCE),
            Some(seconds) => Duration::try_from_secs_f64(seconds).ok().filter(|patience| !patience.is_zero()),
        }
    }

    /// The document, the words, the row and the list, in this order.
    async fn conclude(&self, ordered: &Ordered, came: Came) -> Result<(), TickError> {
        let Ordered { job, run, due, left_at } = ordered;
        let ended = to_micros(self.clock.now());
        self.write_document(job, &came, ended);
        let (state, error) = match &came.outcome {
            Ok(_) => (JobRunState::Completed, None),
            Err(failure) => (JobRunState::Failed, Some(failure.words.clone())),
        };
        let settings = self.live.now();
        let wrapped = came.speaker == Speaker::Agent && settings.config.flag("cron.wrap_response");
        let text = match (came.speaker, &came.outcome) {
            (Speaker::Script, Ok(words)) => Some(words.clone()).filter(|words| !words.trim().is_empty()),
            (_, outcome) => words::to_deliver(job, outcome, wrapped),
        };
        let sent =
            self.replies(job, text.as_deref(), &format!("cron:{}:{}:{run}", job.id, due.seconds())).await;
        let platforms = sent.platforms();
        let end = JobEnd { state, error: error.clone(), replies: sent.replies, at: ended };
        if !self.store.finish_job_run(*run, &self.holder, end).await? {
            tracing::warn!(job = %job.id, "a run was given up for dead and ended after all; nothing is said about it");
            return Ok(());
        }
        for platform in platforms {
            self.delivery.wake(&platform);
        }
        let status = error.map_or(RunStatus::Ok, RunStatus::Failed);
        self.record(&job.id, left_at.clone(), status, ended).await?;
        let (id, problem) = (job.id.clone(), sent.problem);
        self.at_jobs(move |jobs| jobs.note_delivery(&id, problem, ended)).await??;
        self.store.mark_job_run_recorded(*run).await?;
        Ok(())
    }

    fn write_document(&self, job: &Job, came: &Came, at: Timestamp) {
        let error = came.outcome.as_ref().err().map(|failure| format!("{}: {}", failure.kind, failure.words));
        let outcome = match (&came.outcome, &error) {
            (Ok(answer), _) => Ok(answer.as_str()),
            (Err(_), error) => Err(error.as_deref().unwrap_or_default()),
        };
        let keep = self.live.now().config.int("cron.output_retention").unwrap_or(KEPT_DOCUMENTS);
        let keep = usize::try_from(keep).ok().filter(|keep| *keep > 0);
        let documents = Documents::new(self.live.home().clone(), self.zone());
        let run = DocumentedRun { at, prompt: &came.prompt, outcome };
        if let Err(error) = documents.write(job, &run, keep) {
            tracing::error!(%error, job = %job.id, "the document of a run could not be written; its answer is in the session");
        }
    }
}

/// The answer of a turn, or why it has none.
fn judge(result: TurnResult) -> Result<String, Failure> {
    if let Some(failure) = &result.failure {
        let kind = match failure {
            ModelError::Budget(_) => "Budget",
            ModelError::Configure(_) => "Configuration",
            _ => "Model",
        };
        return Err(Failure::new(kind, result.error.clone().unwrap_or_else(|| failure.to_string())));
    }
    match (result.response, result.error) {
        (Some(answer), _) if !answer.trim().is_empty() => Ok(answer),
        (_, Some(error)) => Err(Failure::new("Turn", error)),
        (answer, None) => Ok(answer.unwrap_or_default()),
    }
}

fn too_dear() -> Failure {
    Failure::new("Budget", "this job has spent its limit. Raise `budget.per_job_usd` to let it go on")
}
