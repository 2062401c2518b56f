//! A home with connections, a scripted server, and a person who answers questions.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermes_config::settings::McpServer;
use hermes_config::{Config, Env, Home};
use hermes_mcp::{McpConnections, McpOptions, McpServerState, SecretsInResults, ToolNameStyle};
use hermes_net::HttpClient;
use hermes_testkit::TestClock;
use hermes_types::{
    ApprovalDecision, BoxFuture, CallId, Cancel, Clock, Deadline, Frontend, OutcomeStatus, SessionId,
    SideModel, TaskId, ToolContext, ToolInvocation, ToolOutcome, TurnEvent, TurnId, UserAnswer, UserQuestion,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The longest real wait of a test; nothing waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connections of a temporary home.
pub(crate) struct Fixture {
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) connections: McpConnections,
    pub(crate) person: Person,
    sampling: Option<SideModel>,
    naming: ToolNameStyle,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(None, ToolNameStyle::SingleUnderscore)
    }

    pub(crate) fn with(sampling: Option<SideModel>, naming: ToolNameStyle) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Back-off passes at once; limits of seconds and more do not pass by themselves.
        let clock: Arc<dyn Clock> = Arc::new(TestClock::auto_advance_up_to(Duration::from_secs(4)));
        let options = options(folder.path(), &clock, sampling.clone(), naming);
        let connections = McpConnections::new(options);
        Self { folder, clock, connections, person: Person::default(), sampling, naming }
    }

    /// Ends the connections and begins anew, as another process of the home would.
    pub(crate) async fn restart(&mut self) {
        self.connections.shut_down().await;
        let options = options(self.folder.path(), &self.clock, self.sampling.clone(), self.naming);
        self.connections = McpConnections::new(options);
    }

    pub(crate) fn options(&self) -> McpOptions {
        options(self.folder.path(), &self.clock, self.sampling.clone(), self.naming)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, value: &Value) {
        std::fs::write(self.path(name), value.to_string()).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns the entry of the scripted server, with more fields.
    pub(crate) fn scripted(&self, more: &str) -> McpServer {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/scripted.sh");
        let entry = format!(
            "mcp_servers:\n  scripted:\n    command: sh\n    args: ['{}', '{}']\n{more}",
            script.display(),
            self.folder.path().display()
        );
        servers(&entry).remove(0)
    }

    /// Connects servers and waits for them.
    pub(crate) async fn connect(&self, servers: Vec<McpServer>) {
        self.connections.configure(servers);
        // Real time, so that a server that hangs fails the test.
        let settled = self.connections.wait_until_settled(Duration::from_hours(1));
        tokio::time::timeout(PATIENCE, settled).await.expect("the servers are connected or have failed");
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.connections.tools().iter().map(|tool| tool.spec().name.clone()).collect()
    }

    pub(crate) fn description(&self, name: &str) -> String {
        let tools = self.connections.tools();
        tools.iter().find(|tool| tool.spec().name == name).unwrap().spec().description.clone()
    }

    pub(crate) fn state(&self) -> McpServerState {
        self.connections.status().remove(0).state
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> ToolOutcome {
        self.call_until(name, arguments, &Cancel::new()).await
    }

    pub(crate) async fn call_until(&self, name: &str, arguments: Value, cancel: &Cancel) -> ToolOutcome {
        let tools = self.connections.tools();
        let tool =
            tools.iter().find(|tool| tool.spec().name == name).unwrap_or_else(|| panic!("a tool {name}"));
        let call = ToolInvocation {
            id: CallId::generate(),
            name: name.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            session: SessionId::new("s"),
            turn: TurnId::generate(),
            task: TaskId::new("t"),
        };
        let deadline = Deadline::after(&*self.clock, Duration::from_hours(1));
        let context = ToolContext { frontend: &self.person, cancel, deadline, spawn: None, turn_model: None };
        tokio::time::timeout(PATIENCE, tool.run(&call, context)).await.expect("an outcome")
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let so = async {
            while !is_so() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, so).await.unwrap_or_else(|_| panic!("{what}"));
    }
}

pub(crate) fn servers(yaml: &str) -> Vec<McpServer> {
    let config = Config::from_text(Path::new("config.yaml"), yaml, &Env::default());
    McpServer::all(&config)
}

fn options(
    folder: &Path,
    clock: &Arc<dyn Clock>,
    sampling: Option<SideModel>,
    naming: ToolNameStyle,
) -> McpOptions {
    McpOptions {
        home: Home::new(folder),
        folder: folder.to_owned(),
        user_home: folder.to_owned(),
        base_variables: vec![("HOME".to_owned(), folder.display().to_string())],
        http: HttpClient::new(hermes_net::Config::new(clock.clone())).unwrap(),
        clock: clock.clone(),
        sampling,
        naming,
        secrets: SecretsInResults::Mask,
    }
}

pub(crate) fn json_of(outcome: &ToolOutcome) -> Value {
    serde_json::from_str(&outcome.content).unwrap_or_else(|_| panic!("JSON: {}", outcome.content))
}

pub(crate) fn error_of(outcome: &ToolOutcome) -> String {
    assert_ne!(outcome.status, OutcomeStatus::Done, "{}", outcome.content);
    json_of(outcome)["error"].as_str().unwrap_or_default().to_owned()
}

/// A list with one tool.
pub(crate) fn one_tool(name: &str, description: &str) -> Value {
    json!({"tools": [{"name": name, "description": description, "inputSchema": {"type": "object"}}]})
}

/// A person who decides about approvals, and what they were shown.
#[derive(Default)]
pub(crate) struct Person {
    pub(crate) decision: Mutex<Option<ApprovalDecision>>,
    pub(crate) questions: Mutex<Vec<String>>,
    pub(crate) notices: Mutex<Vec<String>>,
    /// What they answer to questions that are no approvals, in order.
    pub(crate) answers: Mutex<VecDeque<String>>,
}

impl Frontend for Person {
    fn show(&self, event: TurnEvent) {
        if let TurnEvent::Notice { text, .. } = event {
            self.notices.lock().unwrap().push(text);
        }
    }

    fn ask<'a>(&'a self, question: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        match question {
            UserQuestion::Approve { command, danger } => {
                self.questions.lock().unwrap().push(format!("{}\n{command}", danger.reason));
            }
            UserQuestion::Clarify { question, choices } => {
                self.questions.lock().unwrap().push(format!("{question} {choices:?}"));
                let answer = self.answers.lock().unwrap().pop_front();
                return Box::pin(std::future::ready(
                    answer.map_or(UserAnswer::Unavailable, UserAnswer::Text),
                ));
            }
            UserQuestion::Secret { .. } => {}
        }
        let decision = *self.decision.lock().unwrap();
        Box::pin(std::future::ready(decision.map_or(UserAnswer::Unavailable, UserAnswer::Approval)))
    }
}
