//! One conversation of a run: from a row of the dataset to a record.
//!
//! Invariant: the conversation leaves nothing behind: its session is removed from the run's own database, and its task is released.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hermes_agent::{
    Agent, Calendar, Conversation, STOP_GRACE, TurnInput, TurnOutcome, TurnRequest, TurnResult, TurnWork,
};
use hermes_types::{
    BoxFuture, Cancel, Message, ModelError, Role, SessionId, SessionKind, TaskId, ToolSpec, TurnState,
    random_hex,
};
use thiserror::Error;

use super::counts::ItemCounts;
use super::dataset::DatasetRow;
use super::frontend::RolloutFrontend;
use super::options::ReasoningFilter;
use super::progress::BatchProgress;
use super::record::Record;
use crate::trajectory::{count_reasoning, count_tools, iso_time, trajectory_of};

/// Provides what a conversation needs of the program.
pub trait RolloutAgents: Send + Sync {
    /// Returns an agent with the tools of these toolsets and the budget of one conversation.
    fn agent(&self, toolsets: &[&str]) -> Result<Agent, String>;

    /// Prepares the place where the commands of a task will run.
    fn prepare<'a>(
        &'a self,
        task: &'a TaskId,
        row: &'a DatasetRow,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Lets a task begin in a new, empty folder of its own, where commands run on this machine.
    fn begin_in_own_folder(&self, task: &TaskId) -> Result<(), String> {
        let _ = task;
        Ok(())
    }

    /// Forgets what was prepared for a task.
    fn release(&self, task: &TaskId);
}

/// What all conversations of a run have in common.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds a calendar")]
pub struct RolloutSettings {
    pub run_name: String,
    /// The model's name in records.
    pub model: String,
    /// The names of all tools there are, whether they can be used now or not.
    pub registered_tools: Arc<[String]>,
    pub filter: ReasoningFilter,
    /// What is done to texts before they are written.
    pub redact: Option<fn(&str) -> String>,
    pub calendar: Calendar,
}

/// Which conversation it is.
#[derive(Debug, Clone)]
pub struct RolloutContext<'a> {
    pub index: usize,
    pub batch: usize,
    pub toolsets: &'a [&'static str],
    /// Distinguishes this attempt from others at the same prompt; may be empty.
    pub attempt: String,
}

/// What came of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutOutcome {
    /// The line to write, without its end.
    Record { line: String, counts: ItemCounts },
    /// The conversation has no reasoning.
    Discarded,
}

/// Why there is no outcome. The prompt is not done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RolloutError {
    #[error("{0}")]
    Failed(String),
    /// A spending limit was reached.
    #[error("{0}")]
    Budget(String),
    #[error("interrupted")]
    Cancelled,
}

/// Holds the conversations of a run.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct RolloutRunner {
    agents: Arc<dyn RolloutAgents>,
    settings: Arc<RolloutSettings>,
    progress: Arc<BatchProgress>,
}

impl RolloutRunner {
    pub fn new(
        agents: Arc<dyn RolloutAgents>,
        settings: RolloutSettings,
        progress: Arc<BatchProgress>,
    ) -> Self {
        Self { agents, settings: Arc::new(settings), progress }
    }

    pub fn settings(&self) -> &RolloutSettings {
        &self.settings
    }

    pub fn progress(&self) -> &Arc<BatchProgress> {
        &self.progress
    }

    /// Holds one conversation.
    pub async fn run(
        &self,
        context: &RolloutContext<'_>,
        row: &DatasetRow,
        cancel: &Cancel,
    ) -> Result<RolloutOutcome, RolloutError> {
        self.progress.running.fetch_add(1, Relaxed);
        let task =
            TaskId::new(format!("{}_task_{}{}", self.settings.run_name, context.index, context.attempt));
        let outcome = match self.agents.prepare(&task, row, cancel).await {
            Ok(()) => self.converse(context, row, &task, cancel).await,
            Err(_) if cancel.is_cancelled() => Err(RolloutError::Cancelled),
            Err(reason) => Err(RolloutError::Failed(reason)),
        };
        self.agents.release(&task);
        self.progress.running.fetch_sub(1, Relaxed);
        outcome
    }

    async fn converse(
        &self,
        context: &RolloutContext<'_>,
        row: &DatasetRow,
        task: &TaskId,
        cancel: &Cancel,
    ) -> Result<RolloutOutcome, RolloutError> {
        let agent = self.agents.agent(context.toolsets).map_err(RolloutError::Failed)?;
        let frontend = RolloutFrontend { progress: self.progress.clone() };
        // Ids by the second would meet where hundreds of conversations begin in one.
        let session = SessionId::new(format!("batch_{}_{}", context.index, random_hex(12)));
        let mut conversation = agent
            .new_conversation_with_id(session.clone(), "batch", SessionKind::Local)
            .with_task(task.clone());
        let work = TurnWork::begin(TurnInput::text(row.prompt.as_str()));
        let request = TurnRequest { work, frontend: &frontend, cancel, grace: Some(STOP_GRACE) };
        let driven = agent.drive(&mut conversation, request).await;
        let outcome = match driven {
            Ok(TurnOutcome::Ended(result)) => self.judge(context, row, &agent, &conversation, &result),
            Ok(TurnOutcome::Abandoned | TurnOutcome::Parked(_)) => Err(RolloutError::Cancelled),
            Err(error) => Err(RolloutError::Failed(error.to_string())),
        };
        agent.release_task(task);
        forget(&agent, &session, &conversation).await;
        outcome
    }

    fn judge(
        &self,
        context: &RolloutContext<'_>,
        row: &DatasetRow,
        agent: &Agent,
        conversation: &Conversation,
        result: &TurnResult,
    ) -> Result<RolloutOutcome, RolloutError> {
        match &result.failure {
            Some(ModelError::Budget(reason)) => return Err(RolloutError::Budget(reason.clone())),
            Some(ModelError::Cancelled) => return Err(RolloutError::Cancelled),
            Some(other) => return Err(RolloutError::Failed(other.to_string())),
            None if result.interrupted() => return Err(RolloutError::Cancelled),
            None if result.failed() => {
                let reason = result.error.clone().unwrap_or_else(|| "the turn failed".to_owned());
                return Err(RolloutError::Failed(reason));
            }
            None => {}
        }
        let messages = conversation.messages();
        let reasoning = count_reasoning(messages);
        if self.settings.filter == ReasoningFilter::Required && reasoning.with_reasoning == 0 {
            return Ok(RolloutOutcome::Discarded);
        }
        let counts = ItemCounts { tools: count_tools(messages), reasoning };
        let specs: Vec<ToolSpec> = agent.tools().iter().map(|tool| tool.spec().clone()).collect();
        let mut turns = trajectory_of(&row.prompt, messages, &specs);
        if let Some(redact) = self.settings.redact {
            for turn in &mut turns {
                turn.value = redact(&turn.value);
            }
        }
        let now = agent.clock().now();
        let record = Record {
            prompt_index: context.index,
            turns: &turns,
            batch: context.batch,
            timestamp: iso_time((self.settings.calendar)(now), now),
            model: &self.settings.model,
            completed: is_completed(result, messages),
            partial: result.partial,
            api_calls: result.api_calls,
            toolsets: context.toolsets,
            tools: &counts.tools,
        };
        let line = record.to_json(&self.settings.registered_tools).to_string();
        Ok(RolloutOutcome::Record { line, counts })
    }
}

/// Tells whether there is an answer that no limit forced: the last call that was allowed may still be an ordinary answer.
fn is_completed(result: &TurnResult, messages: &[Message]) -> bool {
    if result.state != TurnState::Done || result.partial || result.response.is_none() {
        return false;
    }
    if result.api_calls < result.max_iterations {
        return true;
    }
    // At the limit, the model is asked to sum up: then a message of a user stands before the answer, and it is not the first.
    let before = messages.len().checked_sub(2);
    let was_asked = before.filter(|at| *at > 0).and_then(|at| messages.get(at));
    !was_asked.is_some_and(|message| message.role == Role::User)
}

/// Removes the sessions of a conversation.
async fn forget(agent: &Agent, first: &SessionId, conversation: &Conversation) {
    let store = agent.store();
    let mut sessions = vec![first.clone()];
    if conversation.session() != first {
        match store.conversation_sessions(conversation.session()).await {
            Ok(more) => sessions = more,
            Err(error) => tracing::warn!(%error, "a conversation of a run could not be removed"),
        }
    }
    for session in sessions {
        if let Err(error) = store.delete_session(&session).await {
            tracing::warn!(%error, "a conversation of a run could not be removed");
        }
    }
}
