//! The loop of one turn.

use std::sync::Arc;
use std::time::Duration;

use hermes_store::{Billing, Charge, Error as StoreError, NewMessage, NewSession, NewToolCall, Store, Tally};
use hermes_text::strip_think;
use hermes_types::{
    Call, Cancel, Clock, Completion, Cost, Deadline, Event, FinishReason, Frontend, HolderId, Message, Model,
    ModelError, Outcome, OutcomeStatus, Request, SessionId, SpendingCap, TaskId, Tool, ToolCall, ToolContext,
    Turn, TurnId, TurnState, Usage,
};

use crate::calls::{Checked, check};

/// The most of a result the model is given; the rest is left out, and it is told so.
const MOST_RESULT_CHARS: usize = 100_000;

/// What an agent is made of.
#[expect(missing_debug_implementations, reason = "it only holds ports")]
pub struct Agent {
    pub model: Arc<dyn Model>,
    pub model_name: String,
    pub tools: Vec<Arc<dyn Tool>>,
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub limits: Limits,
}

/// How far a turn may go.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Calls to the model.
    pub iterations: u32,
    pub time: Duration,
    pub cap: SpendingCap,
}

/// What a turn begins with.
#[derive(Debug, Clone)]
pub struct TurnInput {
    pub session: SessionId,
    pub source: String,
    pub system: String,
    /// What was said before, oldest first.
    pub history: Vec<Message>,
    pub text: String,
}

/// What a turn came to.
#[derive(Debug, Clone)]
pub struct TurnResult {
    /// What the user reads. Absent when there is only an error.
    pub response: Option<String>,
    pub state: TurnState,
    pub error: Option<ModelError>,
    pub api_calls: u32,
    pub usage: Usage,
    pub cost: Cost,
}

impl Agent {
    /// Runs one turn to its end. Only a database that cannot be written is an error; everything else is a result.
    pub async fn run(
        &self,
        input: TurnInput,
        frontend: &dyn Frontend,
        cancel: &Cancel,
    ) -> Result<TurnResult, StoreError> {
        let now = self.clock.now();
        let deadline = Deadline::after(&*self.clock, self.limits.time);
        let asked = Message::user(input.text.as_str());
        let mut new = NewSession::new(input.session.clone(), input.source.clone(), now);
        new.model = Some(self.model_name.clone());
        new.system_prompt = Some(input.system.clone());
        self.store.append_creating(new, vec![NewMessage::new(asked.clone(), now)]).await?;
        let turn = Turn {
            id: TurnId::generate(),
            session: input.session.clone(),
            inbox: None,
            state: TurnState::Running,
            started_at: now,
            deadline_at: Some(now.plus(self.limits.time)),
            cap: self.limits.cap,
            cut_offs: 0,
            prefix_hash: None,
        };
        self.store.open_turn(turn.clone(), HolderId::generate()).await?;
        frontend.show(Event::TurnStarted { session: input.session.clone() });
        let mut messages = input.history;
        messages.push(asked);
        let mut running = Running {
            agent: self,
            turn: turn.id.clone(),
            session: input.session.clone(),
            task: TaskId::generate(),
            system: input.system,
            messages,
            deadline,
            cancel,
            frontend,
            result: TurnResult {
                response: None,
                state: TurnState::Running,
                error: None,
                api_calls: 0,
                usage: Usage::default(),
                cost: Cost { micro_usd: Some(0), status: hermes_types::CostStatus::Estimated },
            },
        };
        let ended = running.go().await;
        let mut result = running.result;
        if ended.is_err() {
            result.state = TurnState::Failed;
        }
        let note = result.error.as_ref().map(ToString::to_string);
        self.store.close_turn(&turn.id, result.state, note, self.clock.now()).await?;
        frontend.show(Event::TurnEnded { session: input.session });
        ended.map(|()| result)
    }
}

/// A turn under way.
struct Running<'a> {
    agent: &'a Agent,
    turn: TurnId,
    session: SessionId,
    task: TaskId,
    system: String,
    messages: Vec<Message>,
    deadline: Deadline,
    cancel: &'a Cancel,
    frontend: &'a dyn Frontend,
    result: TurnResult,
}

impl Running<'_> {
    async fn go(&mut self) -> Result<(), StoreError> {
        let mut previous_tools = Vec::new();
        while self.result.api_calls < self.agent.limits.iterations {
            if self.cancel.is_cancelled() {
                self.end_with_error(ModelError::Cancelled);
                return Ok(());
            }
            self.result.api_calls += 1;
            self.frontend.show(Event::Step {
                iteration: self.result.api_calls,
                previous_tools: previous_tools.clone(),
            });
            let completion = match self.ask().await {
                Ok(completion) => completion,
                Err(error) => {
                    self.end_with_error(error);
                    return Ok(());
                }
            };
            self.count(&completion).await?;
            let message = completion.message;
            self.keep(message.clone()).await?;
            if message.tool_calls.is_empty() {
                let text = message.content.text();
                self.result.response = Some(strip_think(&text).trim().to_owned());
                self.result.state = TurnState::Done;
                return Ok(());
            }
            self.frontend.show(Event::SegmentEnded);
            previous_tools = message.tool_calls.iter().map(|call| call.name.clone()).collect();
            for call in &message.tool_calls {
                let outcome = self.run_call(call, message.finish_reason.as_ref()).await?;
                self.keep(Message::tool(call, outcome.content)).await?;
            }
        }
        self.result.response = Some("I reached the iteration limit before I could finish.".to_owned());
        self.result.state = TurnState::Done;
        Ok(())
    }

    async fn ask(&self) -> Result<Completion, ModelError> {
        let request = Request {
            model: self.agent.model_name.clone(),
            system: self.system.clone(),
            messages: self.messages.clone(),
            tools: self.agent.tools.iter().map(|tool| tool.spec().clone()).collect(),
            max_tokens: None,
            temperature: None,
            effort: None,
            session: Some(self.session.as_str().to_owned()),
            deadline: self.deadline,
            cancel: self.cancel.clone(),
        };
        let frontend = self.frontend;
        self.agent.model.complete(&request, &mut |delta| frontend.show(Event::Delta(delta))).await
    }

    /// Runs one call, written down before and after. A call of an answer that hit its length limit may be cut off.
    async fn run_call(
        &mut self,
        call: &ToolCall,
        finish: Option<&FinishReason>,
    ) -> Result<Outcome, StoreError> {
        let clock = &self.agent.clock;
        let preview = call.arguments.chars().take(200).collect();
        self.frontend.show(Event::ToolStarted { id: call.id.clone(), name: call.name.clone(), preview });
        let record = NewToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            verdict: None,
        };
        self.agent.store.begin_call(&self.turn, record, clock.now()).await?;
        let outcome = match check(call, &self.agent.tools) {
            Checked::Refuse(words) => refused(words),
            Checked::Run(..) if finish == Some(&FinishReason::Length) => refused(
                "The answer was cut off by its length limit, so this call was not run. Send it again."
                    .to_owned(),
            ),
            Checked::Run(tool, arguments) => {
                let call = Call {
                    id: call.id.clone(),
                    name: tool.spec().name.clone(),
                    arguments,
                    session: self.session.clone(),
                    turn: self.turn.clone(),
                    task: self.task.clone(),
                };
                let context =
                    ToolContext { frontend: self.frontend, cancel: self.cancel, deadline: self.deadline };
                bound(tool.run(&call, context).await)
            }
        };
        self.agent.store.end_call(&self.turn, &call.id, outcome.status, None, clock.now()).await?;
        self.frontend.show(Event::ToolEnded {
            id: call.id.clone(),
            name: call.name.clone(),
            status: outcome.status,
        });
        Ok(outcome)
    }

    /// Writes a message down, then takes it into the conversation.
    async fn keep(&mut self, message: Message) -> Result<(), StoreError> {
        let new = NewMessage::new(message.clone(), self.agent.clock.now());
        self.agent.store.append(&self.session, new).await?;
        self.messages.push(message);
        Ok(())
    }

    /// Adds a call to the turn, to its session's totals and to the ledger that spending limits stand on.
    async fn count(&mut self, completion: &Completion) -> Result<(), StoreError> {
        let usage = completion.usage.unwrap_or_default();
        self.result.usage += usage;
        let sum =
            self.result.cost.micro_usd.zip(completion.cost.micro_usd).map(|(so_far, more)| so_far + more);
        self.result.cost = Cost { micro_usd: sum, status: completion.cost.status };
        let store = &self.agent.store;
        let billing = Billing {
            provider: Some(completion.provider.clone()),
            model: Some(completion.model.clone()),
            ..Billing::default()
        };
        store.record_usage(&self.session, Tally::Add, usage, completion.cost, billing).await?;
        let charge = Charge {
            at: self.agent.clock.now(),
            session: self.session.clone(),
            turn: Some(self.turn.clone()),
            root_turn: Some(self.turn.clone()),
            job: None,
            provider: completion.provider.clone(),
            model: completion.model.clone(),
            usage,
            cost: completion.cost,
        };
        store.record_charge(charge).await?;
        self.frontend.show(Event::Spent { usage, cost: completion.cost });
        Ok(())
    }

    fn end_with_error(&mut self, error: ModelError) {
        self.result.state =
            if error == ModelError::Cancelled { TurnState::Interrupted } else { TurnState::Failed };
        self.result.error = Some(error);
    }
}

fn refused(words: String) -> Outcome {
    Outcome { content: words, status: OutcomeStatus::Failed, provenance: hermes_types::Provenance::System }
}

/// A result within its bound, with a word about what is missing.
fn bound(mut outcome: Outcome) -> Outcome {
    let total = outcome.content.chars().count();
    if total > MOST_RESULT_CHARS {
        let kept = hermes_text::head(&outcome.content, MOST_RESULT_CHARS);
        outcome.content = format!(
            "{kept}\n\n[Truncated: tool response was {total} chars, exceeding the {MOST_RESULT_CHARS} char limit]"
        );
    }
    outcome
}
