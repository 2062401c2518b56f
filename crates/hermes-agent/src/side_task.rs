//! Side tasks of an agent: a few model calls with a few tools, of which nothing enters the transcript.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hermes_types::{
    BoxFuture, Cancel, Completion, Deadline, Frontend, Message, Model, ModelRequest, SessionId, TaskId, Tool,
    ToolContext, ToolEvent, ToolInvocation, ToolOutcome, ToolRole, TurnEvent, TurnId, UserAnswer,
    UserQuestion,
};

use crate::agent::Agent;
use crate::turn::calls::{CallCheck, check};
use crate::turn::others_words::others_words_in;
use crate::turn::request::{RequestAdditions, build_messages};

/// A side task to run.
pub(crate) struct SideTaskRun {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) model_name: String,
    pub(crate) system: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) session: SessionId,
    pub(crate) task: TaskId,
    pub(crate) iterations: u32,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) timeout: Duration,
}

/// The outcomes and model calls of a side task.
#[derive(Debug, Default)]
pub(crate) struct SideTaskOutcome {
    pub(crate) outcomes: Vec<(String, ToolOutcome)>,
    pub(crate) completions: Vec<Completion>,
}

/// A frontend for work without a user.
struct NoFrontend;

impl Frontend for NoFrontend {
    fn show(&self, _: TurnEvent) {}

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}

impl SideTaskRun {
    /// Runs until the model calls no more tools. A failure is not reported; the outcome only holds less.
    pub(crate) async fn run(mut self, agent: &Agent, cancel: &Cancel) -> SideTaskOutcome {
        let mut came = SideTaskOutcome::default();
        let deadline = Deadline::after(&*agent.clock, self.timeout);
        let turn = TurnId::generate();
        for _ in 0..self.iterations {
            let notices = std::collections::BTreeMap::new();
            let additions = RequestAdditions {
                prefill: &[],
                notices: &notices,
                current_input: None,
                recall: None,
                hook_context: None,
            };
            let request = ModelRequest {
                model: self.model_name.clone(),
                system: self.system.clone(),
                messages: build_messages(&self.messages, &additions),
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
            let CallCheck::Run(batch) = check(&mut message.tool_calls, &self.tools) else { return came };
            if batch.is_empty() {
                return came;
            }
            self.messages.push(message);
            for ready in batch {
                let call = ToolInvocation {
                    id: ready.call.id.clone(),
                    name: ready.call.name.clone(),
                    arguments: ready.arguments,
                    session: self.session.clone(),
                    turn: turn.clone(),
                    task: self.task.clone(),
                };
                ready.tool.on_event(&call.task, ToolEvent::CallStarting(&call.name));
                if ready.tool.descriptor().role == Some(ToolRole::Memory) {
                    // The whole conversation is read again, so that its oldest words may be what is noted.
                    let read = others_words_in(&agent.tools, &self.messages);
                    ready.tool.on_event(&call.task, ToolEvent::OthersWordsRead(&read));
                }
                let context =
                    ToolContext { frontend: &NoFrontend, cancel, deadline, spawn: None, turn_model: None };
                let run = std::panic::AssertUnwindSafe(ready.tool.run(&call, context)).catch_unwind();
                let Ok(outcome) = run.await else { return came };
                self.messages.push(Message::tool(&ready.call, outcome.content.clone()));
                came.outcomes.push((call.name, outcome));
            }
        }
        came
    }
}
