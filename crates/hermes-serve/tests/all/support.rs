//! Test support: a server in a temporary home.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_agent::{Agent, AgentModels, PromptSource, RequestOptions};
use hermes_config::{Config, Env, Home};
use hermes_gateway::{
    AgentProvider, AgentRequest, ChatMessageSender, DeliveryPorts, Gateway, GatewayPorts, LiveSettings,
    NoServices,
};
use hermes_serve::{App, AppState, ServerHandle, ServerParts, ServerSettings};
use hermes_store::Store;
use hermes_task::SystemClock;
use hermes_testkit::{EndRecordingTool, RiskyTool, TestClock};
pub(crate) use hermes_testkit::{ModelStep, TestModel};
use hermes_types::{Cancel, CivilTime, Clock};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

struct FixtureAgents {
    model: Arc<TestModel>,
    store: Store,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    witness: Arc<EndRecordingTool>,
}

impl AgentProvider for FixtureAgents {
    fn agent(&self, wish: &AgentRequest<'_>) -> Result<Agent, String> {
        let prompt = PromptSource::new(Home::new(&self.folder), self.folder.join("project"));
        let models = AgentModels::new(self.model.clone(), "m");
        let agent = Agent::builder(models, self.store.clone(), self.clock.clone(), prompt)
            .tools(vec![Arc::new(RiskyTool::new()), self.witness.clone()])
            .request_options(RequestOptions { ephemeral: wish.context.clone(), ..RequestOptions::default() });
        Ok(agent.build())
    }
}

pub(crate) const KEY: &str = "a-key-for-this-test-only";

pub(crate) struct ServerFixture {
    pub(crate) model: Arc<TestModel>,
    pub(crate) store: Store,
    pub(crate) address: SocketAddr,
    pub(crate) folder: Arc<TempDir>,
    pub(crate) gateway: Gateway,
    pub(crate) sender: ChatMessageSender,
    witness: Arc<EndRecordingTool>,
    app: App,
    listening: Option<ServerHandle>,
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl HttpAnswer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns the data of each event of a stream.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let of = |line: &str| line.split_once(':').map(|(name, _)| name.to_lowercase());
        let line = self.head.lines().find(|line| of(line).as_deref() == Some(name))?;
        line.split_once(':').map(|(_, value)| value.trim())
    }
}

impl ServerFixture {
    pub(crate) async fn with(model: Arc<TestModel>) -> Self {
        Self::configured(model, "", &[("API_SERVER_KEY", KEY)]).await
    }

    /// Creates a fixture with a clock that only the test advances.
    pub(crate) async fn with_clock(clock: &TestClock, model: Arc<TestModel>) -> Self {
        Self::make(Arc::new(clock.clone()), model, "", &[("API_SERVER_KEY", KEY)]).await
    }

    pub(crate) async fn configured(model: Arc<TestModel>, config: &str, env: &[(&str, &str)]) -> Self {
        Self::make(Arc::new(SystemClock::new()), model, config, env).await
    }

    async fn make(clock: Arc<dyn Clock>, model: Arc<TestModel>, config: &str, env: &[(&str, &str)]) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(folder.path().join("project")).unwrap();
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        let store = Store::open(&folder.path().join("state.db")).unwrap();
        Self::open_in(folder, store, clock, model, env).await
    }

    async fn open_in(
        folder: Arc<TempDir>,
        store: Store,
        clock: Arc<dyn Clock>,
        model: Arc<TestModel>,
        env: &[(&str, &str)],
    ) -> Self {
        let home = Home::new(folder.path());
        let witness = EndRecordingTool::new();
        let env = Env::from_pairs(
            env.iter().copied().chain([("API_SERVER_PORT", "0"), ("API_SERVER_ENABLED", "1")]),
        );
        let settings = ServerSettings::resolve(&Config::load(&home, &env), &env).unwrap();
        let live = LiveSettings::new(home, env, folder.path().join("project"));
        let agents = Arc::new(FixtureAgents {
            model: model.clone(),
            store: store.clone(),
            clock: clock.clone(),
            folder: folder.path().to_owned(),
            witness: witness.clone(),
        });
        let cancel = Cancel::new();
        let none = Arc::new(NoServices);
        let sender = ChatMessageSender::new(
            store.clone(),
            clock.clone(),
            Arc::new(CivilTime::utc),
            live.clone(),
            DeliveryPorts { platforms: none.clone(), files: none },
            &cancel,
        );
        let ports = GatewayPorts::new(agents.clone());
        let gateway = Gateway::new(&sender, Arc::new(CivilTime::utc), &ports, &cancel);
        let parts =
            ServerParts { store: store.clone(), clock, live, agents, gateway: gateway.status().clone() };
        let app = AppState::new(parts, settings, "v0", &cancel).unwrap();
        let listening = hermes_serve::start(app.clone(), &cancel).await.unwrap();
        let address = listening.address;
        Self { model, store, address, folder, gateway, sender, witness, app, listening: Some(listening) }
    }

    /// Returns the conversations whose state tools were told to drop.
    pub(crate) fn ended(&self) -> Vec<String> {
        self.witness.ended.lock().unwrap().clone()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.send("POST", path, &[], body.to_string().as_bytes()).await
    }

    pub(crate) async fn get(&self, path: &str) -> HttpAnswer {
        self.send("GET", path, &[], b"").await
    }

    /// Sends a request with the key, unless another is among the headers.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> HttpAnswer {
        let mut stream = self.open(method, path, headers, body).await;
        read_all(&mut stream).await
    }

    /// Sends a request and leaves the connection open.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> TcpStream {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        let has = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        if !has("authorization") {
            write!(text, "Authorization: Bearer {KEY}\r\n").unwrap();
        }
        if !has("content-length") && !has("transfer-encoding") {
            write!(text, "Content-Length: {}\r\n", body.len()).unwrap();
        }
        for (name, value) in headers {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
        text.push_str("\r\n");
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        // A server that rejects a body may close before all of it is written.
        let _ = stream.write_all(body).await;
        stream
    }

    /// Waits until the model has been called this often.
    pub(crate) async fn until_asked(&self, count: usize) {
        while self.model.requests.lock().unwrap().len() < count {
            SystemClock::new().sleep(Duration::from_millis(2)).await;
        }
    }

    /// Waits until no turn is running.
    pub(crate) async fn until_idle(&self) {
        while !self.store.running_turns().await.unwrap().is_empty() {
            SystemClock::new().sleep(Duration::from_millis(2)).await;
        }
    }

    /// Starts another server in the same home, as after a crash.
    pub(crate) async fn restarted(&self, model: Arc<TestModel>) -> Self {
        let (folder, store) = (self.folder.clone(), self.store.clone());
        Self::open_in(folder, store, Arc::new(SystemClock::new()), model, &[("API_SERVER_KEY", KEY)]).await
    }

    pub(crate) async fn stop(mut self) {
        if let Some(listening) = self.listening.take() {
            listening.stop(&self.app).await;
        }
    }
}

pub(crate) async fn read_all(stream: &mut TcpStream) -> HttpAnswer {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunk(body) } else { body.to_owned() };
    HttpAnswer { status, head: head.to_owned(), body }
}

fn unchunk(mut text: &str) -> String {
    let mut whole = Vec::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&rest.as_bytes()[..size.min(rest.len())]);
        text = rest.get(size + 2..).unwrap_or_default();
    }
    String::from_utf8_lossy(&whole).into_owned()
}
