//! Saying something to a shell in a sandbox.

use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{BoxFuture, Cancel, Clock};
use serde_json::json;

use super::Account;
use super::talk::{Call, Word};
use crate::remote::{
    CliError, Framed, Frames, Heard, Line, Profile, Speech, base64, bash_fed_by_script, end_group, payload,
};
use crate::run::{Ending, Watch};

/// How long something left running is still listened to after the end of the command.
const IDLE: Duration = Duration::from_millis(300);
const END_LIMIT: Duration = Duration::from_secs(8);
/// Of what is complained about before a shell begins.
const MOST_ERRORS: usize = 64 * 1024;

/// The way to a shell in a sandbox.
#[derive(Debug, Clone)]
pub(super) struct DirectLine {
    pub(super) account: Account,
    pub(super) id: String,
}

impl Line for DirectLine {
    fn clock(&self) -> &dyn Clock {
        &*self.account.0.envoy.clock
    }

    fn speak<'a>(&'a self, speech: Speech<'a>, watch: Watch<'a>) -> BoxFuture<'a, Result<Heard, CliError>> {
        Box::pin(self.say(speech, watch))
    }
}

/// Why listening is over.
enum Over {
    Ended(Ending),
    /// Nothing was run.
    Refused(String),
    /// Nobody can say whether it ran to its end.
    Unknown(String),
}

/// What is heard of a call.
struct Ear {
    frames: Frames,
    errors: Vec<u8>,
}

impl DirectLine {
    async fn say(&self, speech: Speech<'_>, watch: Watch<'_>) -> Result<Heard, CliError> {
        let mut ear = Ear { frames: Frames::new(speech.marks, watch.bounds), errors: Vec::new() };
        let request = json!({
            "act": "execute",
            "sandbox": self.id,
            "words": bash_fed_by_script(speech.profile),
            "input": base64::encode(&payload(speech.script, speech.stdin)),
        });
        let mut call = match self.account.0.envoy.call(&request, watch.cancel).await {
            Ok(call) => call,
            Err(CliError::Interrupted) => return Ok(ear.finish(Over::Ended(Ending::Interrupted))),
            Err(error) => return Err(error),
        };
        let mut leash = Leash { line: self, group: None };
        let over = self.listen(&mut call, &mut ear, &mut leash, watch).await;
        let group = leash.group.take();
        match over {
            Over::Ended(Ending::Exited(_)) if ear.frames.is_ended() => self.drain(&mut call, &mut ear).await,
            // After an interrupt the sandbox is ended as a whole.
            Over::Ended(Ending::TimedOut) => {
                if let Some(group) = group {
                    self.end_group(group).await;
                }
            }
            _ => {}
        }
        Ok(ear.finish(over))
    }

    async fn listen(&self, call: &mut Call, ear: &mut Ear, leash: &mut Leash<'_>, watch: Watch<'_>) -> Over {
        let mut out_of_time = watch.clock.sleep(watch.limit);
        loop {
            let word = tokio::select! {
                biased;
                () = watch.cancel.cancelled() => return Over::Ended(Ending::Interrupted),
                () = &mut out_of_time => return Over::Ended(Ending::TimedOut),
                word = call.next() => word,
            };
            if let Some(over) = ear.hear(word) {
                return over;
            }
            leash.group = ear.frames.group();
            if ear.frames.is_ended() {
                return Over::Ended(Ending::Exited(0));
            }
        }
    }

    /// Hears the rest of what was said already.
    async fn drain(&self, call: &mut Call, ear: &mut Ear) {
        loop {
            let word = tokio::select! {
                biased;
                word = call.next() => word,
                () = self.clock().sleep(IDLE) => return,
            };
            if ear.hear(word).is_some() {
                return;
            }
        }
    }

    async fn end_group(&self, group: u32) {
        let request = json!({
            "act": "execute",
            "sandbox": self.id,
            "words": bash_fed_by_script(Profile::Skipped),
            "input": base64::encode(&payload(&end_group(group), None)),
        });
        let Ok(mut call) = self.account.0.envoy.call(&request, &Cancel::new()).await else { return };
        let done = async { while call.next().await.is_some() {} };
        tokio::select! {
            () = done => {}
            () = self.clock().sleep(END_LIMIT) => tracing::warn!(group, "a process in a sandbox could not be ended"),
        }
    }
}

impl Ear {
    /// Whether that was all.
    fn hear(&mut self, word: Option<Word>) -> Option<Over> {
        match word {
            Some(Word::Out(text)) => self.frames.push(&base64::decode(&text).unwrap_or_default()),
            Some(Word::Err(text)) => {
                let room = MOST_ERRORS.saturating_sub(self.errors.len());
                self.errors.extend(base64::decode(&text).unwrap_or_default().into_iter().take(room));
            }
            Some(Word::Done(answer)) => {
                let code = answer["code"].as_i64().and_then(|code| i32::try_from(code).ok());
                return Some(Over::Ended(Ending::Exited(code.unwrap_or(1))));
            }
            Some(Word::Failed { why, begun: false }) => return Some(Over::Refused(why)),
            Some(Word::Failed { why, begun: true }) => return Some(Over::Unknown(why)),
            None => return Some(Over::Unknown("the Python that speaks with it has ended".to_owned())),
        }
        None
    }

    fn finish(self, over: Over) -> Heard {
        let mut framed = self.frames.finish();
        let ending = match over {
            Over::Ended(ending) => {
                if !framed.began {
                    // A shell that runs sends both the same way; this is what came instead of one.
                    framed.before = joined(framed.before, String::from_utf8_lossy(&self.errors).trim());
                }
                ending
            }
            Over::Refused(why) => {
                framed = Framed { before: why, began: false, output: String::new(), end: None };
                Ending::Exited(1)
            }
            Over::Unknown(why) => {
                let note = format!(
                    "[Modal gave no answer ({why}). The command may have run; look before you repeat it.]"
                );
                framed = Framed {
                    before: String::new(),
                    began: true,
                    output: joined(framed.output, &note),
                    end: None,
                };
                Ending::Exited(1)
            }
        };
        Heard { framed, ending }
    }
}

fn joined(first: String, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first,
        _ => format!("{}\n{second}", first.trim_end_matches('\n')),
    }
}

/// Ends the group over there if the call is dropped before it is over.
struct Leash<'a> {
    line: &'a DirectLine,
    group: Option<u32>,
}

impl Drop for Leash<'_> {
    fn drop(&mut self) {
        let Some(group) = self.group.take() else { return };
        if tokio::runtime::Handle::try_current().is_ok() {
            let line = self.line.clone();
            spawn_named(format!("end {group}"), &Cancel::new(), async move { line.end_group(group).await });
        }
    }
}
