//! The connection to a browser: calls, answers and events of the DevTools protocol.
//!
//! Knows nothing of pages. Invariant: every call gets an answer, its time limit, or the end of the connection.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_exec::{PipeWriter, PipedLine, PipedProcess};
use hermes_net::{SocketFrame, WebSocket};
use hermes_types::{Cancel, Clock};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::error::BrowserError;
use crate::launch::ProfileFolder;

/// The largest message of a browser: a screenshot is one.
pub(crate) const LARGEST_MESSAGE: usize = 64 * 1024 * 1024;
/// How long a browser may take to end by itself.
const GRACE: Duration = Duration::from_secs(3);
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
/// How often an idle WebSocket is kept alive.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// The last lines of a browser's standard error that are kept for error messages.
const KEPT_LINES: usize = 6;

/// What messages travel through.
pub(crate) enum CdpTransport {
    /// A browser started by Hermes, with its pipes and its profile.
    Pipe(Box<PipedProcess>, ProfileFolder),
    Socket(Box<WebSocket>),
}

/// An event of the browser or of one of its targets.
#[derive(Debug)]
pub(crate) struct CdpEvent {
    pub(crate) session: Option<String>,
    pub(crate) method: String,
    pub(crate) params: Value,
}

/// A handle to the connection. Clones share it; [`CdpConnection::close`] ends it.
#[derive(Clone)]
pub(crate) struct CdpConnection(Arc<ConnectionState>);

struct ConnectionState {
    outgoing: UnboundedSender<String>,
    pending: Mutex<PendingCalls>,
    next: AtomicU64,
    clock: Arc<dyn Clock>,
    stop: Cancel,
    /// Cancelled when the connection has ended.
    ended: Cancel,
}

#[derive(Default)]
struct PendingCalls {
    calls: HashMap<u64, oneshot::Sender<Result<Value, String>>>,
    /// Why there will be no more answers.
    end: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming {
    id: Option<u64>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    session_id: Option<String>,
    #[serde(default)]
    result: Value,
    error: Option<CallFailure>,
}

#[derive(Deserialize)]
struct CallFailure {
    #[serde(default)]
    message: String,
}

impl CdpConnection {
    /// Starts exchanging messages. The receiver of events ends with the connection.
    pub(crate) fn open(
        transport: CdpTransport,
        clock: Arc<dyn Clock>,
    ) -> (Self, UnboundedReceiver<CdpEvent>) {
        let (outgoing, queue) = unbounded_channel();
        let (events, received) = unbounded_channel();
        let state = Arc::new(ConnectionState {
            outgoing,
            pending: Mutex::default(),
            next: AtomicU64::new(1),
            clock,
            stop: Cancel::new(),
            ended: Cancel::new(),
        });
        let owner = state.clone();
        let work = move |_| async move {
            let end = match transport {
                CdpTransport::Pipe(process, profile) => {
                    run_pipe(&owner, *process, queue, &events, profile).await
                }
                CdpTransport::Socket(socket) => run_socket(&owner, *socket, queue, &events).await,
            };
            owner.finish(end);
        };
        drop(hermes_task::spawn_cooperative("browser", &Cancel::new(), work));
        (Self(state), received)
    }

    /// Calls a method of the browser, or of a target's session.
    pub(crate) async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, BrowserError> {
        let (answer, answered) = oneshot::channel();
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        {
            let mut pending = self.0.pending();
            if let Some(end) = &pending.end {
                return Err(BrowserError::Ended(end.clone()));
            }
            pending.calls.insert(id, answer);
        }
        let registration = CallRegistration { state: &self.0, id };
        self.0.write(id, session, method, &params);
        let outcome = tokio::select! {
            biased;
            answer = answered => answer,
            () = self.0.clock.sleep(limit) => return Err(BrowserError::TimedOut(limit)),
        };
        drop(registration);
        match outcome {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(message)) => Err(BrowserError::Refused(message)),
            Err(_) => Err(BrowserError::Ended(self.0.pending().end.clone().unwrap_or_default())),
        }
    }

    /// Calls a method without waiting for its answer.
    pub(crate) fn send(&self, session: Option<&str>, method: &str, params: &Value) {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.write(id, session, method, params);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.pending().end.is_none() && !self.0.stop.is_cancelled()
    }

    /// Ends the connection, and waits until a browser that Hermes started has ended.
    pub(crate) async fn close(&self) {
        self.0.stop.cancel();
        self.0.ended.cancelled().await;
    }
}

impl fmt::Debug for CdpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CdpConnection")
    }
}

/// Forgets a call whose caller has gone.
struct CallRegistration<'a> {
    state: &'a ConnectionState,
    id: u64,
}

impl Drop for CallRegistration<'_> {
    fn drop(&mut self) {
        self.state.pending().calls.remove(&self.id);
    }
}

impl ConnectionState {
    fn pending(&self) -> MutexGuard<'_, PendingCalls> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, id: u64, session: Option<&str>, method: &str, params: &Value) {
        let mut message = json!({"id": id, "method": method, "params": params});
        if let (Some(session), Some(fields)) = (session, message.as_object_mut()) {
            fields.insert("sessionId".to_owned(), session.into());
        }
        // Without a receiver the connection has ended, and the caller is told so.
        let _ = self.outgoing.send(message.to_string());
    }

    fn receive(&self, bytes: &[u8], events: &UnboundedSender<CdpEvent>) {
        let Ok(message) = serde_json::from_slice::<Incoming>(bytes) else {
            tracing::debug!("a message of the browser is not understood");
            return;
        };
        if let Some(id) = message.id {
            let waiting = self.pending().calls.remove(&id);
            let answer = message.error.map_or(Ok(message.result), |error| Err(error.message));
            if let Some(waiting) = waiting {
                // The caller may have stopped waiting just now.
                let _ = waiting.send(answer);
            } else if let Err(message) = answer {
                tracing::trace!(message, "the browser refuses a call that nobody waits for");
            }
        } else if let Some(method) = message.method {
            let _ = events.send(CdpEvent { session: message.session_id, method, params: message.params });
        }
    }

    fn finish(&self, end: String) {
        let mut pending = self.pending();
        pending.calls.clear();
        pending.end = Some(end);
        drop(pending);
        self.stop.cancel();
        self.ended.cancel();
    }
}

/// Exchanges messages with a browser that Hermes started; returns why that ended.
async fn run_pipe(
    state: &ConnectionState,
    mut process: PipedProcess,
    queue: UnboundedReceiver<String>,
    events: &UnboundedSender<CdpEvent>,
    profile: ProfileFolder,
) -> String {
    let Some(writer) = process.take_input() else { return String::new() };
    drop(hermes_task::spawn_named("browser input", &state.stop, write_all(writer, queue)));
    let mut last = Vec::new();
    let end = loop {
        let line = tokio::select! {
            biased;
            () = state.stop.cancelled() => break String::new(),
            line = process.next_line() => line,
        };
        match line {
            Ok(Some(PipedLine::Output(bytes))) => state.receive(&bytes, events),
            Ok(Some(PipedLine::Stderr(line))) => {
                if last.len() == KEPT_LINES {
                    last.remove(0);
                }
                last.push(line);
            }
            Ok(None) => break String::new(),
            Err(error) => break format!(": {error}"),
        }
    };
    let is_stopped = state.stop.is_cancelled();
    let end = match startup_problem(&last) {
        Some(problem) if !is_stopped => format!(": {problem}"),
        _ => end,
    };
    // The writer holds the input; the browser ends by itself when it is closed.
    state.stop.cancel();
    process.stop(GRACE, &*state.clock).await;
    drop(profile);
    end
}

async fn write_all(writer: PipeWriter, mut queue: UnboundedReceiver<String>) {
    while let Some(message) = queue.recv().await {
        if writer.write_line(message.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Returns the line of standard error that says why the browser could not run.
fn startup_problem(lines: &[String]) -> Option<String> {
    const WORDS: [&str; 6] = [
        "FATAL",
        "No usable sandbox",
        "cannot open display",
        "Missing X server",
        "error while loading",
        "Failed to",
    ];
    let line = lines.iter().rev().find(|line| WORDS.iter().any(|word| line.contains(word)))?;
    let text = line.rsplit_once("] ").map_or(line.as_str(), |(_, text)| text);
    Some(text.chars().take(300).collect())
}

/// Exchanges messages with a browser that runs elsewhere; returns why that ended.
async fn run_socket(
    state: &ConnectionState,
    mut socket: WebSocket,
    mut queue: UnboundedReceiver<String>,
    events: &UnboundedSender<CdpEvent>,
) -> String {
    loop {
        tokio::select! {
            biased;
            () = state.stop.cancelled() => {
                // The peer may be gone already.
                let _ = socket.close(SEND_TIMEOUT).await;
                return String::new();
            }
            Some(message) = queue.recv() => {
                if let Err(error) = socket.send(SocketFrame::Text(message), SEND_TIMEOUT).await {
                    return format!(": {error}");
                }
            }
            frame = socket.recv(Duration::from_hours(24)) => match frame {
                Ok(Some(SocketFrame::Text(text))) => state.receive(text.as_bytes(), events),
                Ok(Some(SocketFrame::Binary(bytes))) => state.receive(&bytes, events),
                Ok(Some(SocketFrame::Ping(_) | SocketFrame::Pong(_))) => {}
                Ok(Some(SocketFrame::Close(_)) | None) => return String::new(),
                Err(error) => return format!(": {error}"),
            },
            () = state.clock.sleep(PING_INTERVAL) => {
                if let Err(error) = socket.send(SocketFrame::Ping(hermes_net::Bytes::new()), SEND_TIMEOUT).await {
                    return format!(": {error}");
                }
            }
        }
    }
}
