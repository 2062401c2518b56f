//! Saying something to a shell by Daytona's one way of running a command line.

use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Clock, random_hex};

use super::api::{Api, Executed};
use crate::remote::{
    CliError, Framed, Frames, Heard, Line, Profile, Speech, base64, bash_fed_with_base64, payload,
};
use crate::run::{Ending, Watch};

/// One argument of a program may not be longer than 128 KiB; what is longer goes into a file first, in pieces.
const LONGEST: usize = 90_000;
/// Past the command's own limit, which is kept over there.
const MARGIN: Duration = Duration::from_secs(10);
const UPLOAD_LIMIT: Duration = Duration::from_secs(30);
/// What `timeout` ends with, after a request and after a kill.
const OUT_OF_TIME: [i32; 2] = [124, 137];

/// The way to a shell in a sandbox.
#[derive(Debug)]
pub(super) struct DaytonaLine<'a> {
    pub(super) api: &'a Api,
    pub(super) id: &'a str,
}

impl Line for DaytonaLine<'_> {
    fn clock(&self) -> &dyn Clock {
        &*self.api.0.clock
    }

    fn speak<'a>(&'a self, speech: Speech<'a>, watch: Watch<'a>) -> BoxFuture<'a, Result<Heard, CliError>> {
        Box::pin(self.say(speech, watch))
    }
}

impl DaytonaLine<'_> {
    async fn say(&self, speech: Speech<'_>, watch: Watch<'_>) -> Result<Heard, CliError> {
        let Watch { limit, cancel, bounds, .. } = watch;
        let text = base64::encode(&payload(speech.script, speech.stdin));
        let mut frames = Frames::new(speech.marks, bounds);
        let source = match self.bring(text, cancel).await {
            Ok(source) => source,
            Err(CliError::Interrupted) => {
                return Ok(Heard { framed: frames.finish(), ending: Ending::Interrupted });
            }
            Err(error) => return Err(error),
        };
        let command = command_line(&source, speech.profile, limit);
        let answer = match self.api.execute(self.id, &command, limit + MARGIN, cancel).await {
            Ok(Executed::Answer { code, result }) => (code, result),
            Ok(Executed::Unknown(why)) => {
                // It may have run: saying so is all that can be done.
                let output = format!(
                    "[Daytona gave no answer ({why}). The command may have run; look before you repeat it.]"
                );
                let framed = Framed { before: String::new(), began: true, output, end: None };
                return Ok(Heard { framed, ending: Ending::Exited(1) });
            }
            Ok(Executed::NotRun(said)) => {
                let framed = Framed { before: said, began: false, output: String::new(), end: None };
                return Ok(Heard { framed, ending: Ending::Exited(1) });
            }
            Err(CliError::Interrupted) => {
                if let Err(error) = self.api.stop(self.id, &Cancel::new()).await {
                    tracing::warn!(%error, "the sandbox could not be stopped");
                }
                return Ok(Heard { framed: frames.finish(), ending: Ending::Interrupted });
            }
            Err(CliError::TimedOut(_)) => {
                return Ok(Heard { framed: frames.finish(), ending: Ending::TimedOut });
            }
            Err(error) => return Err(error),
        };
        frames.push(answer.1.as_bytes());
        let framed = frames.finish();
        // A command may end with such a code by itself; then the shell says the same.
        let own = framed.end.as_ref().map(|end| end.code);
        let late = OUT_OF_TIME.contains(&answer.0) && own != Some(answer.0);
        let ending = if late && framed.began { Ending::TimedOut } else { Ending::Exited(answer.0) };
        Ok(Heard { framed, ending })
    }

    /// What gives the text over there: the text itself, or a file it was brought to.
    async fn bring(&self, text: String, cancel: &Cancel) -> Result<String, CliError> {
        if text.len() <= LONGEST {
            return Ok(format!("printf %s {text}"));
        }
        let file = format!("/tmp/hermes-in-{}", random_hex(12));
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at_checked(LONGEST).unwrap_or((rest, ""));
            let command = format!("sh -c 'umask 077; printf %s {piece} >> {file}'");
            match self.api.execute(self.id, &command, UPLOAD_LIMIT, cancel).await? {
                Executed::Answer { code: 0, .. } => rest = after,
                Executed::Answer { result: why, .. } | Executed::Unknown(why) | Executed::NotRun(why) => {
                    return Err(CliError::Refused(format!("the command could not be brought there: {why}")));
                }
            }
        }
        Ok(format!("cat {file}; rm -f {file}"))
    }
}

/// One pair of single quotes around letters, digits and a few signs that mean nothing within them: however the other side
/// takes a command line apart, it comes to the same. The server's own time limits do not hold; `timeout` does.
fn command_line(source: &str, profile: Profile, limit: Duration) -> String {
    let bash = bash_fed_with_base64(profile);
    format!("timeout -k 2 {} sh -c '{{ {source}; }} | {bash}'", limit.as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_needs_one_pair_of_quotes() {
        let line = command_line("printf %s QQ==", Profile::Skipped, Duration::from_millis(2500));
        assert!(
            line.starts_with(
                "timeout -k 2 2 sh -c '{ printf %s QQ==; } | base64 -d | bash --norc -c \"$(printf %s SUZTP"
            ),
            "{line}"
        );
        assert_eq!(line.matches('\'').count(), 2);
    }
}
