//! Runs the calls of one answer, in order or concurrently. Each call is stored before it starts and with its
//! result.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use hermes_store::{Error as StoreError, FinishedCall, NewMessage, NewToolCall, Store};
use hermes_text::{head, single_line};
use hermes_types::{
    ApprovalDecision, BoxFuture, CallId, CallKind, Cancel, Frontend, HookEvent, MemoryWrite, Message,
    OutcomeStatus, Provenance, ResultSize, ToolCall, ToolContext, ToolEvent, ToolInvocation, ToolOutcome,
    ToolRole, TurnEvent, TurnId, UserAnswer, UserQuestion,
};
use serde_json::{Map, Value};

use super::calls::{ReadyCall, can_run_concurrently};
use super::long_results::ResultBounds;
use super::others_words::others_words;
use super::scope::TurnScope;
use super::transcript::TurnTranscript;
use crate::agent::memory_place;
use crate::hooks;
use crate::subagent::TurnSubagentSpawner;

const MAX_CONCURRENT_CALLS: usize = 8;
/// The time a tool gets to stop by itself; after that the agent stops waiting for it.
const GRACE: Duration = Duration::from_secs(5);
/// The length below which a result is not moved to a file, whatever the size of the others.
const MIN_FILE_CHARS: usize = 2_000;
const PREVIEW: usize = 120;
/// The most characters kept of a person's reason for a refusal.
const LONGEST_REFUSAL: usize = 280;

/// Passes a tool's questions to the frontend. When a person refuses with a reason, the recorder keeps it, so that
/// the model reads it whatever the tool does with it.
struct RefusalRecorder<'a> {
    frontend: &'a dyn Frontend,
    refusal: Mutex<Option<String>>,
    store: &'a Store,
    turn: &'a TurnId,
    call: &'a CallId,
    work: CallKind,
}

impl RefusalRecorder<'_> {
    fn add_refusal(&self, mut outcome: ToolOutcome) -> ToolOutcome {
        if let Some(words) = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take() {
            outcome.content = format!("{}\n\n[The user denied this and said: {words}]", outcome.content);
        }
        outcome
    }
}

impl Frontend for RefusalRecorder<'_> {
    fn show(&self, event: TurnEvent) {
        self.frontend.show(event);
    }

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(async move {
            let is_approval = matches!(question, UserQuestion::Approve { .. });
            let answer = self.frontend.ask(question, cancel).await;
            if let (true, UserAnswer::Text(words)) = (is_approval, &answer) {
                let words = head(words, LONGEST_REFUSAL).to_owned();
                self.refusal.lock().unwrap_or_else(PoisonError::into_inner).replace(words);
                return UserAnswer::Approval(ApprovalDecision::Deny);
            }
            answer
        })
    }

    fn ask_before_acting<'a>(
        &'a self,
        question: UserQuestion,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, UserAnswer> {
        // A script may already have acted before it asks, so its question cannot be repeated after a restart.
        if self.work == CallKind::Script {
            return self.ask(question, cancel);
        }
        Box::pin(async move {
            if let Err(error) = self.store.begin_asking(self.turn, self.call).await {
                tracing::warn!(%error, "after a restart this question would not be asked again");
                return self.ask(question, cancel).await;
            }
            let answer = self.ask(question, cancel).await;
            match self.store.end_asking(self.turn, self.call).await {
                Ok(()) => answer,
                // The record still says that the call waits for an answer, so the next process would assume it
                // has done nothing.
                Err(error) => {
                    tracing::error!(%error, "an answer could not be written down; the call is not run");
                    UserAnswer::Unavailable
                }
            }
        })
    }
}

/// The reason why calls were skipped.
#[derive(Clone, Copy)]
enum SkipReason {
    BeforeBatch,
    AfterCall,
}

impl SkipReason {
    fn message(self, name: &str) -> String {
        match self {
            Self::BeforeBatch => {
                format!("[Tool execution cancelled — {name} was skipped due to user interrupt]")
            }
            Self::AfterCall => {
                format!("[Tool execution skipped — {name} was not started. User sent a new message]")
            }
        }
    }
}

/// Runs the calls of one answer.
pub(super) struct CallRunner<'t, 'a> {
    scope: &'a TurnScope<'a>,
    transcript: &'t mut TurnTranscript<'a>,
    bounds: ResultBounds,
}

impl<'t, 'a> CallRunner<'t, 'a> {
    pub(super) fn new(transcript: &'t mut TurnTranscript<'a>, bounds: ResultBounds) -> Self {
        Self { scope: transcript.scope, transcript, bounds }
    }

    /// Runs all calls of a batch. Every call gets its answer, in the order of the calls.
    pub(super) async fn run_batch(mut self, batch: Vec<ReadyCall>) -> Result<(), StoreError> {
        if self.scope.cancel.is_cancelled() {
            return self.skip(calls_of(&batch), SkipReason::BeforeBatch).await;
        }
        let mut room = self.bounds.batch;
        if can_run_concurrently(&batch) {
            self.record_calls(calls_of(&batch)).await?;
            let outcomes = self.execute_concurrently(&batch).await;
            for (ready, outcome) in batch.iter().zip(outcomes) {
                self.persist_outcome(ready, outcome, &mut room).await?;
            }
            return Ok(());
        }
        let mut waiting: VecDeque<ReadyCall> = batch.into();
        while let Some(ready) = waiting.pop_front() {
            self.record_calls(vec![ready.call.clone()]).await?;
            let outcome = self.execute(&ready).await;
            self.persist_outcome(&ready, outcome, &mut room).await?;
            if self.scope.cancel.is_cancelled() {
                let rest = waiting.iter().map(|ready| ready.call.clone()).collect();
                return self.skip(rest, SkipReason::AfterCall).await;
            }
        }
        Ok(())
    }

    async fn skip(&mut self, calls: Vec<ToolCall>, why: SkipReason) -> Result<(), StoreError> {
        let messages = calls.iter().map(|call| Message::tool(call, why.message(&call.name))).collect();
        self.transcript.persist_all(messages).await
    }

    async fn record_calls(&self, calls: Vec<ToolCall>) -> Result<(), StoreError> {
        let now = self.scope.agent.clock.now();
        let mut pending = Vec::with_capacity(calls.len());
        for ToolCall { id, name, arguments, .. } in calls {
            let record = NewToolCall { id, name, arguments };
            pending.push(self.scope.agent.store.begin_call(&self.scope.turn, record, now));
        }
        for written in pending {
            written.await?;
        }
        Ok(())
    }

    /// Runs the calls concurrently and returns the outcomes in call order, so that the transcript is in call
    /// order.
    fn execute_concurrently<'b>(&'b self, batch: &'b [ReadyCall]) -> BoxFuture<'b, Vec<ToolOutcome>> {
        let each: Vec<BoxFuture<'b, ToolOutcome>> = batch.iter().map(|ready| self.execute(ready)).collect();
        Box::pin(stream::iter(each).buffered(MAX_CONCURRENT_CALLS).collect())
    }

    /// Runs one call. Returns an outcome whatever happens in the tool.
    fn execute<'b>(&'b self, ready: &'b ReadyCall) -> BoxFuture<'b, ToolOutcome> {
        Box::pin(self.run_call(ready))
    }

    async fn run_call(&self, ready: &ReadyCall) -> ToolOutcome {
        let agent = self.scope.agent;
        let call = ToolInvocation {
            id: ready.call.id.clone(),
            name: ready.call.name.clone(),
            arguments: ready.arguments.clone(),
            session: self.transcript.conversation.session.clone(),
            turn: self.scope.turn.clone(),
            task: self.transcript.conversation.task.clone(),
        };
        for tool in &agent.tools {
            tool.on_event(&call.task, ToolEvent::CallStarting(&call.name));
        }
        let descriptor = ready.tool.descriptor();
        if descriptor.role == Some(ToolRole::Memory) {
            let read = others_words(&agent.tools, &self.transcript.conversation.messages);
            ready.tool.on_event(&call.task, ToolEvent::OthersWordsRead(&read));
        }
        self.scope.frontend.show(TurnEvent::ToolStarted {
            id: call.id.clone(),
            name: call.name.clone(),
            preview: preview(&ready.arguments, descriptor.preview_arguments),
            arguments: ready.call.arguments.clone(),
            display: descriptor.display(),
        });
        let cancel = self.scope.cancel;
        let veto = hooks::ask(agent, HookEvent::PreToolCall, cancel, || hooks::call_input(&call)).await;
        let mut outcome = match veto {
            Some(words) => ToolOutcome::failed(words),
            None => self.run_guarded(ready, &call).await,
        };
        hooks::notify(agent, HookEvent::PostToolCall, || hooks::result_input(&call, &outcome));
        if descriptor.role == Some(ToolRole::CommandRunner) {
            hooks::transform_output(agent, cancel, &call, &mut outcome).await;
        }
        let event = HookEvent::TransformToolResult;
        let changed = hooks::ask(agent, event, cancel, || hooks::result_input(&call, &outcome)).await;
        if let Some(content) = changed {
            outcome.content = content;
        }
        if descriptor.role == Some(ToolRole::Memory)
            && outcome.status == OutcomeStatus::Done
            && let Some(memory) = &agent.external_memory
        {
            let place = memory_place(agent, &call.session);
            for write in MemoryWrite::from_arguments(&call.arguments) {
                memory.memory_changed(place, &write);
            }
        }
        self.scope.frontend.show(TurnEvent::ToolEnded {
            id: call.id.clone(),
            name: call.name.clone(),
            status: outcome.status,
            result: self.within_result_limit(ready, &outcome.content).to_owned(),
        });
        outcome
    }

    /// Returns as much of a result as the model may read at once.
    fn within_result_limit<'b>(&self, ready: &ReadyCall, content: &'b str) -> &'b str {
        match ready.manner.result_size {
            ResultSize::Bounded => head(content, self.bounds.result),
            ResultSize::SelfBounded => content,
        }
    }

    /// Runs a tool so that a panic, a missed deadline or an ignored interrupt costs only its own answer.
    async fn run_guarded(&self, ready: &ReadyCall, call: &ToolInvocation) -> ToolOutcome {
        let spawner = TurnSubagentSpawner::new(self.scope, self.transcript.conversation);
        let person = RefusalRecorder {
            frontend: self.scope.frontend,
            refusal: Mutex::default(),
            store: &self.scope.agent.store,
            turn: &self.scope.turn,
            call: &call.id,
            work: ready.manner.kind,
        };
        let context = ToolContext {
            frontend: &person,
            cancel: self.scope.cancel,
            deadline: self.scope.deadline,
            spawn: Some(&spawner),
            turn_model: Some(&*self.scope.agent.models.main),
        };
        let run = AssertUnwindSafe(ready.tool.run(call, context)).catch_unwind();
        let name = &call.name;
        let clock = &self.scope.agent.clock;
        let stopped = async {
            let overdue = clock.sleep(self.scope.deadline.remaining(&**clock));
            tokio::select! {
                () = self.scope.cancel.cancelled() => {
                    clock.sleep(GRACE).await;
                    format!("[Tool execution cancelled — {name} did not stop when interrupted; its outcome is unknown]")
                }
                () = overdue => format!("[Tool execution cancelled — {name} ran past the time limit of this turn]"),
            }
        };
        tokio::select! {
            biased;
            outcome = run => person.add_refusal(outcome.unwrap_or_else(|_| {
                ToolOutcome::failed(format!("Tool execution failed: {name} stopped unexpectedly; this is a bug in the tool"))
            })),
            words = stopped => ToolOutcome {
                content: words,
                status: OutcomeStatus::Cancelled,
                provenance: Provenance::System,
            },
        }
    }

    /// Adds an outcome, cut to its bounds, to the conversation and stores it together with its call's result.
    async fn persist_outcome(
        &mut self,
        ready: &ReadyCall,
        outcome: ToolOutcome,
        room: &mut usize,
    ) -> Result<(), StoreError> {
        let ToolOutcome { content, status, provenance } = outcome;
        let chars = content.chars().count();
        let bounded = ready.manner.result_size == ResultSize::Bounded;
        let too_long = bounded && (chars > self.bounds.result || (chars > *room && chars > MIN_FILE_CHARS));
        let (content, handle) = if too_long {
            self.transcript.result_store.store_and_shorten(
                &self.transcript.conversation.session,
                &ready.call.id,
                &content,
            )
        } else {
            (content, None)
        };
        *room = room.saturating_sub(content.chars().count());
        let message = Message::tool(&ready.call, content);
        let mut row = NewMessage::new(message, self.scope.agent.clock.now());
        row.provenance = Some(provenance);
        let finished = FinishedCall {
            turn: self.scope.turn.clone(),
            call: ready.call.id.clone(),
            status,
            handle,
            session: self.transcript.conversation.session.clone(),
            message: row,
        };
        self.transcript.finish_call(finished).await
    }
}

fn calls_of(batch: &[ReadyCall]) -> Vec<ToolCall> {
    batch.iter().map(|ready| ready.call.clone()).collect()
}

/// Returns the most informative argument of a call, on one line.
fn preview(arguments: &Map<String, Value>, telling: &[&str]) -> String {
    let telling = telling.iter().find_map(|key| arguments.get(*key).and_then(Value::as_str));
    let first = || arguments.values().find_map(Value::as_str);
    head(&single_line(telling.or_else(first).unwrap_or_default()), PREVIEW).to_owned()
}
