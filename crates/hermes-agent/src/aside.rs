//! Work the agent does beside a conversation: a few model calls with a few tools, of which nothing enters the transcript.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hermes_types::{
    Answer, BoxFuture, Call, Cancel, Completion, Deadline, Event, Frontend, Message, Model, Occasion,
    Outcome, Question, Request, SessionId, TaskId, Tool, ToolContext, TurnId,
};

use crate::agent::Agent;
use crate::calls::{Checked, check};
use crate::request::{Additions, copy};

/// What is done beside.
pub(crate) struct Aside {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) model_name: String,
    pub(crate) system: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) session: SessionId,
    pub(crate) task: TaskId,
    pub(crate) iterations: u32,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) patience: Duration,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Came {
    pub(crate) outcomes: Vec<(String, Outcome)>,
    pub(crate) completions: Vec<Completion>,
}

/// Nobody watches.
struct Silent;

impl Frontend for Silent {
    fn show(&self, _: Event) {}

    fn ask<'a>(&'a self, _: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Unavailable))
    }
}

impl Aside {
    /// Runs until the model wants no more tools. Failing is no news: there is less in the outcome.
    pub(crate) async fn run(mut self, agent: &Agent, cancel: &Cancel) -> Came {
        let mut came = Came::default();
        let deadline = Deadline::after(&*agent.clock, self.patience);
        let turn = TurnId::generate();
        for _ in 0..self.iterations {
            let notices = std::collections::BTreeMap::new();
            let additions = Additions { prefill: &[], notices: &notices, asked: None, recall: None };
            let request = Request {
                model: self.model_name.clone(),
                system: self.system.clone(),
                messages: copy(&self.messages, &additions),
                tools: self.tools.iter().map(|tool| tool.spec().clone()).collect(),
                max_tokens: self.max_tokens,
                temperature: Some(0.3),
                effort: None,
                session: None,
                deadline,
                cancel: cancel.clone(),
            };
            let completion = match self.model.complete(&request, &mut |_| ()).await {
                Ok(completion) => completion,
                Err(error) => {
                    tracing::info!(%error, "work beside the conversation ended early");
                    return came;
                }
            };
            let mut message = completion.message.clone();
            came.completions.push(completion);
            let Checked::Run(batch) = check(&mut message.tool_calls, &self.tools) else { return came };
            if batch.is_empty() {
                return came;
            }
            self.messages.push(message);
            for ready in batch {
                let call = Call {
                    id: ready.call.id.clone(),
                    name: ready.call.name.clone(),
                    arguments: ready.arguments,
                    session: self.session.clone(),
                    turn: turn.clone(),
                    task: self.task.clone(),
                };
                ready.tool.notice(&call.task, Occasion::Calling(&call.name));
                let context = ToolContext { frontend: &Silent, cancel, deadline, spawn: None };
                let run = std::panic::AssertUnwindSafe(ready.tool.run(&call, context)).catch_unwind();
                let Ok(outcome) = run.await else { return came };
                self.messages.push(Message::tool(&ready.call, outcome.content.clone()));
                came.outcomes.push((call.name, outcome));
            }
        }
        came
    }
}
