//! Running the calls of one answer: in order or side by side, each written down before and after.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use hermes_store::{Error as StoreError, FinishedCall, NewMessage, NewToolCall, Store};
use hermes_text::{head, single_line};
use hermes_types::{
    Answer, Approval, BoxFuture, Call, CallId, Cancel, Event, Frontend, Message, Occasion, Outcome,
    OutcomeStatus, Provenance, Question, ResultSize, ToolCall, ToolContext, TurnId, Work,
};
use serde_json::{Map, Value};

use crate::calls::{Ready, run_together};
use crate::turn::Running;

const MOST_AT_ONCE: usize = 8;
/// A tool that does not stop by itself is left alone after this long.
const GRACE: Duration = Duration::from_secs(5);
/// A result this short is not worth a file, however much the others say.
const WORTH_A_FILE: usize = 2_000;
const PREVIEW: usize = 120;
/// The most of a person's reason for a refusal.
const LONGEST_REFUSAL: usize = 280;

/// Whoever a tool asks. A person who refuses with words has them heard by the model, whatever the tool does about it.
struct Person<'a> {
    frontend: &'a dyn Frontend,
    refusal: Mutex<Option<String>>,
    store: &'a Store,
    turn: &'a TurnId,
    call: &'a CallId,
    work: Work,
}

impl Person<'_> {
    fn add_refusal(&self, mut outcome: Outcome) -> Outcome {
        if let Some(words) = self.refusal.lock().unwrap_or_else(PoisonError::into_inner).take() {
            outcome.content = format!("{}\n\n[The user denied this and said: {words}]", outcome.content);
        }
        outcome
    }
}

impl Frontend for Person<'_> {
    fn show(&self, event: Event) {
        self.frontend.show(event);
    }

    fn ask<'a>(&'a self, question: Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let is_approval = matches!(question, Question::Approve { .. });
            let answer = self.frontend.ask(question, cancel).await;
            if let (true, Answer::Text(words)) = (is_approval, &answer) {
                let words = head(words, LONGEST_REFUSAL).to_owned();
                self.refusal.lock().unwrap_or_else(PoisonError::into_inner).replace(words);
                return Answer::Approval(Approval::Deny);
            }
            answer
        })
    }

    fn ask_before_acting<'a>(&'a self, question: Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        // What a script asks for comes after what the script has done already.
        if self.work == Work::Script {
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
                // The next process would take the call for one that has done nothing.
                Err(error) => {
                    tracing::error!(%error, "an answer could not be written down; the call is not run");
                    Answer::Unavailable
                }
            }
        })
    }
}

/// Why calls were left out.
#[derive(Clone, Copy)]
enum Skipped {
    BeforeTheBatch,
    AfterACall,
}

impl Skipped {
    fn words(self, name: &str) -> String {
        match self {
            Self::BeforeTheBatch => {
                format!("[Tool execution cancelled — {name} was skipped due to user interrupt]")
            }
            Self::AfterACall => {
                format!("[Tool execution skipped — {name} was not started. User sent a new message]")
            }
        }
    }
}

impl Running<'_> {
    /// Runs a batch to its end. Every call gets its answer, in the order of the calls.
    pub(crate) async fn run_batch(&mut self, batch: Vec<Ready>) -> Result<(), StoreError> {
        if self.cancel.is_cancelled() {
            return self.skip(calls_of(&batch), Skipped::BeforeTheBatch).await;
        }
        let mut room = self.bounds.batch;
        if run_together(&batch) {
            self.write_down(calls_of(&batch)).await?;
            let outcomes = self.execute_together(&batch).await;
            for (ready, outcome) in batch.iter().zip(outcomes) {
                self.keep_outcome(ready, outcome, &mut room).await?;
            }
            return Ok(());
        }
        let mut waiting: VecDeque<Ready> = batch.into();
        while let Some(ready) = waiting.pop_front() {
            self.write_down(vec![ready.call.clone()]).await?;
            let outcome = self.execute(&ready).await;
            self.keep_outcome(&ready, outcome, &mut room).await?;
            if self.cancel.is_cancelled() {
                let rest = waiting.iter().map(|ready| ready.call.clone()).collect();
                return self.skip(rest, Skipped::AfterACall).await;
            }
        }
        Ok(())
    }

    /// Answers calls that are not run.
    pub(crate) async fn answer(
        &mut self,
        calls: &[ToolCall],
        answers: Vec<String>,
    ) -> Result<(), StoreError> {
        let messages = calls.iter().zip(answers).map(|(call, words)| Message::tool(call, words)).collect();
        self.keep_all(messages).await
    }

    async fn skip(&mut self, calls: Vec<ToolCall>, why: Skipped) -> Result<(), StoreError> {
        let messages = calls.iter().map(|call| Message::tool(call, why.words(&call.name))).collect();
        self.keep_all(messages).await
    }

    async fn write_down(&self, calls: Vec<ToolCall>) -> Result<(), StoreError> {
        let now = self.agent.clock.now();
        let mut pending = Vec::with_capacity(calls.len());
        for ToolCall { id, name, arguments, .. } in calls {
            let record = NewToolCall { id, name, arguments, verdict: None };
            pending.push(self.agent.store.begin_call(&self.turn, record, now));
        }
        for written in pending {
            written.await?;
        }
        Ok(())
    }

    /// Ordered: an answer waits for those before it, so that the transcript is in call order.
    fn execute_together<'a>(&'a self, batch: &'a [Ready]) -> BoxFuture<'a, Vec<Outcome>> {
        let each: Vec<BoxFuture<'a, Outcome>> = batch.iter().map(|ready| self.execute(ready)).collect();
        Box::pin(stream::iter(each).buffered(MOST_AT_ONCE).collect())
    }

    /// Runs one call. Whatever happens in the tool, there is an outcome.
    fn execute<'a>(&'a self, ready: &'a Ready) -> BoxFuture<'a, Outcome> {
        Box::pin(self.run_call(ready))
    }

    async fn run_call(&self, ready: &Ready) -> Outcome {
        let agent = self.agent;
        let call = Call {
            id: ready.call.id.clone(),
            name: ready.call.name.clone(),
            arguments: ready.arguments.clone(),
            session: self.conversation.session.clone(),
            turn: self.turn.clone(),
            task: self.conversation.task.clone(),
        };
        for tool in &agent.tools {
            tool.notice(&call.task, Occasion::Calling(&call.name));
        }
        let preview = preview(&ready.arguments);
        self.frontend.show(Event::ToolStarted {
            id: call.id.clone(),
            name: call.name.clone(),
            preview,
            arguments: ready.call.arguments.clone(),
        });
        let veto = match &agent.hooks {
            Some(hooks) => hooks.before_tool(&call).await,
            None => None,
        };
        let outcome = match veto {
            Some(words) => Outcome::failed(words),
            None => self.run_guarded(ready, &call).await,
        };
        if let Some(hooks) = &agent.hooks {
            hooks.after_tool(&call, &outcome);
        }
        if call.name == "memory"
            && outcome.status == OutcomeStatus::Done
            && let Some(memory) = &agent.external_memory
        {
            memory.memory_changed(&call.arguments);
        }
        self.frontend.show(Event::ToolEnded {
            id: call.id.clone(),
            name: call.name.clone(),
            status: outcome.status,
            result: self.tellable(ready, &outcome.content).to_owned(),
        });
        outcome
    }

    /// As much of a result as the model may read at once.
    fn tellable<'a>(&self, ready: &Ready, content: &'a str) -> &'a str {
        match ready.manner.size {
            ResultSize::Bounded => head(content, self.bounds.result),
            ResultSize::AsIs => content,
        }
    }

    /// A tool that panics, overstays the turn or ignores an interrupt costs only its own answer.
    async fn run_guarded(&self, ready: &Ready, call: &Call) -> Outcome {
        let spawner = self.spawner();
        let person = Person {
            frontend: self.frontend,
            refusal: Mutex::default(),
            store: &self.agent.store,
            turn: &self.turn,
            call: &call.id,
            work: ready.manner.work,
        };
        let context = ToolContext {
            frontend: &person,
            cancel: self.cancel,
            deadline: self.deadline,
            spawn: Some(&spawner),
        };
        let run = AssertUnwindSafe(ready.tool.run(call, context)).catch_unwind();
        let name = &call.name;
        let clock = &self.agent.clock;
        let stopped = async {
            let overdue = clock.sleep(self.deadline.remaining(&**clock));
            tokio::select! {
                () = self.cancel.cancelled() => {
                    clock.sleep(GRACE).await;
                    format!("[Tool execution cancelled — {name} did not stop when interrupted; its outcome is unknown]")
                }
                () = overdue => format!("[Tool execution cancelled — {name} ran past the time limit of this turn]"),
            }
        };
        tokio::select! {
            biased;
            outcome = run => person.add_refusal(outcome.unwrap_or_else(|_| {
                Outcome::failed(format!("Tool execution failed: {name} stopped unexpectedly; this is a bug in the tool"))
            })),
            words = stopped => Outcome {
                content: words,
                status: OutcomeStatus::Cancelled,
                provenance: Provenance::System,
            },
        }
    }

    /// Takes an outcome into the conversation, within its bounds, written down with its result.
    async fn keep_outcome(
        &mut self,
        ready: &Ready,
        outcome: Outcome,
        room: &mut usize,
    ) -> Result<(), StoreError> {
        let Outcome { content, status, provenance } = outcome;
        let chars = content.chars().count();
        let bounded = ready.manner.size == ResultSize::Bounded;
        let too_long = bounded && (chars > self.bounds.result || (chars > *room && chars > WORTH_A_FILE));
        let (content, handle) = if too_long {
            self.shelf.put(&self.conversation.session, &ready.call.id, &content)
        } else {
            (content, None)
        };
        *room = room.saturating_sub(content.chars().count());
        let message = Message::tool(&ready.call, content);
        let mut row = NewMessage::new(message.clone(), self.agent.clock.now());
        row.provenance = Some(provenance);
        let finished = FinishedCall {
            turn: self.turn.clone(),
            call: ready.call.id.clone(),
            status,
            handle,
            session: self.conversation.session.clone(),
            message: row,
        };
        self.agent.store.finish_call(finished).await?;
        self.conversation.messages.push(message);
        Ok(())
    }
}

fn calls_of(batch: &[Ready]) -> Vec<ToolCall> {
    batch.iter().map(|ready| ready.call.clone()).collect()
}

/// The argument that says most about a call, on one line.
fn preview(arguments: &Map<String, Value>) -> String {
    const TELLING: [&str; 12] = [
        "command", "query", "pattern", "path", "url", "question", "goal", "code", "name", "action", "text",
        "patch",
    ];
    let telling = TELLING.iter().find_map(|key| arguments.get(*key).and_then(Value::as_str));
    let first = || arguments.values().find_map(Value::as_str);
    head(&single_line(telling.or_else(first).unwrap_or_default()), PREVIEW).to_owned()
}
