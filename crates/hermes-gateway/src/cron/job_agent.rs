//! The agent of a run: it has no user, a limit of money and a limit of silence.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::{
    Agent, Conversation, STOP_GRACE, TurnEnding, TurnInput, TurnOutcome, TurnRequest, TurnResult, TurnWork,
};
use hermes_config::settings::BudgetSettings;
use hermes_schedule::{Job, JobOrigin};
use hermes_store::{ChargeRange, EndReason, Store};
use hermes_task::TaskGroup;
use hermes_types::{Clock, ModelError, SessionId, SessionKind, Timestamp, ToolUser, TurnId};

use super::job_destinations::JobAddressing;
use super::job_list::JobList;
use super::run::JobFailure;
use super::unattended_frontend::{DangerousCommands, UnattendedFrontend};
use crate::ports::{AgentProvider, AgentRequest, ChatAccount};
use crate::resources::GatewayResources;
use crate::session::ConversationSharing;
use crate::session_variables::job_variables;
use crate::settings::LiveSettings;

/// The time without activity after which a run is stopped.
const TIMEOUT: Duration = Duration::from_mins(10);

/// Runs the turns of jobs.
pub(super) struct JobAgents {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    agents: Arc<dyn AgentProvider>,
    jobs: JobList,
    addressing: JobAddressing,
    turns: Arc<TaskGroup>,
}

/// Returns the account that created a job in a chat. Homes of other programs do not name the user; there, the id of a
/// direct message's chat is the user's on most platforms.
fn origin_account(origin: &JobOrigin) -> ChatAccount<'_> {
    ChatAccount {
        platform: &origin.platform,
        user_id: Some(origin.user_id.as_deref().unwrap_or(&origin.chat_id)),
        chat_id: None,
        is_private: false,
        sharing: ConversationSharing::PerUser,
    }
}

impl JobAgents {
    pub(super) fn new(
        resources: &GatewayResources,
        agents: Arc<dyn AgentProvider>,
        jobs: JobList,
        addressing: JobAddressing,
    ) -> Self {
        Self {
            store: resources.store.clone(),
            clock: resources.clock.clone(),
            settings: resources.settings.clone(),
            agents,
            jobs,
            addressing,
            turns: resources.turns.clone(),
        }
    }

    /// Runs a prompt and returns the answer, or why there is none.
    pub(super) async fn run(&self, job: &Job, prompt: &str) -> Result<String, JobFailure> {
        let left = self.remaining_budget(job).await?;
        let toolsets = job.toolsets();
        let agent = self
            .agents
            .agent(&AgentRequest {
                platform: "cron",
                tool_user: Some(ToolUser::Job),
                model: job.model.as_deref(),
                provider: job.provider.as_deref(),
                base_url: job.base_url.as_deref(),
                toolsets: toolsets.as_deref(),
                account: job.origin.as_ref().map(origin_account),
                ..AgentRequest::default()
            })
            .map_err(|words| JobFailure::new("Configuration", words))?;
        let agent = agent.into_builder().job(job.id.to_string()).build();
        let session = self.unused_session_id(job).await?;
        let mut conversation = agent.new_conversation_with_id(session, "cron", SessionKind::Gateway);
        if let Some(folder) = job.extra("workdir") {
            let folder = std::path::Path::new(folder);
            if !folder.is_absolute() || !folder.is_dir() {
                let words = format!("the working folder {} does not exist", folder.display());
                return Err(JobFailure::new("Configuration", words));
            }
            self.agents.set_working_folder(conversation.task(), folder);
        }
        let destinations = self.addressing.resolve(job).await.found;
        let variables = job_variables(job.origin.as_ref(), destinations.first());
        self.agents.pass_variables(conversation.task(), variables);
        let ran = self.run_with_idle_timeout(&agent, &mut conversation, prompt, left).await;
        if let Err(error) = agent.end_conversation(&conversation, EndReason::CronComplete).await {
            tracing::warn!(%error, "the session of a job could not be closed");
        }
        answer_or_failure(&ran?)
    }

    /// Returns `cron_<job>_YYYYMMDD_HHMMSS`, with a number for a second run in the same second.
    async fn unused_session_id(&self, job: &Job) -> Result<SessionId, JobFailure> {
        let time = self.jobs.zone().local(self.clock.now()).format("%Y%m%d_%H%M%S").to_string();
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
        let patience = self.idle_timeout();
        let silence = async {
            match patience {
                Some(patience) => watch.wait_until_silent(patience).await,
                None => std::future::pending().await,
            }
        };
        let said = Box::new(TurnInput::text(prompt));
        let work = TurnWork::Begin { id: TurnId::generate(), input: said };
        let request = TurnRequest { work, frontend: &watch, cancel: &cancel, grace: Some(STOP_GRACE) };
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

    fn idle_timeout(&self) -> Option<Duration> {
        let settings = self.settings.current();
        let seconds =
            settings.env.get("HERMES_CRON_TIMEOUT").and_then(|text| text.trim().parse::<f64>().ok());
        match seconds {
            None => Some(TIMEOUT),
            Some(seconds) => Duration::try_from_secs_f64(seconds).ok().filter(|patience| !patience.is_zero()),
        }
    }
}

/// Returns the answer of a turn, or why it has none.
fn answer_or_failure(result: &TurnResult) -> Result<String, JobFailure> {
    match result.ending() {
        TurnEnding::Answered(text)
        | TurnEnding::CutShort(text)
        | TurnEnding::Failed { text: Some(text), failure: None, .. } => Ok(text.to_owned()),
        TurnEnding::Failed { reason, failure: Some(failure), .. } => {
            let kind = match failure {
                ModelError::Budget(_) => "Budget",
                ModelError::Configure(_) => "Configuration",
                _ => "Model",
            };
            Err(JobFailure::new(kind, reason.map_or_else(|| failure.to_string(), str::to_owned)))
        }
        TurnEnding::Interrupted { .. } => Err(JobFailure::new("Model", "the run was stopped")),
        TurnEnding::Silent { reason: Some(reason) } | TurnEnding::Failed { reason: Some(reason), .. } => {
            Err(JobFailure::new("Turn", reason))
        }
        TurnEnding::Silent { reason: None } | TurnEnding::Failed { reason: None, .. } => Ok(String::new()),
    }
}

fn budget_exceeded() -> JobFailure {
    JobFailure::new("Budget", "this job has spent its limit. Raise `budget.per_job_usd` to let it go on")
}
