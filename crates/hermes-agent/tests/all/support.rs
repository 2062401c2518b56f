//! A model that says what the test wants, tools that record, and a home to run in.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_agent::{Agent, Limits, TurnInput, TurnResult};
use hermes_store::{Store, StoredMessage};
use hermes_testkit::TestClock;
use hermes_types::{
    Answer, BoxFuture, Call, Cancel, Completion, Cost, CostStatus, Delta, DeltaSink, Event, Frontend,
    Message, Model, ModelError, Outcome, Question, Raw, Request, SpendingCap, Tool, ToolContext, ToolSpec,
    Usage,
};
use tempfile::TempDir;

pub(crate) type Said = Result<Message, ModelError>;

#[derive(Default)]
pub(crate) struct ScriptedModel {
    answers: Mutex<VecDeque<Said>>,
    pub(crate) asked: Mutex<Vec<Request>>,
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
            .unwrap_or_else(|| Ok(Message::assistant("(script ended)")));
        Box::pin(async move {
            let message = said?;
            sink(Delta::Text(message.content.text().into_owned()));
            Ok(Completion {
                message,
                usage: Some(Usage { input: 10, output: 5, ..Usage::default() }),
                cost: Cost { micro_usd: Some(100), status: CostStatus::Estimated },
                model: "m".into(),
                provider: "p".into(),
                response_id: None,
                provider_items: None,
            })
        })
    }

    fn context_window(&self, _: &str) -> u64 {
        1000
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
}

#[derive(Default)]
pub(crate) struct Watcher {
    pub(crate) events: Mutex<Vec<String>>,
    pub(crate) cancel_at: Option<&'static str>,
    pub(crate) cancel: Cancel,
}

impl Frontend for Watcher {
    fn show(&self, event: Event) {
        let name = format!("{event:?}").split([' ', '(']).next().unwrap_or_default().to_owned();
        if self.cancel_at == Some(name.as_str()) {
            self.cancel.cancel();
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
    _folder: TempDir,
}

impl Bench {
    pub(crate) fn new(answers: impl IntoIterator<Item = Said>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let model = Arc::new(ScriptedModel {
            answers: Mutex::new(answers.into_iter().collect()),
            ..Default::default()
        });
        let echo = ToolSpec {
            name: "echo_back".into(),
            description: "gives back what it gets".into(),
            parameters: Raw::from_value(&serde_json::json!({"type": "object"})),
        };
        let agent = Agent {
            model: model.clone(),
            model_name: "m".into(),
            tools: vec![Arc::new(Echo(echo))],
            store: Store::open(&folder.path().join("state.db")).unwrap(),
            clock: Arc::new(TestClock::new()),
            limits: Limits { iterations: 5, time: Duration::from_mins(1), cap: SpendingCap::default() },
        };
        Self { model, agent, _folder: folder }
    }

    pub(crate) async fn run(&self, watcher: &Watcher) -> TurnResult {
        let input = TurnInput {
            session: "s".into(),
            source: "cli".into(),
            system: "be brief".into(),
            history: Vec::new(),
            text: "hello".into(),
        };
        self.agent.run(input, watcher, &watcher.cancel).await.unwrap()
    }

    /// Roles and texts in the database.
    pub(crate) async fn stored(&self) -> Vec<(String, String)> {
        let rows: Vec<StoredMessage> = self.agent.store.transcript(&"s".into()).await.unwrap();
        rows.iter()
            .map(|row| (row.message.role.as_str().to_owned(), row.message.content.text().into_owned()))
            .collect()
    }
}
