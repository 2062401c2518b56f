//! The connection to a running Python program that uses Modal's package, and the calls made to it.
//!
//! Calls run concurrently, and each receives its own responses. The program ends when no connection handle
//! and no call is left, because its input is closed then. It ends in its own time, because it has sandboxes
//! to terminate.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_task::spawn_named;
use hermes_types::Cancel;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::child::Launch;
use crate::group::ProcessGroup;
use crate::line_process::LineProcess;
use crate::stream::Stream;

/// Limits how many responses of a call may be queued; when the queue is full, nothing more is read.
const MOST_WAITING: usize = 64;
/// Limits how many characters are kept of the output of a program that cannot start.
const MOST_SAID: usize = 1000;

#[derive(Debug)]
pub(super) struct BridgeConnection {
    group: ProcessGroup,
    lines: mpsc::UnboundedSender<String>,
    calls: Arc<PendingCalls>,
    next: AtomicU64,
}

/// The receivers of responses by call; `None` once the program has ended.
#[derive(Debug)]
struct PendingCalls(Mutex<Option<HashMap<u64, mpsc::Sender<BridgeMessage>>>>);

/// A response to a call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BridgeMessage {
    /// A part of the standard output, in base64.
    Out(String),
    /// A part of the standard error, in base64.
    Err(String),
    Done(Value),
    Failed {
        why: String,
        /// Tells whether a command may have been run.
        begun: bool,
    },
}

#[derive(Debug, Deserialize)]
struct BridgeResponse {
    id: u64,
    #[serde(flatten)]
    word: BridgeMessage,
}

/// The first message of the program.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BridgeGreeting {
    /// The program is ready; holds the package's version.
    Ready(String),
    /// The package cannot be used; holds the reason.
    Missing(String),
}

impl BridgeConnection {
    /// Starts the program and waits until it is ready. The error says why it is not.
    pub(super) async fn start(launch: Launch) -> Result<Self, String> {
        let running = launch.start().await.map_err(|error| error.to_string())?;
        let mut worker = LineProcess::new(running);
        let version = greeting(&mut worker).await?;
        let Some(input) = worker.take_input() else { return Err("it takes no input".to_owned()) };
        tracing::debug!(version, "Modal's package is ready");
        let (lines, inbox) = mpsc::unbounded_channel();
        let calls = Arc::new(PendingCalls(Mutex::new(Some(HashMap::new()))));
        let group = worker.group();
        spawn_named("words to modal", &Cancel::new(), write(input, inbox));
        spawn_named("words of modal", &Cancel::new(), listen(worker, Arc::clone(&calls)));
        Ok(Self { group, lines, calls, next: AtomicU64::new(1) })
    }

    /// Sends a request; returns `None` if the program has ended.
    pub(super) fn call(&self, mut request: Value) -> Option<BridgeCall> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        request["id"] = json!(id);
        let (sender, words) = mpsc::channel(MOST_WAITING);
        self.calls.lock().as_mut()?.insert(id, sender);
        let call =
            BridgeCall { id, messages: words, lines: self.lines.clone(), calls: Arc::clone(&self.calls) };
        self.lines.send(request.to_string()).ok()?;
        Some(call)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.calls.lock().is_none()
    }

    /// Kills a program that no longer responds.
    pub(super) fn kill(&self) {
        if !self.has_ended() {
            self.group.kill();
        }
    }
}

impl PendingCalls {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, mpsc::Sender<BridgeMessage>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the receiver of a message, and forgets it after the last message of its call.
    fn listener(&self, id: u64, word: &BridgeMessage) -> Option<mpsc::Sender<BridgeMessage>> {
        let mut calls = self.lock();
        match word {
            BridgeMessage::Out(_) | BridgeMessage::Err(_) => calls.as_ref()?.get(&id).cloned(),
            BridgeMessage::Done(_) | BridgeMessage::Failed { .. } => calls.as_mut()?.remove(&id),
        }
    }
}

/// A running request. Dropping it before its end stops the request.
#[derive(Debug)]
pub(super) struct BridgeCall {
    id: u64,
    messages: mpsc::Receiver<BridgeMessage>,
    lines: mpsc::UnboundedSender<String>,
    calls: Arc<PendingCalls>,
}

impl BridgeCall {
    /// Returns the next response; `None` after the last one, or when the program has ended without one.
    pub(super) async fn next(&mut self) -> Option<BridgeMessage> {
        self.messages.recv().await
    }
}

impl Drop for BridgeCall {
    fn drop(&mut self) {
        let waits = self.calls.lock().as_mut().is_some_and(|calls| calls.remove(&self.id).is_some());
        if waits {
            // Nothing has to be stopped if the program has ended meanwhile.
            let _ = self.lines.send(json!({ "act": "stop", "of": self.id }).to_string());
        }
    }
}

async fn greeting(worker: &mut LineProcess) -> Result<String, String> {
    let mut said = String::new();
    loop {
        match worker.read_line().await {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(BridgeGreeting::Ready(version)) => return Ok(version),
                Ok(BridgeGreeting::Missing(why)) => return Err(why),
                Err(_) if said.len() < MOST_SAID => said.push_str(&line),
                Err(_) => {}
            },
            Err(error) if said.is_empty() => return Err(error.to_string()),
            Err(_) => return Err(said.chars().take(MOST_SAID).collect()),
        }
    }
}

/// Writes the lines. Dropping the input at the end is what ends the program.
async fn write(input: Stream, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(line) = lines.recv().await {
        if input.write_all(format!("{line}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn listen(mut worker: LineProcess, calls: Arc<PendingCalls>) {
    let why = loop {
        let line = match worker.read_line().await {
            Ok(line) => line,
            Err(error) => break error,
        };
        match serde_json::from_str::<BridgeResponse>(&line) {
            Ok(BridgeResponse { id, word }) => {
                if let Some(listener) = calls.listener(id, &word) {
                    // A call that was dropped needs no response.
                    let _ = listener.send(word).await;
                }
            }
            Err(error) => tracing::debug!(%error, "Modal's Python said something unexpected"),
        }
    };
    calls.lock().take();
    let code = worker.kill_and_reap().await;
    tracing::debug!(%why, code, "Modal's Python has ended");
}
