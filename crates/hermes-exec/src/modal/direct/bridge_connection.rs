//! A Python program that speaks with Modal, while it runs, and the calls that are made of it.
//!
//! Calls go on beside each other; each hears its own answers. The program ends when nobody holds the talk or a call any more,
//! because its input ends then, and it does so in its own time: it has sandboxes to terminate.

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

/// So many answers of a call may wait for it; then nothing more is read.
const MOST_WAITING: usize = 64;
/// Of what a program says that cannot even begin.
const MOST_SAID: usize = 1000;

#[derive(Debug)]
pub(super) struct BridgeConnection {
    group: ProcessGroup,
    lines: mpsc::UnboundedSender<String>,
    calls: Arc<PendingCalls>,
    next: AtomicU64,
}

/// Who waits for which answers; none once the program has ended.
#[derive(Debug)]
struct PendingCalls(Mutex<Option<HashMap<u64, mpsc::Sender<BridgeMessage>>>>);

/// Something said in answer to a call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BridgeMessage {
    /// A piece of output, in base64.
    Out(String),
    /// A piece of what was complained about, in base64.
    Err(String),
    Done(Value),
    Failed {
        why: String,
        /// Whether a command may have been run.
        begun: bool,
    },
}

#[derive(Debug, Deserialize)]
struct BridgeResponse {
    id: u64,
    #[serde(flatten)]
    word: BridgeMessage,
}

/// The first thing it says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BridgeGreeting {
    /// The package's version.
    Ready(String),
    /// Why the package cannot be used.
    Missing(String),
}

impl BridgeConnection {
    /// Starts the program and waits until it is ready; otherwise says why it is not.
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

    /// Makes a request; none if the program has ended.
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

    /// Ends one that does not answer any more.
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

    /// Who hears this; nobody any more after a last word.
    fn listener(&self, id: u64, word: &BridgeMessage) -> Option<mpsc::Sender<BridgeMessage>> {
        let mut calls = self.lock();
        match word {
            BridgeMessage::Out(_) | BridgeMessage::Err(_) => calls.as_ref()?.get(&id).cloned(),
            BridgeMessage::Done(_) | BridgeMessage::Failed { .. } => calls.as_mut()?.remove(&id),
        }
    }
}

/// A request under way. Dropping it before its end stops it.
#[derive(Debug)]
pub(super) struct BridgeCall {
    id: u64,
    messages: mpsc::Receiver<BridgeMessage>,
    lines: mpsc::UnboundedSender<String>,
    calls: Arc<PendingCalls>,
}

impl BridgeCall {
    /// What is said next; nothing more after the last word, or when the program has ended without one.
    pub(super) async fn next(&mut self) -> Option<BridgeMessage> {
        self.messages.recv().await
    }
}

impl Drop for BridgeCall {
    fn drop(&mut self) {
        let waits = self.calls.lock().as_mut().is_some_and(|calls| calls.remove(&self.id).is_some());
        if waits {
            // There is nobody to stop it when the program has ended meanwhile.
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

/// Dropping the input at the end is what ends the program.
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
                    // Who does not wait any more need not hear it.
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
