//! A remote shell as a task sees it: `cd` and `export` last from call to call.
//!
//! One login shell runs once to save its snapshot. Each call starts a bare bash that reads the snapshot and
//! updates the exports when it ends. The folder is reported with the mark at the end. The module does not
//! choose the transport, and leaves the handling of its failures to the caller.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hermes_types::{Cancel, CommandOutput, RunError, ShellCommand, random_hex};

use super::cli::{CliError, ProfileLoading};
use super::script::{self, CallInput, FrameMarks, ShellCall, StartFolder};
use super::script_transport::{ScriptRequest, ScriptResponse, ScriptTransport};
use super::{ForwardedVariables, INTERRUPTED, INTERRUPTED_NOTE, TIMED_OUT, lock_unless_cancelled};
use crate::capture::OutputBounds;
use crate::run::{ExitCause, RunContext};

/// The longest time to wait for a login shell.
const LOGIN_LIMIT: Duration = Duration::from_secs(15);
const CLEAN_LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct RemoteShell {
    bounds: OutputBounds,
    exports: ForwardedVariables,
    directory: Mutex<String>,
    /// The name of the remote snapshot, which is the same however often it is taken.
    id: String,
    /// The path of the snapshot, without its suffixes.
    dump: String,
    login: tokio::sync::Mutex<Option<LoginRecord>>,
}

/// The result of the login shell, and the instance in which it ran: a new instance has nothing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LoginRecord {
    instance: String,
    login: LoginState,
}

/// The result of the login shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginState {
    Dump,
    /// Nothing could be written, so each call runs as a login shell.
    EachTime,
    /// The login shell does not terminate, so it is not run again.
    Broken,
    /// The login shell did not start, so it is run again.
    NotStarted,
}

/// The result of a call.
#[derive(Debug)]
pub(crate) enum CallResult {
    Finished(CommandOutput),
    /// The client exited before the shell started: nothing was run.
    NotStarted {
        said: String,
        code: i32,
    },
    /// The client exited and the shell did not report its end: it was replaced, killed or disconnected.
    Unfinished {
        output: String,
        code: i32,
    },
}

impl RemoteShell {
    pub(crate) fn new(start: &str, exports: &ForwardedVariables, bounds: OutputBounds) -> Self {
        let id = random_hex(12);
        Self {
            bounds,
            exports: exports.clone(),
            directory: Mutex::new(start.to_owned()),
            dump: dump_path(&id),
            id,
            login: tokio::sync::Mutex::new(None),
        }
    }

    pub(crate) fn bounds(&self) -> OutputBounds {
        self.bounds
    }

    /// Returns the name of the snapshot.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Returns the folder in which the next command starts, as a remote path.
    pub(crate) fn directory(&self) -> String {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes the remote snapshot; tells whether nothing of it is left.
    pub(crate) async fn clean(&self, line: &dyn ScriptTransport, place: &str) -> bool {
        let left = LoginRecord { instance: place.to_owned(), login: LoginState::Dump };
        if self.login.lock().await.take() != Some(left) {
            return true;
        }
        let request = ScriptRequest {
            script: &script::remove_dump_script(&self.dump),
            stdin: None,
            marks: FrameMarks::new(&random_hex(12)),
            profile: ProfileLoading::Skipped,
        };
        let cancel = Cancel::new();
        let watch =
            RunContext { limit: CLEAN_LIMIT, clock: line.clock(), cancel: &cancel, bounds: self.bounds };
        match line.run_script(request, watch).await {
            Ok(heard) => heard.exit_cause == ExitCause::Exited(0),
            Err(error) => {
                tracing::debug!(%error, "the shell's dump could not be removed");
                false
            }
        }
    }

    /// Runs a command. `place` identifies the instance behind the transport; another value means another file
    /// system, or an emptied one.
    pub(crate) async fn call(
        &self,
        line: &dyn ScriptTransport,
        place: &str,
        command: ShellCommand<'_>,
        cancel: &Cancel,
    ) -> Result<CallResult, RunError> {
        let ShellCommand { shell: text, directory, stdin, timeout: limit } = command;
        if text.contains('\0') {
            return Err(RunError::Refused("a command cannot hold a NUL character".to_owned()));
        }
        let Some(login) = self.login(line, place, cancel).await? else {
            return Ok(CallResult::Finished(stopped(String::new(), ExitCause::Interrupted, limit)));
        };
        let given = directory.map(|folder| folder.to_string_lossy().into_owned());
        let last = self.directory();
        let id = random_hex(12);
        let marks = FrameMarks::new(&id);
        let call = ShellCall {
            command: text,
            start: given.as_deref().map_or(StartFolder::Last(&last), StartFolder::Given),
            exports: &self.exports,
            dump: (login == LoginState::Dump).then_some(&self.dump),
            input: stdin.map_or(CallInput::None, |bytes| CallInput::Given { bytes: bytes.len() }),
            input_end: line.input(),
        };
        let script = script::call_script(&call, &marks, &id);
        let profile =
            if login == LoginState::EachTime { ProfileLoading::Read } else { ProfileLoading::Skipped };
        let request = ScriptRequest { script: &script, stdin, marks, profile };
        let watch = RunContext { limit, clock: line.clock(), cancel, bounds: self.bounds };
        let ScriptResponse { framed, exit_cause: ending } =
            line.run_script(request, watch).await.map_err(unavailable)?;
        if framed.began && login == LoginState::NotStarted {
            // The shell works and its profile does not.
            *self.login.lock().await =
                Some(LoginRecord { instance: place.to_owned(), login: LoginState::Broken });
        }
        let ExitCause::Exited(code) = ending else {
            return Ok(CallResult::Finished(stopped(framed.output, ending, limit)));
        };
        if let Some(end) = framed.end {
            // A folder given for one call applies to that call only.
            if given.is_none() && end.directory.starts_with('/') {
                *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = end.directory;
            }
            return Ok(CallResult::Finished(CommandOutput { output: framed.output, exit_code: end.code }));
        }
        if framed.began {
            return Ok(CallResult::Unfinished { output: framed.output, code });
        }
        Ok(CallResult::NotStarted { said: framed.before, code })
    }

    /// Returns the result of the login shell of this instance, run once under the lock; `None` if the call
    /// was cancelled meanwhile.
    async fn login(
        &self,
        line: &dyn ScriptTransport,
        place: &str,
        cancel: &Cancel,
    ) -> Result<Option<LoginState>, RunError> {
        let Some(mut known) = lock_unless_cancelled(&self.login, cancel).await else { return Ok(None) };
        if let Some(asked) = known.as_ref().filter(|asked| asked.instance == place) {
            return Ok(Some(asked.login));
        }
        let marks = FrameMarks::new(&random_hex(12));
        let script = script::dump_script(&self.dump, &self.exports, &marks);
        let request = ScriptRequest { script: &script, stdin: None, marks, profile: ProfileLoading::Read };
        let watch = RunContext { limit: LOGIN_LIMIT, clock: line.clock(), cancel, bounds: self.bounds };
        let ScriptResponse { framed, exit_cause: ending } =
            line.run_script(request, watch).await.map_err(unavailable)?;
        let login = match (framed.end.map(|end| end.code), ending) {
            (_, ExitCause::Interrupted) => return Ok(None),
            (Some(0), _) => LoginState::Dump,
            (_, ExitCause::TimedOut) => LoginState::Broken,
            _ if framed.began => LoginState::EachTime,
            _ => LoginState::NotStarted,
        };
        if login != LoginState::Dump {
            tracing::warn!(?ending, said = framed.before, "the login shell over there could not be read");
        }
        *known = (login != LoginState::NotStarted).then(|| LoginRecord { instance: place.to_owned(), login });
        Ok(Some(login))
    }
}

fn dump_path(id: &str) -> String {
    format!("/tmp/hermes-snap-{id}")
}

/// Returns a line that removes the snapshots with these names in any shell.
pub(crate) fn removal_line<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    let lines: Vec<String> = ids.into_iter().map(|id| script::remove_dump_script(&dump_path(id))).collect();
    lines.join("; ")
}

fn stopped(output: String, ending: ExitCause, limit: Duration) -> CommandOutput {
    if ending == ExitCause::Interrupted {
        return CommandOutput { output: output + INTERRUPTED_NOTE, exit_code: INTERRUPTED };
    }
    let text = format!("Command timed out after {}s", limit.as_secs());
    let output = if output.is_empty() { text } else { format!("{output}\n[{text}]") };
    CommandOutput { output, exit_code: TIMED_OUT }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
pub(crate) fn unavailable(error: CliError) -> RunError {
    RunError::Unavailable(error.to_string())
}
