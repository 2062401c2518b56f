//! What emulated platforms share: connections, faults on request, recorded calls, and webhooks they send.
//!
//! Holds nothing of any platform: that is a [`EmulatedPlatform`], which answers requests and changes its state. A
//! request and its effect are one step, so that a test never sees half of one.

mod form;
mod serve;
mod socket;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use hermes_types::BoxFuture;
use serde_json::Value;

pub(crate) use form::{form_fields, query_fields};
pub(crate) use serve::encode;
pub(crate) use socket::{EmulatedSocket, accept_emulated_socket, run_emulated_socket};

use crate::Error;
use crate::http::{HttpConnection, ReceivedRequest};
use crate::server_thread::ServerThread;
use crate::watched_value::WatchedValue;

/// Says how the next matching call fails.
#[derive(Debug, Clone, PartialEq)]
pub enum PlatformFault {
    /// The call has no effect; the response has this status and body.
    Refuse(u16, Value),
    /// The response is 429 with this many seconds to wait.
    Limit(u64),
    /// The call has no effect; the response is 200 and no JSON.
    Garbage,
    /// The connection ends before the call has an effect.
    Cut,
    /// The call has its effect, but the connection ends before the response.
    DoAndCut,
}

/// A call that an emulated platform received.
#[derive(Debug, Clone, PartialEq)]
pub struct PlatformCall {
    pub method: String,
    /// The path with its query.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The status of the response; 0 where there was none.
    pub status: u16,
}

impl PlatformCall {
    /// Returns the body as JSON, or `Null`.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The response to a request.
#[derive(Debug, Clone)]
pub(crate) struct EmulatedReply {
    pub(crate) status: u16,
    pub(crate) mime: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl EmulatedReply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::bytes(status, "application/json", body.to_string().as_bytes())
    }

    pub(crate) fn bytes(status: u16, mime: &'static str, body: &[u8]) -> Self {
        Self { status, mime, headers: Vec::new(), body: body.to_vec() }
    }
}

/// A request that a platform sends to the program under test.
#[derive(Debug, Clone)]
pub(crate) struct SentWebhook {
    pub(crate) id: u64,
    pub(crate) url: String,
    pub(crate) mime: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

/// An emulated platform: its state, and what it does with a request.
pub(crate) trait EmulatedPlatform: fmt::Debug + Send + Sized + 'static {
    /// Answers a request.
    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply;

    /// Learns the port it listens on.
    fn listens_on(&mut self, port: u16) {
        let _ = port;
    }

    /// Tells whether a request opens a connection that stays open.
    fn is_stream(&self, request: &ReceivedRequest) -> bool {
        let _ = request;
        false
    }

    /// Serves a connection that stays open.
    fn stream(
        shared: Arc<PlatformServerState<Self>>,
        connection: HttpConnection,
        request: ReceivedRequest,
    ) -> BoxFuture<'static, ()> {
        drop((shared, connection, request));
        Box::pin(std::future::ready(()))
    }

    /// Returns the next request to send, once.
    fn next_webhook(&mut self) -> Option<SentWebhook> {
        None
    }

    /// Learns the response to a request it sent; 0 stands for none.
    fn webhook_answered(&mut self, id: u64, status: u16, body: &str) {
        let _ = (id, status, body);
    }
}

/// The calls received, and the faults of those to come.
#[derive(Debug, Default)]
pub(crate) struct CallRecord {
    calls: Vec<PlatformCall>,
    faults: VecDeque<(String, String, PlatformFault)>,
}

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct PlatformServerState<P> {
    pub(crate) world: WatchedValue<P>,
    pub(crate) record: WatchedValue<CallRecord>,
}

/// A running server. Dropping it ends every connection.
#[derive(Debug)]
pub(crate) struct PlatformServer<P> {
    name: &'static str,
    shared: Arc<PlatformServerState<P>>,
    port: u16,
    running: Option<ServerThread>,
}

impl<P: EmulatedPlatform> PlatformServer<P> {
    pub(crate) fn start(name: &'static str, port: u16, world: P) -> Result<Self, Error> {
        let shared = PlatformServerState {
            world: WatchedValue::new(world),
            record: WatchedValue::new(CallRecord::default()),
        };
        let mut server = Self { name, shared: Arc::new(shared), port, running: None };
        server.start_again()?;
        Ok(server)
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends every connection and refuses new ones.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    /// Listens again on the same port, with its state.
    pub(crate) fn start_again(&mut self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let (address, thread) =
            ServerThread::start(self.name, self.port, move |listener| serve::serve(listener, shared))?;
        self.port = address.port();
        self.update(|world| world.listens_on(address.port()));
        self.running = Some(thread);
        Ok(())
    }

    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut P) -> R) -> R {
        self.shared.world.update(change)
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&P) -> R) -> R {
        self.shared.world.read(look)
    }

    pub(crate) async fn until<R>(&self, look: impl FnMut(&mut P) -> Option<R>) -> R {
        self.shared.world.until(look).await
    }

    #[track_caller]
    pub(crate) fn until_blocking<R>(&self, what: &str, look: impl FnMut(&mut P) -> Option<R>) -> R {
        self.shared.world.until_blocking(what, look)
    }

    /// Makes the next call with that method, and that text in its target, fail.
    pub(crate) fn fault(&self, method: &str, part: &str, fault: PlatformFault) {
        self.shared
            .record
            .update(|record| record.faults.push_back((method.to_owned(), part.to_owned(), fault)));
    }

    /// Returns the calls whose target contains a text, oldest first.
    pub(crate) fn calls(&self, part: &str) -> Vec<PlatformCall> {
        let wanted = |call: &&PlatformCall| call.target.contains(part);
        self.shared.record.read(|record| record.calls.iter().filter(wanted).cloned().collect())
    }
}

/// Returns the seconds since the epoch: emulated platforms have clocks of their own.
#[expect(clippy::disallowed_methods, reason = "the real ones do not share a clock with the program either")]
pub(crate) fn seconds_now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map(|span| span.as_secs()).unwrap_or_default()
}
