//! Runs scripts in a shell of a Modal sandbox.

use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{BoxFuture, Cancel, Clock};
use serde_json::json;

use super::SharedAccount;
use super::bridge_connection::{BridgeCall, BridgeMessage};
use crate::remote::{
    CliError, FrameParser, FramedOutput, ProfileLoading, ScriptRequest, ScriptResponse, ScriptTransport,
    base64, bash_fed_by_script, end_group_script, payload,
};
use crate::run::{ExitCause, RunContext};

/// The time the output of processes that were left running is still read after the command has ended.
const IDLE: Duration = Duration::from_millis(300);
const END_LIMIT: Duration = Duration::from_secs(8);
/// Limits how many bytes are kept of the standard error before a shell has started.
const MOST_ERRORS: usize = 64 * 1024;

/// The transport to a shell in a sandbox.
#[derive(Debug, Clone)]
pub(super) struct ModalDirectTransport {
    pub(super) account: SharedAccount,
    pub(super) id: String,
}

impl ScriptTransport for ModalDirectTransport {
    fn clock(&self) -> &dyn Clock {
        &*self.account.0.bridge.clock
    }

    fn run_script<'a>(
        &'a self,
        speech: ScriptRequest<'a>,
        watch: RunContext<'a>,
    ) -> BoxFuture<'a, Result<ScriptResponse, CliError>> {
        Box::pin(self.send(speech, watch))
    }
}

/// The reasons why reading is over.
enum ListenEnd {
    Ended(ExitCause),
    /// The request was refused and nothing was run.
    Refused(String),
    /// The outcome is not known: the command may have completed.
    Unknown(String),
}

/// The output of a call that was read so far.
struct CallOutput {
    frames: FrameParser,
    errors: Vec<u8>,
}

impl ModalDirectTransport {
    async fn send(
        &self,
        speech: ScriptRequest<'_>,
        watch: RunContext<'_>,
    ) -> Result<ScriptResponse, CliError> {
        let output = CallOutput { frames: FrameParser::new(speech.marks, watch.bounds), errors: Vec::new() };
        let request = json!({
            "act": "execute",
            "sandbox": self.id,
            "words": bash_fed_by_script(speech.profile),
            "input": base64::encode(&payload(speech.script, speech.stdin)),
        });
        let call = match self.account.0.bridge.call(&request, watch.cancel).await {
            Ok(call) => call,
            Err(CliError::Interrupted) => return Ok(output.finish(ListenEnd::Ended(ExitCause::Interrupted))),
            Err(error) => return Err(error),
        };
        let mut running = RunningCall { transport: self, parts: Some((call, output)) };
        let over = running.listen(watch).await;
        let Some((mut call, mut output)) = running.parts.take() else {
            return Err(CliError::Interrupted);
        };
        match over {
            ListenEnd::Ended(ExitCause::Exited(_)) if output.frames.is_ended() => {
                self.drain(&mut call, &mut output).await;
            }
            // After an interrupt the whole sandbox is ended.
            ListenEnd::Ended(ExitCause::TimedOut) => {
                if let Some(group) = output.frames.group() {
                    self.end_group(group).await;
                }
            }
            _ => {}
        }
        Ok(output.finish(over))
    }

    /// Reads the rest of the output that was already sent.
    async fn drain(&self, call: &mut BridgeCall, output: &mut CallOutput) {
        loop {
            let word = tokio::select! {
                biased;
                word = call.next() => word,
                () = self.clock().sleep(IDLE) => return,
            };
            if output.handle(word).is_some() {
                return;
            }
        }
    }

    /// Ends what a call runs in the sandbox, as soon as its process group is known.
    async fn end_call(&self, mut call: BridgeCall, mut output: CallOutput) {
        let group = async {
            loop {
                if let Some(group) = output.frames.group() {
                    return Some(group);
                }
                if output.handle(call.next().await).is_some() {
                    return None;
                }
            }
        };
        let group = tokio::select! {
            group = group => group,
            () = self.clock().sleep(END_LIMIT) => None,
        };
        if let Some(group) = group {
            self.end_group(group).await;
        }
    }

    async fn end_group(&self, group: u32) {
        let request = json!({
            "act": "execute",
            "sandbox": self.id,
            "words": bash_fed_by_script(ProfileLoading::Skipped),
            "input": base64::encode(&payload(&end_group_script(group), None)),
        });
        let Ok(mut call) = self.account.0.bridge.call(&request, &Cancel::new()).await else { return };
        let done = async { while call.next().await.is_some() {} };
        tokio::select! {
            () = done => {}
            () = self.clock().sleep(END_LIMIT) => tracing::warn!(group, "a process in a sandbox could not be ended"),
        }
    }
}

impl CallOutput {
    /// Handles one message and returns the reason if reading is over.
    fn handle(&mut self, word: Option<BridgeMessage>) -> Option<ListenEnd> {
        match word {
            Some(BridgeMessage::Out(text)) => self.frames.push(&base64::decode(&text).unwrap_or_default()),
            Some(BridgeMessage::Err(text)) => {
                let room = MOST_ERRORS.saturating_sub(self.errors.len());
                self.errors.extend(base64::decode(&text).unwrap_or_default().into_iter().take(room));
            }
            Some(BridgeMessage::Done(answer)) => {
                let code = answer["code"].as_i64().and_then(|code| i32::try_from(code).ok());
                return Some(ListenEnd::Ended(ExitCause::Exited(code.unwrap_or(1))));
            }
            Some(BridgeMessage::Failed { why, begun: false }) => return Some(ListenEnd::Refused(why)),
            Some(BridgeMessage::Failed { why, begun: true }) => return Some(ListenEnd::Unknown(why)),
            None => return Some(ListenEnd::Unknown("the Python that speaks with it has ended".to_owned())),
        }
        None
    }

    fn finish(self, over: ListenEnd) -> ScriptResponse {
        let mut framed = self.frames.finish();
        let ending = match over {
            ListenEnd::Ended(ending) => {
                if !framed.began {
                    // A running shell sends both outputs through one stream; these bytes came instead of a
                    // shell's output.
                    framed.before = joined(framed.before, String::from_utf8_lossy(&self.errors).trim());
                }
                ending
            }
            ListenEnd::Refused(why) => {
                framed = FramedOutput { before: why, began: false, output: String::new(), end: None };
                ExitCause::Exited(1)
            }
            ListenEnd::Unknown(why) => {
                let note = format!(
                    "[Modal gave no answer ({why}). The command may have run; look before you repeat it.]"
                );
                framed = FramedOutput {
                    before: String::new(),
                    began: true,
                    output: joined(framed.output, &note),
                    end: None,
                };
                ExitCause::Exited(1)
            }
        };
        ScriptResponse { framed, exit_cause: ending }
    }
}

fn joined(first: String, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first,
        _ => format!("{}\n{second}", first.trim_end_matches('\n')),
    }
}

/// A call that is being read. If it is dropped before it is over, what it runs in the sandbox is ended.
struct RunningCall<'a> {
    transport: &'a ModalDirectTransport,
    parts: Option<(BridgeCall, CallOutput)>,
}

impl RunningCall<'_> {
    /// Reads until the call is over, its time is up, or it is interrupted.
    async fn listen(&mut self, watch: RunContext<'_>) -> ListenEnd {
        let Some((call, output)) = &mut self.parts else { return ListenEnd::Ended(ExitCause::Interrupted) };
        let mut out_of_time = watch.clock.sleep(watch.limit);
        loop {
            let word = tokio::select! {
                biased;
                () = watch.cancel.cancelled() => return ListenEnd::Ended(ExitCause::Interrupted),
                () = &mut out_of_time => return ListenEnd::Ended(ExitCause::TimedOut),
                word = call.next() => word,
            };
            if let Some(over) = output.handle(word) {
                return over;
            }
            if output.frames.is_ended() {
                return ListenEnd::Ended(ExitCause::Exited(0));
            }
        }
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let Some((call, output)) = self.parts.take() else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            let transport = self.transport.clone();
            spawn_named("end of a dropped call", &Cancel::new(), async move {
                transport.end_call(call, output).await;
            });
        }
    }
}
