//! The helper process of plugins: one Python interpreter that exchanges lines of JSON with Hermes.
//!
//! Requests carry a number, and answers the same; a line without one is a message of a plugin. Invariant: when the
//! process ends, every request that waits gets an error.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_exec::{PipeWriter, PipedLine, PipedProcess};
use hermes_task::{Task, spawn_named};
use hermes_types::{Cancel, Clock};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::error::PluginError;
use crate::plugin_host::PluginMessage;

/// The longest line in either direction, in bytes.
pub(crate) const LONGEST_LINE: usize = 16 * 1024 * 1024;
/// The time the process has to end by itself.
const GRACE: Duration = Duration::from_secs(2);

type Waiting = Mutex<HashMap<u64, oneshot::Sender<Result<Value, PluginError>>>>;

/// A running helper process. It ends when the value is dropped.
pub(crate) struct PluginProcess {
    state: Arc<ProcessState>,
    /// Dropping it closes the input, at which the process ends by itself.
    writer: Option<PipeWriter>,
    next: AtomicU64,
    clock: Arc<dyn Clock>,
    cancel: Cancel,
    reader: Option<Task<()>>,
}

#[derive(Default)]
struct ProcessState {
    waiting: Waiting,
    ended: AtomicBool,
}

impl ProcessState {
    /// Lets every request that waits fail.
    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        for (_, waiting) in self.waiting.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            // The caller may have stopped waiting.
            let _ = waiting.send(Err(ended()));
        }
    }

    fn answer(&self, id: u64, answer: Result<Value, PluginError>) {
        if let Some(waiting) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id) {
            // The caller may have stopped waiting.
            let _ = waiting.send(answer);
        }
    }
}

impl PluginProcess {
    /// Takes over a process that was just started.
    pub(crate) fn new(
        mut process: PipedProcess,
        messages: UnboundedSender<PluginMessage>,
        clock: Arc<dyn Clock>,
    ) -> Option<Self> {
        let writer = process.take_input()?;
        let state = Arc::new(ProcessState::default());
        let cancel = Cancel::new();
        let reading = read(process, state.clone(), messages, clock.clone(), cancel.clone());
        // The reader ends the process in order when it is cancelled; it is not dropped in between.
        let reader = spawn_named("plugins", &Cancel::new(), reading);
        Some(Self {
            state,
            writer: Some(writer),
            next: AtomicU64::new(1),
            clock,
            cancel,
            reader: Some(reader),
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.ended.load(Ordering::SeqCst)
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, PluginError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.state.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let line = json!({"id": id, "method": method, "params": params}).to_string();
        let exchange = async {
            let Some(writer) = self.writer.as_ref().filter(|_| !self.has_ended()) else {
                return Err(ended());
            };
            if writer.write_line(line.as_bytes()).await.is_err() {
                return Err(ended());
            }
            answer.await.unwrap_or_else(|_| Err(ended()))
        };
        let answered = tokio::select! {
            answer = exchange => answer,
            () = self.clock.sleep(limit) => Err(PluginError::TimedOut(limit.as_secs())),
        };
        self.state.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        answered
    }

    /// Ends the process.
    pub(crate) async fn stop(mut self) {
        self.writer = None;
        self.cancel.cancel();
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has dropped, and with it ended, the process.
            let _ = reader.await;
        }
    }
}

impl Drop for PluginProcess {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn ended() -> PluginError {
    PluginError::Unavailable("the helper process of the plugins has ended".to_owned())
}

async fn read(
    mut process: PipedProcess,
    state: Arc<ProcessState>,
    messages: UnboundedSender<PluginMessage>,
    clock: Arc<dyn Clock>,
    cancel: Cancel,
) {
    loop {
        let line = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            line = process.next_line() => line,
        };
        match line {
            Ok(Some(PipedLine::Output(line))) => handle_line(&line, &state, &messages),
            Ok(Some(PipedLine::Stderr(line))) => tracing::info!(target: "plugins", "{line}"),
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "the helper process of the plugins cannot be read");
                break;
            }
        }
    }
    state.end();
    process.stop(GRACE, &*clock).await;
}

fn handle_line(line: &[u8], state: &ProcessState, messages: &UnboundedSender<PluginMessage>) {
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        tracing::warn!("the helper process of the plugins wrote a line that is not JSON");
        return;
    };
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    match value.get("id").and_then(Value::as_u64) {
        Some(id) => match text("error") {
            Some(reason) => state.answer(id, Err(PluginError::Failed(reason))),
            None => state.answer(id, Ok(value.get("result").cloned().unwrap_or(Value::Null))),
        },
        None => {
            if let (Some("inject"), Some(text), Some(plugin)) =
                (value.get("method").and_then(Value::as_str), text("text"), text("plugin"))
            {
                // Nobody reads them any more when the program ends.
                let _ = messages.send(PluginMessage { plugin, text });
            }
        }
    }
}
