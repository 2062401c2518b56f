//! A shell over there as a task sees it: `cd` and `export` last from call to call.
//!
//! One login shell is asked once for its dump; each call starts a bare bash that reads it, and renews the exports when it
//! ends. The folder comes back with the mark at the end. Which client leads there, and what to do when it does not get
//! through, is the caller's business.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_types::{Cancel, Command, Finished, RunError, random_hex};

use super::cli::{CliError, Profile};
use super::converse::{Heard, Line, Speech};
use super::script::{self, Call, Input, Marks, Start};
use super::{Forwarded, INTERRUPTED, INTERRUPTED_NOTE, TIMED_OUT, lock_unless};
use crate::capture::Bounds;
use crate::run::{Ending, Watch};

/// A login shell that takes longer is not waited for.
const LOGIN_LIMIT: Duration = Duration::from_secs(15);
const CLEAN_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct RemoteShell {
    bounds: Bounds,
    exports: Forwarded,
    directory: Mutex<String>,
    /// What the dump over there is called; the same however often it is taken.
    id: String,
    /// Where it is, without its endings.
    dump: String,
    login: tokio::sync::Mutex<Option<Asked>>,
}

/// What the login shell brought, and in which place: a place that was made anew has nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    place: String,
    login: Login,
}

/// What the login shell brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Login {
    Dump,
    /// Nothing could be written; each call asks it anew.
    EachTime,
    /// It does not come to an end; nobody asks it again.
    Broken,
    /// It did not even begin; it is asked again.
    Silent,
}

/// What a call came to.
#[derive(Debug)]
pub(crate) enum Called {
    Finished(Finished),
    /// The client ended before the shell began: nothing was run.
    NeverBegan {
        said: String,
        code: i32,
    },
    /// The client ended and the shell did not say goodbye: it was replaced, killed or cut off.
    Unfinished {
        output: String,
        code: i32,
    },
}

impl RemoteShell {
    pub(crate) fn new(start: &str, exports: &Forwarded, bounds: Bounds) -> Self {
        let id = random_hex(12);
        Self {
            bounds,
            exports: exports.clone(),
            directory: Mutex::new(start.to_owned()),
            dump: dump_called(&id),
            id,
            login: tokio::sync::Mutex::new(None),
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// What its dump is called.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Where the next command starts, as the other side names it.
    pub(crate) fn directory(&self) -> String {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes what the dump left over there; whether nothing of it is left.
    pub(crate) async fn clean(&self, line: &dyn Line, place: &str) -> bool {
        let left = Asked { place: place.to_owned(), login: Login::Dump };
        if self.login.lock().await.take() != Some(left) {
            return true;
        }
        let speech = Speech {
            script: &script::remove_dump(&self.dump),
            stdin: None,
            marks: Marks::new(&random_hex(12)),
            profile: Profile::Skipped,
        };
        let cancel = Cancel::new();
        let watch = Watch { limit: CLEAN_LIMIT, clock: line.clock(), cancel: &cancel, bounds: self.bounds };
        match line.speak(speech, watch).await {
            Ok(heard) => heard.ending == Ending::Exited(0),
            Err(error) => {
                tracing::debug!(%error, "the shell's dump could not be removed");
                false
            }
        }
    }

    /// Runs a command. `place` names where the line leads; another name is another file system, or an emptied one.
    pub(crate) async fn call(
        &self,
        line: &dyn Line,
        place: &str,
        command: Command<'_>,
        cancel: &Cancel,
    ) -> Result<Called, RunError> {
        let Command { shell: text, directory, stdin, limit } = command;
        if text.contains('\0') {
            return Err(RunError::Refused("a command cannot hold a NUL character".to_owned()));
        }
        let Some(login) = self.login(line, place, cancel).await? else {
            return Ok(Called::Finished(stopped(String::new(), Ending::Interrupted, limit)));
        };
        let given = directory.map(|folder| folder.to_string_lossy().into_owned());
        let last = self.directory();
        let id = random_hex(12);
        let marks = Marks::new(&id);
        let call = Call {
            command: text,
            start: given.as_deref().map_or(Start::Last(&last), Start::Given),
            exports: &self.exports,
            dump: (login == Login::Dump).then_some(&self.dump),
            input: stdin.map_or(Input::None, |bytes| Input::Given { bytes: bytes.len() }),
            input_end: line.input(),
        };
        let script = script::call(&call, &marks, &id);
        let profile = if login == Login::EachTime { Profile::Read } else { Profile::Skipped };
        let speech = Speech { script: &script, stdin, marks, profile };
        let watch = Watch { limit, clock: line.clock(), cancel, bounds: self.bounds };
        let Heard { framed, ending } = line.speak(speech, watch).await.map_err(unavailable)?;
        if framed.began && login == Login::Silent {
            // The shell works and its profile does not.
            *self.login.lock().await = Some(Asked { place: place.to_owned(), login: Login::Broken });
        }
        let Ending::Exited(code) = ending else {
            return Ok(Called::Finished(stopped(framed.output, ending, limit)));
        };
        if let Some(end) = framed.end {
            // A folder named for one call is for that call only.
            if given.is_none() && end.directory.starts_with('/') {
                *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = end.directory;
            }
            return Ok(Called::Finished(Finished { output: framed.output, exit_code: end.code }));
        }
        if framed.began {
            return Ok(Called::Unfinished { output: framed.output, code });
        }
        Ok(Called::NeverBegan { said: framed.before, code })
    }

    /// What the login shell of this place brought, asked once under the lock; none if the call was stopped meanwhile.
    async fn login(&self, line: &dyn Line, place: &str, cancel: &Cancel) -> Result<Option<Login>, RunError> {
        let Some(mut known) = lock_unless(&self.login, cancel).await else { return Ok(None) };
        if let Some(asked) = known.as_ref().filter(|asked| asked.place == place) {
            return Ok(Some(asked.login));
        }
        let marks = Marks::new(&random_hex(12));
        let script = script::take_dump(&self.dump, &self.exports, &marks);
        let speech = Speech { script: &script, stdin: None, marks, profile: Profile::Read };
        let watch = Watch { limit: LOGIN_LIMIT, clock: line.clock(), cancel, bounds: self.bounds };
        let Heard { framed, ending } = line.speak(speech, watch).await.map_err(unavailable)?;
        let login = match (framed.end.map(|end| end.code), ending) {
            (_, Ending::Interrupted) => return Ok(None),
            (Some(0), _) => Login::Dump,
            (_, Ending::TimedOut) => Login::Broken,
            _ if framed.began => Login::EachTime,
            _ => Login::Silent,
        };
        if login != Login::Dump {
            tracing::warn!(?ending, said = framed.before, "the login shell over there could not be read");
        }
        *known = (login != Login::Silent).then(|| Asked { place: place.to_owned(), login });
        Ok(Some(login))
    }
}

fn dump_called(id: &str) -> String {
    format!("/tmp/hermes-snap-{id}")
}

/// A line that removes the dumps so called, whatever shell reads it.
pub(crate) fn removal<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    let lines: Vec<String> = ids.into_iter().map(|id| script::remove_dump(&dump_called(id))).collect();
    lines.join("; ")
}

fn stopped(output: String, ending: Ending, limit: Duration) -> Finished {
    if ending == Ending::Interrupted {
        return Finished { output: output + INTERRUPTED_NOTE, exit_code: INTERRUPTED };
    }
    let text = format!("Command timed out after {}s", limit.as_secs());
    let output = if output.is_empty() { text } else { format!("{output}\n[{text}]") };
    Finished { output, exit_code: TIMED_OUT }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
pub(crate) fn unavailable(error: CliError) -> RunError {
    RunError::Unavailable(error.to_string())
}
