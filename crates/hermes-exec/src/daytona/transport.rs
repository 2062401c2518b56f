//! Runs scripts in a shell of a Daytona sandbox, each as one command line.

use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Clock, random_hex};

use super::api::{DaytonaApi, DaytonaExecution};
use crate::remote::{
    CliError, FrameParser, FramedOutput, ProfileLoading, ScriptRequest, ScriptResponse, ScriptTransport,
    base64, bash_fed_with_base64, payload,
};
use crate::run::{ExitCause, RunContext};

/// The longest script that travels inside the line: one argument of a program may not be longer than 128 KiB.
/// A longer script is first uploaded to a file, in pieces.
const LONGEST: usize = 90_000;
/// The time to wait beyond the command's own limit, which is enforced in the sandbox.
const MARGIN: Duration = Duration::from_secs(10);
const UPLOAD_LIMIT: Duration = Duration::from_secs(30);
/// The exit codes of `timeout`, after a termination request and after a kill.
const OUT_OF_TIME: [i32; 2] = [124, 137];

/// The transport to a shell in a sandbox.
#[derive(Debug)]
pub(super) struct DaytonaTransport<'a> {
    pub(super) api: &'a DaytonaApi,
    pub(super) id: &'a str,
}

impl ScriptTransport for DaytonaTransport<'_> {
    fn clock(&self) -> &dyn Clock {
        &*self.api.0.clock
    }

    fn run_script<'a>(
        &'a self,
        request: ScriptRequest<'a>,
        watch: RunContext<'a>,
    ) -> BoxFuture<'a, Result<ScriptResponse, CliError>> {
        Box::pin(self.send(request, watch))
    }
}

impl DaytonaTransport<'_> {
    async fn send(
        &self,
        request: ScriptRequest<'_>,
        watch: RunContext<'_>,
    ) -> Result<ScriptResponse, CliError> {
        let RunContext { limit, cancel, bounds, .. } = watch;
        let text = base64::encode(&payload(request.script, request.stdin));
        let mut frames = FrameParser::new(request.marks, bounds);
        let source = match self.upload(text, cancel).await {
            Ok(source) => source,
            Err(CliError::Interrupted) => {
                return Ok(ScriptResponse { framed: frames.finish(), exit_cause: ExitCause::Interrupted });
            }
            Err(error) => return Err(error),
        };
        let command = command_line(&source, request.profile, limit);
        let answer = match self.api.execute(self.id, &command, limit + MARGIN, cancel).await {
            Ok(DaytonaExecution::Answer { code, result }) => (code, result),
            Ok(DaytonaExecution::Unknown(why)) => {
                // The command may have run, and the caller can only be told so.
                let output = format!(
                    "[Daytona gave no answer ({why}). The command may have run; look before you repeat it.]"
                );
                let framed = FramedOutput { before: String::new(), began: true, output, end: None };
                return Ok(ScriptResponse { framed, exit_cause: ExitCause::Exited(1) });
            }
            Ok(DaytonaExecution::NotRun(said)) => {
                let framed = FramedOutput { before: said, began: false, output: String::new(), end: None };
                return Ok(ScriptResponse { framed, exit_cause: ExitCause::Exited(1) });
            }
            Err(CliError::Interrupted) => {
                if let Err(error) = self.api.stop(self.id, &Cancel::new()).await {
                    tracing::warn!(%error, "the sandbox could not be stopped");
                }
                return Ok(ScriptResponse { framed: frames.finish(), exit_cause: ExitCause::Interrupted });
            }
            Err(CliError::TimedOut(_)) => {
                return Ok(ScriptResponse { framed: frames.finish(), exit_cause: ExitCause::TimedOut });
            }
            Err(error) => return Err(error),
        };
        frames.push(answer.1.as_bytes());
        let framed = frames.finish();
        // A command may end with such a code by itself; then the shell reports the same code.
        let own = framed.end.as_ref().map(|end| end.code);
        let late = OUT_OF_TIME.contains(&answer.0) && own != Some(answer.0);
        let ending = if late && framed.began { ExitCause::TimedOut } else { ExitCause::Exited(answer.0) };
        Ok(ScriptResponse { framed, exit_cause: ending })
    }

    /// Returns a shell expression that yields the text in the sandbox: the text itself, or a file to which it
    /// was uploaded.
    async fn upload(&self, text: String, cancel: &Cancel) -> Result<String, CliError> {
        if text.len() <= LONGEST {
            return Ok(format!("printf %s {text}"));
        }
        let file = format!("/tmp/hermes-in-{}", random_hex(12));
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at_checked(LONGEST).unwrap_or((rest, ""));
            let command = format!("sh -c 'umask 077; printf %s {piece} >> {file}'");
            match self.api.execute(self.id, &command, UPLOAD_LIMIT, cancel).await? {
                DaytonaExecution::Answer { code: 0, .. } => rest = after,
                DaytonaExecution::Answer { result: why, .. }
                | DaytonaExecution::Unknown(why)
                | DaytonaExecution::NotRun(why) => {
                    return Err(CliError::Refused(format!("the command could not be brought there: {why}")));
                }
            }
        }
        Ok(format!("cat {file}; rm -f {file}"))
    }
}

/// Returns the command line. It has one pair of single quotes around letters, digits and a few characters
/// without special meaning within them, so every way to split a command line has the same result. The
/// server's own time limits have no effect; `timeout` does.
fn command_line(source: &str, profile: ProfileLoading, limit: Duration) -> String {
    let bash = bash_fed_with_base64(profile);
    format!("timeout -k 2 {} sh -c '{{ {source}; }} | {bash}'", limit.as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_needs_one_pair_of_quotes() {
        let line = command_line("printf %s QQ==", ProfileLoading::Skipped, Duration::from_millis(2500));
        assert!(
            line.starts_with(
                "timeout -k 2 2 sh -c '{ printf %s QQ==; } | base64 -d | bash --norc -c \"$(printf %s SUZTP"
            ),
            "{line}"
        );
        assert_eq!(line.matches('\'').count(), 2);
    }
}
