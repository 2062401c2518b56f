//! Runs scripts in a shell of a sandbox, each as a command line of the gateway.

use std::time::Duration;

use hermes_net::Method;
use hermes_types::{BoxFuture, Cancel, Clock, random_hex};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::remote::service::{ASK_LIMIT, HttpService};
use crate::remote::{
    CliError, FrameParser, FramedOutput, ScriptRequest, ScriptResponse, ScriptTransport, base64,
    bash_fed_with_base64, payload,
};
use crate::run::{ExitCause, RunContext};

const PAUSE: Duration = Duration::from_millis(250);
/// The time to wait beyond the command's own limit, which the gateway enforces.
const MARGIN: Duration = Duration::from_secs(10);

/// The transport to a shell in a sandbox.
#[derive(Debug)]
pub(super) struct ModalGatewayTransport<'a> {
    pub(super) service: &'a HttpService,
    pub(super) id: &'a str,
}

#[derive(Debug, Default, Deserialize)]
struct ExecStatus {
    #[serde(default)]
    status: String,
    #[serde(default)]
    output: String,
    #[serde(default)]
    returncode: Option<i32>,
}

/// The ways in which a command line can end.
#[derive(Debug)]
enum ExecEnd {
    Done(ExecStatus),
    TimedOut(String),
    Cancelled,
    /// The outcome is not known: the line may have been run.
    Unknown(String),
}

impl ScriptTransport for ModalGatewayTransport<'_> {
    fn clock(&self) -> &dyn Clock {
        &*self.service.clock
    }

    fn run_script<'a>(
        &'a self,
        request: ScriptRequest<'a>,
        watch: RunContext<'a>,
    ) -> BoxFuture<'a, Result<ScriptResponse, CliError>> {
        Box::pin(self.send(request, watch))
    }
}

impl ModalGatewayTransport<'_> {
    async fn send(
        &self,
        request: ScriptRequest<'_>,
        watch: RunContext<'_>,
    ) -> Result<ScriptResponse, CliError> {
        let mut frames = FrameParser::new(request.marks, watch.bounds);
        let exec = random_hex(32);
        let body = json!({
            "execId": exec,
            "command": bash_fed_with_base64(request.profile),
            "cwd": "/",
            "timeoutMs": watch.limit.as_millis(),
            "stdinData": base64::encode(&payload(request.script, request.stdin)),
        });
        let path = ["v1", "sandboxes", self.id, "execs"];
        match self.service.create::<Value>(&path, &body, None, ASK_LIMIT, watch.cancel).await {
            Ok(_) => {}
            Err(CliError::Interrupted) => {
                self.cancel(&exec).await;
                return Ok(ScriptResponse { framed: frames.finish(), exit_cause: ExitCause::Interrupted });
            }
            // The gateway refuses a line for a sandbox that is gone before anything is done.
            Err(error) => {
                let framed = FramedOutput {
                    before: error.to_string(),
                    began: false,
                    output: String::new(),
                    end: None,
                };
                return Ok(ScriptResponse { framed, exit_cause: ExitCause::Exited(1) });
            }
        }
        let (heard, ending) = match self.until_ended(&exec, watch).await {
            ExecEnd::Done(done) => (done.output, ExitCause::Exited(done.returncode.unwrap_or(1))),
            ExecEnd::TimedOut(output) => (output, ExitCause::TimedOut),
            ExecEnd::Cancelled => (String::new(), ExitCause::Interrupted),
            ExecEnd::Unknown(why) => {
                let output = format!(
                    "[The Modal gateway gave no answer ({why}). The command may have run; look before you repeat it.]"
                );
                let framed = FramedOutput { before: String::new(), began: true, output, end: None };
                return Ok(ScriptResponse { framed, exit_cause: ExitCause::Exited(1) });
            }
        };
        frames.push(heard.as_bytes());
        Ok(ScriptResponse { framed: frames.finish(), exit_cause: ending })
    }

    async fn until_ended(&self, exec: &str, watch: RunContext<'_>) -> ExecEnd {
        let end = self.service.clock.monotonic() + watch.limit + MARGIN;
        let path = ["v1", "sandboxes", self.id, "execs", exec];
        loop {
            match self.service.get::<ExecStatus>(&path, None, watch.cancel).await {
                Ok(Some(found)) => match found.status.as_str() {
                    "completed" | "failed" => return ExecEnd::Done(found),
                    "timeout" => return ExecEnd::TimedOut(found.output),
                    "cancelled" => return ExecEnd::Cancelled,
                    _ if self.service.clock.monotonic() > end => {
                        self.cancel(exec).await;
                        return ExecEnd::TimedOut(found.output);
                    }
                    _ => {}
                },
                Ok(None) => return ExecEnd::Unknown("it does not know the command any more".to_owned()),
                Err(CliError::Interrupted) => {
                    self.cancel(exec).await;
                    return ExecEnd::Cancelled;
                }
                Err(error) if self.service.clock.monotonic() > end => {
                    return ExecEnd::Unknown(error.to_string());
                }
                // A poll that failed is repeated.
                Err(error) => tracing::debug!(%error, "the gateway gave no answer"),
            }
            tokio::select! {
                biased;
                () = watch.cancel.cancelled() => {
                    self.cancel(exec).await;
                    return ExecEnd::Cancelled;
                }
                () = self.service.clock.sleep(PAUSE) => {}
            }
        }
    }

    async fn cancel(&self, exec: &str) {
        let path = ["v1", "sandboxes", self.id, "execs", exec, "cancel"];
        if let Err(error) = self.service.request_action(Method::POST, &path, None, &Cancel::new()).await {
            tracing::warn!(%error, "a command could not be ended");
        }
    }
}
