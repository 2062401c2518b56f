//! Test support: a scripted model, recording tools, and a temporary home.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_agent::{
    Agent, AgentBuilder, AgentFolders, AgentModels, Compression, Conversation, PromptSource,
    TurnInput as Words, TurnLimits, TurnOutcome, TurnRequest, TurnResult, TurnWork, UnfinishedTurn,
    UnknownPricePolicy,
};
use hermes_config::Home;
use hermes_store::{Store, StoredMessage};
use hermes_testkit::TestClock;
use hermes_types::{
    BoxFuture, CallPolicy, Cancel, Completion, Cost, CostStatus, Delta, DeltaSink, FinishReason, Frontend,
    Message, Model, ModelError, ModelRequest, RawJson, SessionId, SessionKind, SideModel, SpendingCap, Tool,
    ToolCall, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec, TurnEvent, Usage,
    UserAnswer, UserQuestion,
};
use tempfile::TempDir;

pub(crate) type ScriptedAnswer = Result<Message, ModelError>;

pub(crate) struct ScriptedModel {
    answers: Mutex<VecDeque<ScriptedAnswer>>,
    pub(crate) asked: Mutex<Vec<ModelRequest>>,
    pub(crate) window: Mutex<u64>,
    /// The answer after the script has ended.
    pub(crate) fallback_answer: Mutex<Option<ScriptedAnswer>>,
    /// The price of each call in millionths of a dollar; absent when unknown.
    pub(crate) price: Mutex<Option<u64>>,
    /// The text it streams before it fails.
    pub(crate) shown: Mutex<Option<String>>,
    /// The input tokens it reports; absent for about what was sent.
    pub(crate) input: Mutex<Option<u64>>,
}

impl Model for ScriptedModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        self.asked.lock().unwrap().push(request.clone());
        let said = self
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .or_else(|| self.fallback_answer.lock().unwrap().clone())
            .unwrap_or_else(|| Ok(Message::assistant("(script ended)")));
        let sent: usize = request.messages.iter().map(|m| m.content.text().len() / 4).sum();
        let input = self.input.lock().unwrap().unwrap_or(10 + sent as u64);
        let shown = self.shown.lock().unwrap().take();
        let micro_usd = *self.price.lock().unwrap();
        Box::pin(async move {
            if let Some(text) = shown {
                sink(Delta::Text(text));
            }
            let message = said?;
            sink(Delta::Text(message.content.text().into_owned()));
            Ok(Completion {
                message,
                usage: Some(Usage { input, output: 5, ..Usage::default() }),
                cost: Cost { micro_usd, status: CostStatus::Estimated },
                model: "m".into(),
                provider: "p".into(),
                response_id: None,
                provider_items: None,
            })
        })
    }

    fn context_window(&self, _: &str) -> u64 {
        *self.window.lock().unwrap()
    }
}

pub(crate) type ToolBody = dyn Fn(&ToolInvocation) -> ToolOutcome + Send + Sync;

/// A tool that runs the test's closure.
pub(crate) struct ScriptedTool {
    spec: ToolSpec,
    descriptor: ToolDescriptor<'static>,
    manner: CallPolicy,
    run: Box<ToolBody>,
}

impl ScriptedTool {
    pub(crate) fn new(
        name: &'static str,
        run: impl Fn(&ToolInvocation) -> ToolOutcome + Send + Sync + 'static,
    ) -> Self {
        Self {
            spec: spec(name),
            descriptor: ToolDescriptor::unknown(name),
            manner: CallPolicy::default(),
            run: Box::new(run),
        }
    }

    /// Changes the facts about the tool.
    pub(crate) fn with_facts(
        mut self,
        change: impl FnOnce(ToolDescriptor<'static>) -> ToolDescriptor<'static>,
    ) -> Self {
        self.descriptor = change(self.descriptor);
        self
    }

    pub(crate) fn with_policy(mut self, manner: CallPolicy) -> Self {
        self.manner = manner;
        self
    }
}

impl Tool for ScriptedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        self.descriptor
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { (self.run)(call) })
    }

    fn call_policy(&self, _: &serde_json::Map<String, serde_json::Value>) -> CallPolicy {
        self.manner.clone()
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("the tool {name}"),
        parameters: RawJson::from_value(&serde_json::json!({"type": "object"})),
    }
}

/// A tool that returns its arguments.
pub(crate) struct EchoTool(ToolSpec);

impl Tool for EchoTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let times = call.arguments.get("times").and_then(serde_json::Value::as_u64).unwrap_or(1);
        let text = serde_json::to_string(&call.arguments).unwrap();
        Box::pin(std::future::ready(ToolOutcome::done(text.repeat(usize::try_from(times).unwrap()))))
    }

    fn upgrade_legacy_call(
        &self,
        name: &str,
        arguments: &serde_json::Map<String, serde_json::Value>,
    ) -> Option<serde_json::Map<String, serde_json::Value>> {
        let mut arguments = arguments.clone();
        arguments.insert("once".into(), name.into());
        (name == "repeat_words").then_some(arguments)
    }
}

#[derive(Default)]
pub(crate) struct RecordingFrontend {
    pub(crate) events: Mutex<Vec<String>>,
    /// The texts of notices.
    pub(crate) notices: Mutex<Vec<String>>,
    pub(crate) cancel_at: Option<&'static str>,
    pub(crate) cancel: Cancel,
}

impl Frontend for RecordingFrontend {
    fn show(&self, event: TurnEvent) {
        let name = format!("{event:?}").split([' ', '(']).next().unwrap_or_default().to_owned();
        if self.cancel_at == Some(name.as_str()) {
            self.cancel.cancel();
        }
        if let TurnEvent::Notice { text, .. } = &event {
            self.notices.lock().unwrap().push(text.clone());
        }
        self.events.lock().unwrap().push(name);
    }

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}

/// The limits of a fixture's agent.
pub(crate) const LIMITS: TurnLimits = TurnLimits {
    iterations: 5,
    time: Duration::from_mins(1),
    cap: SpendingCap { micro_usd: None, tokens: None },
    unknown_price: UnknownPricePolicy::Ignore,
};

pub(crate) struct AgentFixture {
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) agent: Agent,
    pub(crate) folder: TempDir,
}

impl AgentFixture {
    pub(crate) fn new(answers: impl IntoIterator<Item = ScriptedAnswer>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = Arc::new(ScriptedModel {
            answers: Mutex::new(answers.into_iter().collect()),
            asked: Mutex::default(),
            window: Mutex::new(100_000),
            fallback_answer: Mutex::default(),
            price: Mutex::new(Some(100)),
            shown: Mutex::default(),
            input: Mutex::new(Some(10)),
        });
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let prompt = PromptSource::new(Home::new(folder.path()), project);
        let store = Store::open(&folder.path().join("state.db")).unwrap();
        let models = AgentModels::new(model.clone(), "m");
        let results = Some(folder.path().join("results"));
        let agent = Agent::builder(models, store, Arc::new(TestClock::new()), prompt)
            .tool(Arc::new(EchoTool(spec("echo_back"))))
            .limits(LIMITS)
            .folders(AgentFolders { results, ..AgentFolders::default() })
            .build();
        Self { model, agent, folder }
    }

    pub(crate) fn tool(mut self, tool: ScriptedTool) -> Self {
        self.change(|agent| agent.tool(Arc::new(tool)));
        self
    }

    /// Replaces the agent by one that differs from it.
    pub(crate) fn change(&mut self, edit: impl FnOnce(AgentBuilder) -> AgentBuilder) {
        self.agent = edit(self.agent.clone().into_builder()).build();
    }

    pub(crate) fn set_iterations(&mut self, iterations: u32) {
        self.change(|agent| agent.limits(TurnLimits { iterations, ..LIMITS }));
    }

    pub(crate) fn set_protect_last(&mut self, protect_last: usize) {
        let compression = Compression { protect_last, ..self.agent.compression() };
        self.change(|agent| agent.compression(compression));
    }

    pub(crate) fn set_side_model(&mut self, model: Arc<ScriptedModel>, timeout: Duration) {
        let side = Some(SideModel { model, name: "side".into(), timeout });
        let models = AgentModels { side, ..self.agent.models().clone() };
        self.change(|agent| agent.models(models));
    }

    pub(crate) fn script(&self, answers: impl IntoIterator<Item = ScriptedAnswer>) {
        self.model.answers.lock().unwrap().extend(answers);
    }

    pub(crate) fn conversation(&self) -> Conversation {
        self.agent.new_conversation_with_id("s".into(), "cli", SessionKind::Local)
    }

    pub(crate) async fn say(&self, conversation: &mut Conversation, text: &str) -> TurnResult {
        let watcher = RecordingFrontend::default();
        self.agent.run_turn(conversation, Words::text(text), &watcher, &watcher.cancel).await.unwrap()
    }

    /// Runs one turn in a new conversation.
    pub(crate) async fn run(&self, watcher: &RecordingFrontend) -> TurnResult {
        let mut conversation = self.conversation();
        self.agent.run_turn(&mut conversation, Words::text("hello"), watcher, &watcher.cancel).await.unwrap()
    }

    /// Returns the roles and texts in the database.
    pub(crate) async fn stored(&self) -> Vec<(String, String)> {
        self.stored_in(&"s".into()).await
    }

    pub(crate) async fn stored_in(&self, session: &SessionId) -> Vec<(String, String)> {
        let rows: Vec<StoredMessage> = self.agent.store().transcript(session).await.unwrap();
        rows.iter()
            .map(|row| (row.message.role.as_str().to_owned(), row.message.content.text().into_owned()))
            .collect()
    }

    pub(crate) fn asked(&self, at: usize) -> ModelRequest {
        self.model.asked.lock().unwrap()[at].clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.model.asked.lock().unwrap().len()
    }
}

/// Resumes a turn that was cut off.
pub(crate) async fn resume(
    agent: &Agent,
    conversation: &mut Conversation,
    cut_off: UnfinishedTurn,
    watcher: &RecordingFrontend,
) -> TurnResult {
    let request = TurnRequest {
        work: TurnWork::Resume(cut_off),
        frontend: watcher,
        cancel: &watcher.cancel,
        grace: None,
    };
    match agent.drive(conversation, request).await.unwrap() {
        TurnOutcome::Ended(result) => *result,
        other => panic!("{other:?}"),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a script is made of answers and errors")]
pub(crate) fn call_answer(calls: &[(&str, &str)]) -> ScriptedAnswer {
    let calls = calls.iter().map(|(name, arguments)| ToolCall::new(None, *name, *arguments)).collect();
    Ok(Message::assistant("").with_calls(calls))
}

#[expect(clippy::unnecessary_wraps, reason = "a script is made of answers and errors")]
pub(crate) fn text_answer(text: &str) -> ScriptedAnswer {
    Ok(Message::assistant(text))
}

pub(crate) fn answer_with_reason(said: ScriptedAnswer, reason: FinishReason) -> ScriptedAnswer {
    said.map(|mut message| {
        message.finish_reason = Some(reason);
        message
    })
}

pub(crate) fn pairs(rows: &[(String, String)]) -> Vec<(&str, &str)> {
    rows.iter().map(|(role, text)| (role.as_str(), text.as_str())).collect()
}

pub(crate) fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| format!("{}: {}", message.role.as_str(), message.content.text())).collect()
}
