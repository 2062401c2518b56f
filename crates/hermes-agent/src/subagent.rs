//! Subagents: a conversation of their own for a part of the work, of which only the last word comes back.
//!
//! A child knows nothing of its parent's conversation. It shares the parent's model, and with it the budget; its deadline
//! is the parent's, its cancellation below the parent's. Everything it does is in the database, in a session that belongs
//! to the parent's and is no continuation of it, so that a crash of the parent loses none of it.

use std::collections::HashMap;

use hermes_store::{EndReason, ToolCallRecord};
use hermes_types::{
    Answer, BoxFuture, Cancel, Deadline, Event, Frontend, Job, JobEnd, Message, Occasion, OutcomeStatus,
    Question, Report, Role, SessionId, SessionKind, SideModel, Spawn, TaskId, Trace, TurnId, Usage,
};

use crate::agent::{Agent, Learning};
use crate::prompt::Files;
use crate::turn::{Running, Said};

const ROLE: &str = include_str!("texts/subagent.md").trim_ascii();

/// Starts the children of one turn.
pub(crate) struct Spawner<'a> {
    agent: &'a Agent,
    session: SessionId,
    task: TaskId,
    /// The turn a person started.
    root: TurnId,
    deadline: Deadline,
    frontend: &'a dyn Frontend,
    cancel: &'a Cancel,
}

impl Running<'_> {
    pub(crate) fn spawner(&self) -> Spawner<'_> {
        Spawner {
            agent: self.agent,
            session: self.conversation.session.clone(),
            task: self.conversation.task.clone(),
            root: self.root.clone(),
            deadline: self.deadline,
            frontend: self.frontend,
            cancel: self.cancel,
        }
    }
}

impl Spawn for Spawner<'_> {
    fn run(&self, job: Job) -> BoxFuture<'_, Report> {
        Box::pin(self.work(job))
    }
}

impl Spawner<'_> {
    async fn work(&self, job: Job) -> Report {
        let agent = self.child(&job);
        let began = agent.clock.monotonic();
        let mut conversation = agent.begin("tool", SessionKind::Local);
        conversation.delegated_by = Some(self.session.clone());
        conversation.root = Some(self.root.clone());
        for tool in &agent.tools {
            tool.notice(conversation.task(), Occasion::Delegated(&self.task));
        }
        let frontend = Relay { label: job.label.clone(), parent: self.frontend };
        let cancel = self.cancel.child_token();
        let _leaving = Leaving { agent: &agent, task: conversation.task().clone() };
        let ran = agent.run(&mut conversation, Said::text(job.goal), &frontend, &cancel).await;
        let session = conversation.session().clone();
        if let Err(error) = agent.end(&conversation, EndReason::SessionSwitch).await {
            tracing::warn!(%error, "a subagent's session was not closed");
        }
        let took = agent.clock.monotonic().saturating_sub(began);
        let records = match &ran {
            Ok(result) => agent.store.tool_calls(&result.turn).await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let trace = trace(conversation.messages(), &records);
        match ran {
            Ok(result) => {
                let summary = result.response.clone().filter(|text| !text.trim().is_empty());
                let end = if result.interrupted() {
                    JobEnd::Interrupted
                } else if result.failed() || summary.is_none() {
                    JobEnd::Failed
                } else if result.api_calls >= result.max_iterations {
                    JobEnd::OutOfSteps
                } else {
                    JobEnd::Completed
                };
                let error = result
                    .error
                    .clone()
                    .or_else(|| summary.is_none().then(|| "Subagent did not produce a response.".to_owned()));
                let (api_calls, model, usage) = (result.api_calls, result.model, result.usage);
                Report { session, end, summary, error, api_calls, took, model, usage, trace }
            }
            Err(error) => Report {
                session,
                end: JobEnd::Failed,
                summary: None,
                error: Some(error.to_string()),
                api_calls: 0,
                took,
                model: agent.model_name.clone(),
                usage: Usage::default(),
                trace,
            },
        }
    }

    /// The same agent with fewer tools, no memory and no files of the project before it.
    fn child(&self, job: &Job) -> Agent {
        let mut agent = self.agent.clone();
        agent.tools.retain(|tool| {
            let name = &tool.spec().name;
            job.tools.as_ref().is_none_or(|names| names.contains(name)) && !job.without.contains(name)
        });
        if let Some(SideModel { model, name, .. }) = agent.children.take() {
            (agent.model, agent.model_name) = (model, name);
        }
        agent.limits.iterations = job.max_iterations;
        agent.limits.time = self.deadline.remaining(&*agent.clock);
        agent.learning = Learning::default();
        agent.external_memory = None;
        agent.folders.logs = crate::Logs::None;
        agent.prompt.files = Files::Skip;
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

/// A child's end, however it comes: what it started ends with it.
struct Leaving<'a> {
    agent: &'a Agent,
    task: TaskId,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        for tool in &self.agent.tools {
            tool.abandon(&self.task);
        }
        self.agent.release(&self.task);
    }
}

/// Passes on what happens; a child's words are not its parent's, and it asks nothing but for permission.
struct Relay<'a> {
    label: String,
    parent: &'a dyn Frontend,
}

impl Frontend for Relay<'_> {
    fn show(&self, event: Event) {
        if !matches!(event, Event::Delta(_) | Event::SegmentEnded) {
            self.parent.show(Event::Child { label: self.label.clone(), event: Box::new(event) });
        }
    }

    fn ask<'a>(&'a self, question: Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        match question {
            Question::Approve { .. } => self.parent.ask(question, cancel),
            Question::Clarify { .. } | Question::Secret { .. } => {
                Box::pin(std::future::ready(Answer::Unavailable))
            }
        }
    }
}

/// The calls of a child, each with its result. One that was never written down was refused before it ran.
fn trace(messages: &[Message], records: &[ToolCallRecord]) -> Vec<Trace> {
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
            Trace {
                tool: call.name.clone(),
                argument_bytes: call.arguments.len(),
                result_bytes: result.len(),
                status,
            }
        })
        .collect()
}
