//! A Python program that gives Hermes access to Modal's own package.
//!
//! Modal publishes its interface only as that package, so a small script of Hermes uses it. One program with
//! that script serves all sandboxes. It is started when it is needed, started again when it has ended, and
//! released when no sandbox is left. The account's tokens reach it only as variables.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, Clock};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::bridge_connection::{BridgeCall, BridgeConnection, BridgeMessage};
use crate::child::{Launch, Lifetime, StdioMode};
use crate::group::KillScope;
use crate::remote::{CliError, lock_unless_cancelled};
use crate::variables::Variables;

const SCRIPT: &str = include_str!("envoy.py");
/// The time the program has to start, because the package is large and a machine may be slow.
const START_LIMIT: Duration = Duration::from_mins(1);
/// The time to wait beyond a request's own limit, which the program enforces; a program that does not respond
/// by then is killed.
const MARGIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct PythonBridge {
    /// The paths of Python interpreters that may have the package.
    pub(super) pythons: Vec<PathBuf>,
    pub(super) variables: Variables,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) state: Mutex<BridgeState>,
}

/// The state of the program. Its lock is held while the program is started, so that only one is.
#[derive(Debug, Default)]
pub(super) struct BridgeState {
    connection: Option<Arc<BridgeConnection>>,
    /// The number of sandboxes that exist or are being created.
    sandboxes: usize,
}

impl PythonBridge {
    /// Checks that the program can be started.
    pub(super) async fn check(&self, cancel: &Cancel) -> Result<(), CliError> {
        let mut present = self.lock_state(cancel).await?;
        self.connection(&mut present, cancel).await.map(|_| ())
    }

    /// Counts a sandbox that is going to be created.
    pub(super) async fn expect_sandbox(&self, cancel: &Cancel) -> Result<(), CliError> {
        self.lock_state(cancel).await?.sandboxes += 1;
        Ok(())
    }

    /// Uncounts a sandbox that is gone, and releases the program with the last one.
    pub(super) async fn forget_sandbox(&self) {
        let mut present = self.state.lock().await;
        present.sandboxes = present.sandboxes.saturating_sub(1);
        if present.sandboxes == 0 {
            present.connection = None;
        }
    }

    /// Sends a request and waits for its result within its limit.
    pub(super) async fn ask<T: for<'a> Deserialize<'a>>(
        &self,
        mut request: Value,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<T, CliError> {
        request["limit"] = json!(limit.as_secs());
        let (talk, mut call) = self.open(&request, cancel).await?;
        let word = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(CliError::Interrupted),
            () = self.clock.sleep(limit + MARGIN) => {
                tracing::warn!("Modal's Python does not answer; it is ended");
                talk.kill();
                return Err(CliError::TimedOut(limit + MARGIN));
            }
            word = call.next() => word,
        };
        match word {
            Some(BridgeMessage::Done(answer)) => serde_json::from_value(answer).map_err(|error| {
                CliError::Refused(format!("unexpected response from Modal's Python: {error}"))
            }),
            Some(BridgeMessage::Failed { why, .. }) => Err(CliError::Refused(why)),
            Some(BridgeMessage::Out(_) | BridgeMessage::Err(_)) | None => {
                Err(CliError::Refused("Modal's Python has ended".to_owned()))
            }
        }
    }

    /// Sends a request and returns the running call.
    pub(super) async fn call(&self, request: &Value, cancel: &Cancel) -> Result<BridgeCall, CliError> {
        self.open(request, cancel).await.map(|(_, call)| call)
    }

    async fn open(
        &self,
        request: &Value,
        cancel: &Cancel,
    ) -> Result<(Arc<BridgeConnection>, BridgeCall), CliError> {
        let mut present = self.lock_state(cancel).await?;
        let talk = self.connection(&mut present, cancel).await?;
        let call = talk.call(request.clone());
        call.map(|call| (talk, call)).ok_or_else(|| CliError::Refused("Modal's Python has ended".to_owned()))
    }

    async fn lock_state(
        &self,
        cancel: &Cancel,
    ) -> Result<tokio::sync::MutexGuard<'_, BridgeState>, CliError> {
        lock_unless_cancelled(&self.state, cancel).await.ok_or(CliError::Interrupted)
    }

    /// Returns the connection to the program, which is started if it is not running.
    async fn connection(
        &self,
        present: &mut BridgeState,
        cancel: &Cancel,
    ) -> Result<Arc<BridgeConnection>, CliError> {
        if let Some(talk) = &present.connection {
            if !talk.has_ended() {
                return Ok(Arc::clone(talk));
            }
            tracing::warn!("Modal's Python had ended by itself; it is started again");
        }
        let talk = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(CliError::Interrupted),
            talk = self.start() => Arc::new(talk?),
        };
        present.connection = Some(Arc::clone(&talk));
        Ok(talk)
    }

    async fn start(&self) -> Result<BridgeConnection, CliError> {
        let mut tried = Vec::new();
        for python in &self.pythons {
            let started = tokio::select! {
                started = BridgeConnection::start(self.launch(python.clone())) => started,
                () = self.clock.sleep(START_LIMIT) => Err(format!("not ready within {} s", START_LIMIT.as_secs())),
            };
            match started {
                Ok(talk) => return Ok(talk),
                Err(why) => tried.push(format!("{} ({why})", python.display())),
            }
        }
        let tried = if tried.is_empty() {
            "no Python was found".to_owned()
        } else {
            format!("tried {}", tried.join(", "))
        };
        Err(CliError::Refused(format!(
            "no Python has Modal's package: {tried}. Install it with `pip install modal`, or name a Python that has it in \
             code_execution.python"
        )))
    }

    /// Describes the start of the program. It is not bound to Hermes: when Hermes is killed, the program
    /// still has sandboxes to terminate, and it ends with its input.
    fn launch(&self, python: PathBuf) -> Launch {
        Launch {
            program: python,
            arguments: vec!["-c".into(), SCRIPT.into()],
            variables: self.variables.pairs(),
            directory: PathBuf::from("/"),
            lifetime: Lifetime::Detached,
            scope: KillScope::Group,
            stdio: StdioMode::InputAndOutput,
            sandbox: None,
        }
    }
}
