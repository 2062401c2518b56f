//! Saying something to a shell by the gateway's command lines.

use std::time::Duration;

use hermes_net::Method;
use hermes_types::{BoxFuture, Cancel, Clock, random_hex};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::remote::service::{ASK_LIMIT, Service};
use crate::remote::{CliError, Framed, Frames, Heard, Line, Speech, base64, bash_fed_with_base64, payload};
use crate::run::{Ending, Watch};

const PAUSE: Duration = Duration::from_millis(250);
/// Past the command's own limit, which the gateway keeps.
const MARGIN: Duration = Duration::from_secs(10);

/// The way to a shell in a sandbox.
#[derive(Debug)]
pub(super) struct ModalLine<'a> {
    pub(super) service: &'a Service,
    pub(super) id: &'a str,
}

#[derive(Debug, Default, Deserialize)]
struct Exec {
    #[serde(default)]
    status: String,
    #[serde(default)]
    output: String,
    #[serde(default)]
    returncode: Option<i32>,
}

/// How a command line ended.
#[derive(Debug)]
enum Ended {
    Done(Exec),
    TimedOut(String),
    Cancelled,
    /// Nobody can say whether it ran.
    Unknown(String),
}

impl Line for ModalLine<'_> {
    fn clock(&self) -> &dyn Clock {
        &*self.service.clock
    }

    fn speak<'a>(&'a self, speech: Speech<'a>, watch: Watch<'a>) -> BoxFuture<'a, Result<Heard, CliError>> {
        Box::pin(self.say(speech, watch))
    }
}

impl ModalLine<'_> {
    async fn say(&self, speech: Speech<'_>, watch: Watch<'_>) -> Result<Heard, CliError> {
        let mut frames = Frames::new(speech.marks, watch.bounds);
        let exec = random_hex(32);
        let body = json!({
            "execId": exec,
            "command": bash_fed_with_base64(speech.profile),
            "cwd": "/",
            "timeoutMs": watch.limit.as_millis(),
            "stdinData": base64::encode(&payload(speech.script, speech.stdin)),
        });
        let path = ["v1", "sandboxes", self.id, "execs"];
        match self.service.make::<Value>(&path, &body, None, ASK_LIMIT, watch.cancel).await {
            Ok(_) => {}
            Err(CliError::Interrupted) => {
                self.cancel(&exec).await;
                return Ok(Heard { framed: frames.finish(), ending: Ending::Interrupted });
            }
            // A sandbox that is gone is refused before anything is done.
            Err(error) => {
                let framed =
                    Framed { before: error.to_string(), began: false, output: String::new(), end: None };
                return Ok(Heard { framed, ending: Ending::Exited(1) });
            }
        }
        let (heard, ending) = match self.until_ended(&exec, watch).await {
            Ended::Done(done) => (done.output, Ending::Exited(done.returncode.unwrap_or(1))),
            Ended::TimedOut(output) => (output, Ending::TimedOut),
            Ended::Cancelled => (String::new(), Ending::Interrupted),
            Ended::Unknown(why) => {
                let output = format!(
                    "[The Modal gateway gave no answer ({why}). The command may have run; look before you repeat it.]"
                );
                let framed = Framed { before: String::new(), began: true, output, end: None };
                return Ok(Heard { framed, ending: Ending::Exited(1) });
            }
        };
        frames.push(heard.as_bytes());
        Ok(Heard { framed: frames.finish(), ending })
    }

    async fn until_ended(&self, exec: &str, watch: Watch<'_>) -> Ended {
        let end = self.service.clock.monotonic() + watch.limit + MARGIN;
        let path = ["v1", "sandboxes", self.id, "execs", exec];
        loop {
            match self.service.get::<Exec>(&path, None, watch.cancel).await {
                Ok(Some(found)) => match found.status.as_str() {
                    "completed" | "failed" => return Ended::Done(found),
                    "timeout" => return Ended::TimedOut(found.output),
                    "cancelled" => return Ended::Cancelled,
                    _ if self.service.clock.monotonic() > end => {
                        self.cancel(exec).await;
                        return Ended::TimedOut(found.output);
                    }
                    _ => {}
                },
                Ok(None) => return Ended::Unknown("it does not know the command any more".to_owned()),
                Err(CliError::Interrupted) => {
                    self.cancel(exec).await;
                    return Ended::Cancelled;
                }
                Err(error) if self.service.clock.monotonic() > end => {
                    return Ended::Unknown(error.to_string());
                }
                // A question that got lost is asked again.
                Err(error) => tracing::debug!(%error, "the gateway gave no answer"),
            }
            tokio::select! {
                biased;
                () = watch.cancel.cancelled() => {
                    self.cancel(exec).await;
                    return Ended::Cancelled;
                }
                () = self.service.clock.sleep(PAUSE) => {}
            }
        }
    }

    async fn cancel(&self, exec: &str) {
        let path = ["v1", "sandboxes", self.id, "execs", exec, "cancel"];
        if let Err(error) = self.service.order(Method::POST, &path, None, &Cancel::new()).await {
            tracing::warn!(%error, "a command could not be ended");
        }
    }
}
