//! A model that says what the test wants, tools that record, and a home to run in.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_agent::{
    Agent, Conversation, CutOff, Folders, Limits, PromptSource, Said as Words, TurnOutcome, TurnRequest,
    TurnResult, TurnWork,
};
use hermes_config::Home;
use hermes_store::{Store, StoredMessage};
use hermes_testkit::TestClock;
use hermes_types::{
    Answer, BoxFuture, Call, Cancel, Completion, Cost, CostStatus, Delta, DeltaSink, Event, FinishReason,
    Frontend, Manner, Message, Model, ModelError, Outcome, Question, Raw, Request, SessionId, SessionKind,
    Tool, ToolCall, ToolContext, ToolSpec, Usage,
};
use tempfile::TempDir;

pub(crate) type Said = Result<Message, ModelError>;

pub(crate) struct ScriptedModel {
    answers: Mutex<VecDeque<Said>>,
    pub(crate) asked: Mutex<Vec<Request>>,
    pub(crate) window: Mutex<u64>,
    /// What it says when the script has ended.
    pub(crate) otherwise: Mutex<Option<Said>>,
    /// Millionths of a dollar each call costs; nothing, when nobody knows.
    pub(crate) price: Mutex<Option<u64>>,
    /// What it says before it fails.
    pub(crate) shown: Mutex<Option<String>>,
    /// Input tokens it claims, else about what was sent.
    pub(crate) input: Mutex<Option<u64>>,
}

impl Model for ScriptedModel {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        self.asked.lock().unwrap().push(request.clone());
        let said = self
            .answers
            .lock()
            .unwrap()
            .pop_front()
            .or_else(|| self.otherwise.lock().unwrap().clone())
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

pub(crate) type Run = dyn Fn(&Call) -> Outcome + Send + Sync;

/// A tool that does what the test says.
pub(crate) struct Scripted {
    spec: ToolSpec,
    manner: Manner,
    run: Box<Run>,
}

impl Scripted {
    pub(crate) fn new(name: &str, run: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> Self {
        Self { spec: spec(name), manner: Manner::default(), run: Box::new(run) }
    }

    pub(crate) fn with(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }
}

impl Tool for Scripted {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: &'a Call, _: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { (self.run)(call) })
    }

    fn manner(&self, _: &serde_json::Map<String, serde_json::Value>) -> Manner {
        self.manner.clone()
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("the tool {name}"),
        parameters: Raw::from_value(&serde_json::json!({"type": "object"})),
    }
}

/// Answers with what it was given.
pub(crate) struct Echo(ToolSpec);

impl Tool for Echo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, call: &'a Call, _: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        let times = call.arguments.get("times").and_then(serde_json::Value::as_u64).unwrap_or(1);
        let text = serde_json::to_string(&call.arguments).unwrap();
        Box::pin(std::future::ready(Outcome::done(text.repeat(usize::try_from(times).unwrap()))))
    }

    fn modern(
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
pub(crate) struct Watcher {
    pub(crate) events: Mutex<Vec<String>>,
    /// Words of notices.
    pub(crate) notices: Mutex<Vec<String>>,
    pub(crate) cancel_at: Option<&'static str>,
    pub(crate) cancel: Cancel,
}

impl Frontend for Watcher {
    fn show(&self, event: Event) {
        let name = format!("{event:?}").split([' ', '(']).next().unwrap_or_default().to_owned();
        if self.cancel_at == Some(name.as_str()) {
            self.cancel.cancel();
        }
        if let Event::Notice { text, .. } = &event {
            self.notices.lock().unwrap().push(text.clone());
        }
        self.events.lock().unwrap().push(name);
    }

    fn ask<'a>(&'a self, _: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Unavailable))
    }
}

pub(crate) struct Bench {
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) agent: Agent,
    pub(crate) folder: TempDir,
}

impl Bench {
    pub(crate) fn new(answers: impl IntoIterator<Item = Said>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = Arc::new(ScriptedModel {
            answers: Mutex::new(answers.into_iter().collect()),
            asked: Mutex::default(),
            window: Mutex::new(100_000),
            otherwise: Mutex::default(),
            price: Mutex::new(Some(100)),
            shown: Mutex::default(),
            input: Mutex::new(Some(10)),
        });
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let prompt = PromptSource::new(Home::at(folder.path()), project);
        let store = Store::open(&folder.path().join("state.db")).unwrap();
        let mut agent = Agent::new(model.clone(), "m", store, Arc::new(TestClock::new()), prompt);
        agent.tools = vec![Arc::new(Echo(spec("echo_back")))];
        agent.limits = Limits { iterations: 5, time: Duration::from_mins(1), ..Limits::default() };
        agent.folders = Folders { results: Some(folder.path().join("results")), ..Folders::default() };
        Self { model, agent, folder }
    }

    pub(crate) fn tool(mut self, tool: Scripted) -> Self {
        self.agent.tools.push(Arc::new(tool));
        self
    }

    pub(crate) fn script(&self, answers: impl IntoIterator<Item = Said>) {
        self.model.answers.lock().unwrap().extend(answers);
    }

    pub(crate) fn conversation(&self) -> Conversation {
        self.agent.begin_as("s".into(), "cli", SessionKind::Local)
    }

    pub(crate) async fn say(&self, conversation: &mut Conversation, text: &str) -> TurnResult {
        let watcher = Watcher::default();
        self.agent.run(conversation, Words::text(text), &watcher, &watcher.cancel).await.unwrap()
    }

    /// One turn in a new conversation.
    pub(crate) async fn run(&self, watcher: &Watcher) -> TurnResult {
        let mut conversation = self.conversation();
        self.agent.run(&mut conversation, Words::text("hello"), watcher, &watcher.cancel).await.unwrap()
    }

    /// Roles and texts in the database.
    pub(crate) async fn stored(&self) -> Vec<(String, String)> {
        self.stored_in(&"s".into()).await
    }

    pub(crate) async fn stored_in(&self, session: &SessionId) -> Vec<(String, String)> {
        let rows: Vec<StoredMessage> = self.agent.store.transcript(session).await.unwrap();
        rows.iter()
            .map(|row| (row.message.role.as_str().to_owned(), row.message.content.text().into_owned()))
            .collect()
    }

    pub(crate) fn asked(&self, at: usize) -> Request {
        self.model.asked.lock().unwrap()[at].clone()
    }

    pub(crate) fn calls(&self) -> usize {
        self.model.asked.lock().unwrap().len()
    }
}

/// Goes on with a turn that was cut off.
pub(crate) async fn resume(
    agent: &Agent,
    conversation: &mut Conversation,
    cut_off: CutOff,
    watcher: &Watcher,
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
pub(crate) fn calling(calls: &[(&str, &str)]) -> Said {
    let calls = calls.iter().map(|(name, arguments)| ToolCall::new(None, *name, *arguments)).collect();
    Ok(Message::assistant("").with_calls(calls))
}

#[expect(clippy::unnecessary_wraps, reason = "a script is made of answers and errors")]
pub(crate) fn said(text: &str) -> Said {
    Ok(Message::assistant(text))
}

pub(crate) fn finished(said: Said, reason: FinishReason) -> Said {
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
