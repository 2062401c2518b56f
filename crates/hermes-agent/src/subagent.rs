//! Subagents: each does a part of the work in its own conversation, and only its final text comes back.
//!
//! A child knows nothing of its parent's conversation. It shares the parent's model, and with it the budget; its
//! deadline is the parent's, and cancelling the parent cancels it. Everything it does is in the database, in a
//! session that belongs to the parent's and does not continue it, so that a crash of the parent loses none of it.

use std::collections::HashMap;

use hermes_store::{EndReason, ToolCallRecord};
use hermes_types::{
    BoxFuture, Cancel, Deadline, Frontend, HookEvent, Message, OutcomeStatus, Role, SessionId, SessionKind,
    SideModel, SubagentOutcome, SubagentReport, SubagentSpawner, SubagentTask, SubagentToolCall, TaskId,
    ToolEvent, ToolUser, TurnEvent, TurnId, Usage, UserAnswer, UserQuestion,
};

use crate::agent::{Agent, memory_place, tool_specs};
use crate::conversation::Conversation;
use crate::hooks;
use crate::prompt::ContextFiles;
use crate::settings::{ReviewIntervals, SessionLogMode};
use crate::turn::{TurnInput, TurnScope};

const ROLE: &str = include_str!("texts/subagent.md").trim_ascii();

/// Starts the children of one turn.
pub(crate) struct TurnSubagentSpawner<'a> {
    agent: &'a Agent,
    session: SessionId,
    task: TaskId,
    /// The turn a person started.
    root: TurnId,
    deadline: Deadline,
    frontend: &'a dyn Frontend,
    cancel: &'a Cancel,
}

impl<'a> TurnSubagentSpawner<'a> {
    pub(crate) fn new(scope: &'a TurnScope<'a>, conversation: &Conversation) -> Self {
        Self {
            agent: scope.agent,
            session: conversation.session.clone(),
            task: conversation.task.clone(),
            root: scope.root.clone(),
            deadline: scope.deadline,
            frontend: scope.frontend,
            cancel: scope.cancel,
        }
    }
}

impl SubagentSpawner for TurnSubagentSpawner<'_> {
    fn run(&self, job: SubagentTask) -> BoxFuture<'_, SubagentReport> {
        Box::pin(self.run_subagent(job))
    }
}

impl TurnSubagentSpawner<'_> {
    async fn run_subagent(&self, job: SubagentTask) -> SubagentReport {
        let agent = self.subagent(&job);
        let began = agent.clock.monotonic();
        let mut conversation = agent.new_conversation("tool", SessionKind::Local);
        conversation.delegated_by = Some(self.session.clone());
        conversation.root = Some(self.root.clone());
        for tool in &agent.tools {
            tool.on_event(conversation.task(), ToolEvent::Delegated(&self.task));
        }
        let frontend = SubagentFrontend { label: job.label.clone(), parent: self.frontend };
        let cancel = self.cancel.child_token();
        let _leaving = ReleaseTaskOnDrop { agent: &agent, task: conversation.task().clone() };
        let about = || hooks::subagent_input(&self.session, &job.label, &job.goal);
        hooks::notify(&agent, HookEvent::SubagentStart, about);
        let ran =
            agent.run_turn(&mut conversation, TurnInput::text(job.goal.clone()), &frontend, &cancel).await;
        let session = conversation.session().clone();
        hooks::notify(&agent, HookEvent::SubagentStop, || {
            let mut facts = about();
            facts.insert("child_session_id".to_owned(), session.as_str().into());
            facts
        });
        if let Err(error) = agent.end_conversation(&conversation, EndReason::SessionSwitch).await {
            tracing::warn!(%error, "a subagent's session was not closed");
        }
        let took = agent.clock.monotonic().saturating_sub(began);
        let records = match &ran {
            Ok(result) => agent.store.tool_calls(&result.turn).await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        if let (Some(memory), Ok(Some(answer))) =
            (&self.agent.external_memory, ran.as_ref().map(|result| result.response.as_deref()))
        {
            memory.delegated(memory_place(self.agent, &self.session), &job.goal, answer);
        }
        let trace = trace_calls(conversation.messages(), &records);
        match ran {
            Ok(result) => {
                let summary = result.response.clone().filter(|text| !text.trim().is_empty());
                let end = if result.interrupted() {
                    SubagentOutcome::Interrupted
                } else if result.failed() || summary.is_none() {
                    SubagentOutcome::Failed
                } else if result.api_calls >= result.max_iterations {
                    SubagentOutcome::IterationLimit
                } else {
                    SubagentOutcome::Completed
                };
                let error = result
                    .error
                    .clone()
                    .or_else(|| summary.is_none().then(|| "Subagent did not produce a response.".to_owned()));
                let (api_calls, model, usage) = (result.api_calls, result.model, result.usage);
                SubagentReport {
                    session,
                    outcome: end,
                    summary,
                    error,
                    api_calls,
                    duration: took,
                    model,
                    usage,
                    tool_calls: trace,
                }
            }
            Err(error) => SubagentReport {
                session,
                outcome: SubagentOutcome::Failed,
                summary: None,
                error: Some(error.to_string()),
                api_calls: 0,
                duration: took,
                model: agent.models.name.clone(),
                usage: Usage::default(),
                tool_calls: trace,
            },
        }
    }

    /// Creates the child: the same agent with fewer tools, no memory and no project files in its prompt.
    fn subagent(&self, job: &SubagentTask) -> Agent {
        let mut agent = self.agent.clone();
        agent.tools.retain(|tool| {
            job.tools.as_ref().is_none_or(|names| names.contains(&tool.spec().name))
                && !tool.descriptor().is_withheld_from(ToolUser::Subagent)
        });
        agent.specs = tool_specs(&agent.tools);
        if let Some(SideModel { model, name, .. }) = agent.models.subagents.take() {
            (agent.models.main, agent.models.name) = (model, name);
        }
        agent.limits.iterations = job.max_iterations;
        agent.limits.time = self.deadline.remaining(&*agent.clock);
        agent.review_intervals = ReviewIntervals::default();
        agent.external_memory = None;
        agent.folders.logs = SessionLogMode::None;
        agent.prompt.files = ContextFiles::Skip;
        agent.prompt.memory = None;
        agent.prompt.user_profile = None;
        agent.prompt.skills = None;
        let mut role = format!("{ROLE}\n\nYOUR TASK:\n{}", job.goal.trim());
        if !job.context.trim().is_empty() {
            role.push_str("\n\nCONTEXT:\n");
            role.push_str(job.context.trim());
        }
        agent.prompt.surface = Some(role);
        agent
    }
}

/// Ends what a child started when the child ends, however that happens.
struct ReleaseTaskOnDrop<'a> {
    agent: &'a Agent,
    task: TaskId,
}

impl Drop for ReleaseTaskOnDrop<'_> {
    fn drop(&mut self) {
        for tool in &self.agent.tools {
            tool.end_background_work(&self.task);
        }
        self.agent.release_task(&self.task);
    }
}

/// Passes a child's events and approval requests to the parent's frontend. The child's text is not the parent's
/// and is not passed on; other questions are unavailable.
struct SubagentFrontend<'a> {
    label: String,
    parent: &'a dyn Frontend,
}

impl Frontend for SubagentFrontend<'_> {
    fn show(&self, event: TurnEvent) {
        if !matches!(event, TurnEvent::Delta(_) | TurnEvent::SegmentEnded) {
            self.parent.show(TurnEvent::Child { label: self.label.clone(), event: Box::new(event) });
        }
    }

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        match question {
            UserQuestion::Approve { .. } => self.parent.ask(question, cancel),
            UserQuestion::Clarify { .. } | UserQuestion::Secret { .. } => {
                Box::pin(std::future::ready(UserAnswer::Unavailable))
            }
        }
    }
}

/// Returns the calls of a child, each with its result. A call that was never stored was refused before it ran.
fn trace_calls(messages: &[Message], records: &[ToolCallRecord]) -> Vec<SubagentToolCall> {
    let known: HashMap<&str, Option<OutcomeStatus>> =
        records.iter().map(|record| (record.id.as_str(), record.status)).collect();
    let calls = messages.iter().flat_map(|message| &message.tool_calls);
    calls
        .map(|call| {
            let result = messages
                .iter()
                .find(|message| message.role == Role::Tool && message.tool_call_id.as_ref() == Some(&call.id))
                .map(|message| message.content.text().into_owned())
                .unwrap_or_default();
            let status = match known.get(call.id.as_str()) {
                Some(status) => status.unwrap_or(OutcomeStatus::Unknown),
                None => OutcomeStatus::Failed,
            };
            SubagentToolCall {
                tool: call.name.clone(),
                argument_bytes: call.arguments.len(),
                result_bytes: result.len(),
                status,
            }
        })
        .collect()
}
