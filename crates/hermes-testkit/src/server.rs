//! The model server: accepts connections, records requests, answers by the script.
//!
//! It runs on the test's own runtime, or on its own thread for tests without a runtime and for binaries under test.
//! Dropping the server closes the listener and every connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{BoxFuture, Clock};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::gate::Gates;
use crate::http::{DelayStrategy, HttpConnection, RequestReadError, SendResult, send};
use crate::request_log::{RecordedRequest, RequestLog, RequestOutcome};
use crate::script::{ModelScript, Player, ReplyChoice, ScriptedReply};
use crate::server_thread::{ServerThread, bind};
use crate::task::{OwnedTask, start, start_in};
use crate::wire::{ReplyContext, ResponsePlan, STALL};
use crate::{Error, RealClock};

const OLLAMA: &str = "/api/show";

/// A callback that gets every request when it arrives.
pub type RequestCallback = Arc<dyn Fn(&RecordedRequest) + Send + Sync>;

/// A running server. The crate's `SCRIPT.md` describes scripts.
pub struct ModelServer {
    address: SocketAddr,
    stage: Arc<ModelServerState>,
    _running: ServerRuntime,
}

/// The settings beyond the script.
#[derive(Clone, Default)]
pub struct ModelServerBuilder {
    script: ModelScript,
    port: u16,
    clock: Option<Arc<dyn Clock>>,
    keep: Option<usize>,
    arrival: Option<RequestCallback>,
}

/// The state all connections share.
struct ModelServerState {
    player: Player,
    ledger: RequestLog,
    gates: Gates,
    clock: Option<Arc<dyn Clock>>,
    arrival: Option<RequestCallback>,
}

#[expect(dead_code, reason = "held only for what its drop does")]
enum ServerRuntime {
    Task(OwnedTask),
    Thread(ServerThread),
}

impl ModelServer {
    /// Starts on the current runtime, on a free port.
    pub async fn start(script: ModelScript) -> Result<Self, Error> {
        Self::builder(script).start().await
    }

    /// Starts on a separate thread.
    pub fn start_blocking(script: ModelScript) -> Result<Self, Error> {
        Self::builder(script).start_blocking()
    }

    pub fn builder(script: ModelScript) -> ModelServerBuilder {
        ModelServerBuilder { script, ..ModelServerBuilder::default() }
    }

    /// Returns `http://127.0.0.1:PORT/v1`, the base URL for OpenAI-style clients.
    pub fn base_url(&self) -> String {
        format!("{}/v1", self.url())
    }

    /// Returns `http://127.0.0.1:PORT`, the base URL for Anthropic-style clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns every request so far, oldest first.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.stage.ledger.all()
    }

    /// Returns the request with that number, from 0; panics listing the requests there are.
    #[track_caller]
    pub fn request(&self, sequence: usize) -> RecordedRequest {
        let all = self.requests();
        let Some(request) = all.iter().find(|request| request.sequence() == sequence) else {
            panic!("request #{sequence} is not on record; {}", self.summary());
        };
        request.clone()
    }

    pub fn request_count(&self) -> usize {
        self.stage.ledger.total()
    }

    /// Waits until `count` requests have arrived in total.
    pub async fn wait_for_requests(&self, count: usize) {
        self.stage.ledger.until_total(count).await;
    }

    #[track_caller]
    pub fn wait_for_requests_blocking(&self, count: usize) {
        self.stage.ledger.until_total_blocking(count);
    }

    /// Waits until the response to that request has ended, and returns how.
    pub async fn wait_for_end(&self, sequence: usize) -> RequestOutcome {
        self.stage.ledger.until_closed(sequence).await
    }

    #[track_caller]
    pub fn wait_for_end_blocking(&self, sequence: usize) -> RequestOutcome {
        self.stage.ledger.until_closed_blocking(sequence)
    }

    /// Lets one reply pass the gate, now or when it gets there.
    pub fn release(&self, gate: &str) {
        self.stage.gates.release(gate);
    }

    /// Lets every reply pass the gate from now on.
    pub fn open(&self, gate: &str) {
        self.stage.gates.open(gate);
    }

    /// Lets one stalled reply continue.
    pub fn release_stall(&self) {
        self.release(STALL);
    }

    /// Waits until `count` replies wait at the gate; everything before it in those replies has been sent.
    pub async fn wait_until_at(&self, gate: &str, count: usize) {
        self.stage.gates.until_waiting(gate, count).await;
    }

    #[track_caller]
    pub fn wait_until_at_blocking(&self, gate: &str, count: usize) {
        self.stage.gates.until_waiting_blocking(gate, count);
    }

    /// Panics unless exactly `count` requests arrived.
    #[track_caller]
    pub fn assert_requests(&self, count: usize) {
        assert!(self.request_count() == count, "expected {count} requests; {}", self.summary());
    }

    /// Panics if a reply was not used, or a request matched none.
    #[track_caller]
    pub fn assert_finished(&self) {
        let left = self.stage.player.leftovers();
        assert!(left.is_empty(), "never given: {}; {}", left.join("; "), self.summary());
        let unmatched =
            self.requests().into_iter().any(|request| request.outcome() == RequestOutcome::Unmatched);
        assert!(!unmatched, "a request found no reply; {}", self.summary());
    }

    fn summary(&self) -> String {
        let all = self.requests();
        let lines: Vec<String> = all.iter().map(|request| format!("\n  {request:?}")).collect();
        format!("{} came:{}", self.request_count(), lines.concat())
    }
}

impl fmt::Debug for ModelServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ModelServer").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ModelServerBuilder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerBuilder").field("port", &self.port).finish_non_exhaustive()
    }
}

impl ModelServerBuilder {
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the clock for delays. Without one they take no time, unless the script uses real time.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Keeps only the newest `count` requests, for long load tests.
    #[must_use]
    pub fn keep_requests(mut self, count: usize) -> Self {
        self.keep = Some(count);
        self
    }

    #[must_use]
    pub fn on_request(mut self, arrival: RequestCallback) -> Self {
        self.arrival = Some(arrival);
        self
    }

    #[expect(
        clippy::unused_async,
        reason = "it needs a runtime around it, which an async function makes plain"
    )]
    pub async fn start(self) -> Result<ModelServer, Error> {
        let listener = bind(self.port)?;
        let address = listener.local_addr().map_err(Error::io("read the listener's address"))?;
        let stage = self.stage();
        let running = ServerRuntime::Task(start(serve(listener, stage.clone())));
        Ok(ModelServer { address, stage, _running: running })
    }

    pub fn start_blocking(self) -> Result<ModelServer, Error> {
        let stage = self.clone().stage();
        let shared = stage.clone();
        let (address, thread) =
            ServerThread::start("model-server", self.port, move |listener| serve(listener, shared))?;
        let running = ServerRuntime::Thread(thread);
        Ok(ModelServer { address, stage, _running: running })
    }

    fn stage(self) -> Arc<ModelServerState> {
        let real = || Arc::new(RealClock::default()) as Arc<dyn Clock>;
        let clock = self.clock.or_else(|| self.script.real_time.then(real));
        Arc::new(ModelServerState {
            player: Player::new(self.script),
            ledger: RequestLog::new(self.keep.unwrap_or(usize::MAX)),
            gates: Gates::default(),
            clock,
            arrival: self.arrival,
        })
    }
}

async fn serve(listener: TcpListener, stage: Arc<ModelServerState>) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            // A failed accept concerns one client that has already disconnected.
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start_in(&mut clients, serve_connection(stream, stage.clone()));
            },
            Some(_) = clients.join_next() => {}
        }
    }
}

/// Serves one connection until either side closes it.
async fn serve_connection(stream: TcpStream, stage: Arc<ModelServerState>) {
    let mut connection = HttpConnection::new(stream);
    loop {
        let message = match connection.read().await {
            Ok(message) => message,
            Err(RequestReadError::Closed) => return,
            Err(RequestReadError::Refused(status, why)) => {
                let plan =
                    ResponsePlan::of_json(status, &json!({"error": {"message": why, "type": "bad_request"}}));
                send(connection, plan, true, stage.as_ref()).await;
                return;
            }
        };
        let close = message.wants_close();
        // Clients probe every local server for Ollama; unless the script emulates it, the probe is not recorded.
        if message.target == OLLAMA && !stage.player.names_path(OLLAMA) {
            let unknown = ResponsePlan::of_json(404, &json!({"error": "404 page not found"}));
            let SendResult::Whole(same) = send(connection, unknown, close, stage.as_ref()).await else {
                return;
            };
            connection = same;
            continue;
        }
        let request = stage.ledger.record(message);
        if let Some(arrival) = &stage.arrival {
            arrival(&request);
        }
        let (plan, matched) = stage.answer(&request);
        let (next, outcome) = match send(connection, plan, close, stage.as_ref()).await {
            SendResult::Whole(connection) => (Some(connection), RequestOutcome::Complete),
            SendResult::Ended(outcome) => (None, outcome),
        };
        let outcome = if matched { outcome } else { RequestOutcome::Unmatched };
        stage.ledger.close(request.sequence(), outcome);
        let Some(same) = next else { return };
        connection = same;
    }
}

impl ModelServerState {
    /// Returns the response, and whether the script had one.
    fn answer(&self, request: &RecordedRequest) -> (ResponsePlan, bool) {
        let script = self.player.script();
        let ask = ReplyContext::of(request);
        if request.method() != "POST" || request.wire().is_none() {
            return match self.player.take_for_path(request) {
                Some(reply) => (ResponsePlan::of_reply(&reply, &ask, script), true),
                None if request.method() == "GET" && request.path().ends_with("/models") => {
                    (ResponsePlan::of_json(200, &self.models()), true)
                }
                None => {
                    let why = format!("no reply is scripted for {} {}", request.method(), request.path());
                    (
                        ResponsePlan::of_json(404, &json!({"error": {"message": why, "type": "not_found"}})),
                        true,
                    )
                }
            };
        }
        match self.player.choose(request) {
            ReplyChoice::Play(reply) => (ResponsePlan::of_reply(&reply, &ask, script), true),
            ReplyChoice::Echo => {
                let echo = ScriptedReply::text(request.last_user_text().unwrap_or_default());
                (ResponsePlan::of_reply(&echo, &ask, script), true)
            }
            ReplyChoice::Unmatched(expected) => {
                let why = format!("no scripted reply for {request}: {expected}");
                (ResponsePlan::of_mismatch(&why, &ask), false)
            }
        }
    }

    fn models(&self) -> Value {
        let entry = |model: &crate::script::ModelEntry| {
            let mut object =
                json!({"id": model.id, "object": "model", "created": 1_700_000_000, "owned_by": "testkit"});
            if let Value::Object(fields) = &mut object {
                fields.extend(model.fields.clone());
            }
            object
        };
        let list: Vec<Value> = self.player.script().models.iter().map(entry).collect();
        json!({"object": "list", "data": list})
    }
}

impl DelayStrategy for ModelServerState {
    fn delay(&self, span: Duration) -> BoxFuture<'_, ()> {
        match &self.clock {
            Some(clock) => clock.sleep(span),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn wait<'a>(&'a self, gate: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(self.gates.pass(gate))
    }
}
