//! A model inside the test: it answers at once by a function, or hangs on request.

use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::{
    BoxFuture, Completion, Cost, CostStatus, Danger, Delta, DeltaSink, FinishReason, Message, Model,
    ModelError, ModelRequest, RawJson, ResultAuthor, Role, Tool, ToolCall, ToolContext, ToolDescriptor,
    ToolInvocation, ToolOutcome, ToolRole, ToolSpec, Usage, UserQuestion,
};
use tokio::sync::Semaphore;

/// The model's response to a request.
#[derive(Debug, Clone)]
pub enum ModelStep {
    Say(String),
    /// Says a text, as a model without a known price.
    SayUnpriced(String),
    /// Sends reasoning, then a text.
    Think(&'static str, &'static str),
    Call(&'static str, &'static str),
    /// Hangs until the turn is stopped.
    Hang,
    /// Hangs even when the turn is stopped.
    Stuck,
    /// Answers once the test releases the gate; not if the turn is stopped before.
    Gate(String),
    Fail(ModelError),
    /// Says a text with this finish reason.
    Ends(&'static str, FinishReason),
    /// Says a text, then hangs until the turn is stopped.
    HangAfter(&'static str),
    /// Says a text, then fails with this error.
    CutOff(&'static str, ModelError),
}

type AnswerFn = dyn Fn(&str, &ModelRequest) -> ModelStep + Send + Sync;

/// A model that chooses its answer by the last message it reads.
#[expect(missing_debug_implementations, reason = "it holds a closure")]
pub struct TestModel {
    answer: Box<AnswerFn>,
    pub requests: Mutex<Vec<ModelRequest>>,
    pub gate: Semaphore,
}

impl TestModel {
    pub fn new(answer: impl Fn(&str, &ModelRequest) -> ModelStep + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { answer: Box::new(answer), requests: Mutex::default(), gate: Semaphore::new(0) })
    }

    pub fn echo() -> Arc<Self> {
        Self::new(|said, _| ModelStep::Say(format!("you said: {said}")))
    }

    /// Returns the requests that arrived, in order.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn questions(&self) -> Vec<String> {
        let last = |request: &ModelRequest| {
            let found = request.messages.iter().rfind(|message| message.role == Role::User);
            found.map(|message| message.content.text().into_owned()).unwrap_or_default()
        };
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter().map(last).collect()
    }
}

impl Model for TestModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let last = request.messages.last();
        let said = last.map(|message| message.content.text().into_owned()).unwrap_or_default();
        let step = (self.answer)(&said, request);
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let cost = match &step {
            ModelStep::SayUnpriced(_) => Cost { micro_usd: None, status: CostStatus::Unknown },
            _ => Cost { micro_usd: Some(1), status: CostStatus::Estimated },
        };
        Box::pin(async move {
            let message = match step {
                ModelStep::Say(text) | ModelStep::SayUnpriced(text) => Message::assistant(text),
                ModelStep::Think(thought, text) => {
                    let mut message = Message::assistant(text);
                    message.reasoning = Some(thought.to_owned());
                    message
                }
                ModelStep::Call(name, arguments) => {
                    Message::assistant("").with_calls(vec![ToolCall::new(None, name, arguments)])
                }
                ModelStep::Hang => {
                    request.cancel.cancelled().await;
                    return Err(ModelError::Cancelled);
                }
                ModelStep::Stuck => return std::future::pending().await,
                ModelStep::Gate(text) => {
                    tokio::select! {
                        permit = self.gate.acquire() => permit.into_iter().for_each(tokio::sync::SemaphorePermit::forget),
                        () = request.cancel.cancelled() => return Err(ModelError::Cancelled),
                    }
                    Message::assistant(text)
                }
                ModelStep::Ends(text, reason) => {
                    let mut message = Message::assistant(text);
                    message.finish_reason = Some(reason);
                    message
                }
                ModelStep::HangAfter(words) => {
                    sink(Delta::Text(words.to_owned()));
                    request.cancel.cancelled().await;
                    return Err(ModelError::Cancelled);
                }
                ModelStep::Fail(error) => return Err(error),
                ModelStep::CutOff(words, error) => {
                    sink(Delta::Text(words.to_owned()));
                    return Err(error);
                }
            };
            for word in message.content.text().split_inclusive(' ') {
                sink(Delta::Text(word.to_owned()));
            }
            Ok(Completion {
                message,
                usage: Some(Usage { input: 10, output: 5, ..Usage::default() }),
                cost,
                model: "m".into(),
                provider: "p".into(),
                response_id: None,
                provider_items: None,
            })
        })
    }

    fn context_window(&self, _: &str) -> u64 {
        100_000
    }
}

/// A tool that needs approval.
#[derive(Debug)]
pub struct RiskyTool(ToolSpec);

impl RiskyTool {
    #[expect(clippy::new_without_default, reason = "a tool is made on purpose")]
    pub fn new() -> Self {
        Self(ToolSpec {
            name: "risky".into(),
            description: "asks first".into(),
            parameters: RawJson::from_value(&serde_json::json!({"type": "object"})),
        })
    }
}

impl Tool for RiskyTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let danger = Danger { key: "k".into(), reason: "it is risky".into() };
            let question = UserQuestion::Approve { command: "rm -rf ./build".into(), danger };
            let answer = context.frontend.ask_before_acting(question, context.cancel).await;
            ToolOutcome::done(format!("{answer:?}"))
        })
    }
}

/// A tool that has no effect and returns a fixed text.
#[derive(Debug)]
pub struct PlainTool {
    spec: ToolSpec,
    says: String,
    role: Option<ToolRole>,
}

impl PlainTool {
    #[expect(clippy::new_without_default, reason = "a tool is made on purpose")]
    pub fn new() -> Self {
        Self::named("plain")
    }

    pub fn named(name: &str) -> Self {
        let spec = ToolSpec {
            name: name.into(),
            description: "does nothing".into(),
            parameters: RawJson::from_value(&serde_json::json!({"type": "object"})),
        };
        Self { spec, says: "nothing was done".to_owned(), role: None }
    }

    /// Changes the text it returns.
    #[must_use]
    pub fn saying(self, says: &str) -> Self {
        Self { says: says.to_owned(), ..self }
    }

    /// Gives it a role.
    #[must_use]
    pub fn with_role(self, role: ToolRole) -> Self {
        Self { role: Some(role), ..self }
    }
}

impl Tool for PlainTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        let unknown = ToolDescriptor::unknown(&self.spec.name);
        ToolDescriptor { role: self.role, result_author: ResultAuthor::Tool, ..unknown }
    }

    fn run<'a>(&'a self, _: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(std::future::ready(ToolOutcome::done(self.says.clone())))
    }
}
