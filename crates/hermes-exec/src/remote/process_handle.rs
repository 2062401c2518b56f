//! A process that runs on in an environment elsewhere.
//!
//! It leads a group of its own over there and writes to a file; a second file gets its exit code. Everything is asked by
//! ordinary commands of the environment, so it holds no connection, takes no input, and survives us. Whoever keeps it
//! decides how often to look.

use std::path::Path;
use std::time::Duration;

use hermes_types::{Cancel, CommandOutput, Environment, RunError, ShellCommand, random_hex};

use super::files::{RemoteFileError, RemoteFiles};
use super::{base64, script};
use crate::capture::OutputBounds;
use crate::shell::quote;

const LIMIT: Duration = Duration::from_secs(30);
/// Of more than this only the end is fetched.
const NEWEST: u64 = 400_000;

/// A process over there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteProcessHandle {
    /// Its files are under this path, with endings.
    files: String,
    pid: u32,
}

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteProcessState {
    Running,
    /// −1 if it ended without leaving a code.
    Exited(i32),
}

impl RemoteProcessHandle {
    /// Starts it where the next command would start, or in `directory`.
    pub async fn start(
        environment: &dyn Environment,
        command: &str,
        directory: Option<&Path>,
        cancel: &Cancel,
    ) -> Result<Self, RunError> {
        let files = format!("/tmp/hermes_bg_{}", random_hex(12));
        // Job control makes it the leader of a group; nothing of it holds on to this call.
        let script = format!(
            "( umask 077; : >| {files}.log )\n\
             set -m\n\
             {{ trap '' HUP; export PYTHONUNBUFFERED=1; ( eval {} ) >> {files}.log 2>&1; \
             echo $? >| {files}.new; mv -f {files}.new {files}.exit; }} </dev/null >/dev/null 2>&1 & set +m; disown; \
             echo $! | tee {files}.pid",
            quote(command)
        );
        let CommandOutput { output, exit_code } = ask(environment, &script, directory, cancel).await?;
        // One that ended at once may be reported beside its number.
        match output.lines().find_map(|line| line.trim().parse().ok()) {
            Some(pid) if exit_code == 0 => Ok(Self { files, pid }),
            _ => Err(RunError::Unavailable(format!(
                "it could not be started (exit code {exit_code}): {}",
                output.trim()
            ))),
        }
    }

    /// Its number over there.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub async fn poll_state(
        &self,
        environment: &dyn Environment,
        cancel: &Cancel,
    ) -> Result<RemoteProcessState, RunError> {
        let CommandOutput { output, .. } = ask(environment, &self.state_script(), None, cancel).await?;
        state(output.trim()).ok_or(RunError::Unavailable(output))
    }

    /// How it is, and what it has said since byte `from`; only the newest of it where that is very much. `bounds` are
    /// those of the environment.
    pub(crate) async fn poll(
        &self,
        environment: &dyn Environment,
        bounds: OutputBounds,
        from: u64,
        cancel: &Cancel,
    ) -> Result<ProcessPoll, RunError> {
        let (files, piece) = (&self.files, RemoteFiles::new(environment, bounds).piece());
        // The state comes first, so that of one that has ended nothing is missed.
        let script = format!(
            "__s=$({})\n__n=$(( $(cat {files}.log 2>/dev/null | wc -c) )); __f={from}\n\
             [ $((__n - __f)) -le {NEWEST} ] || __f=$((__n - {NEWEST}))\n\
             printf '%s %s %s ' \"$__s\" \"$__n\" \"$__f\"\n\
             tail -c +$((__f + 1)) {files}.log 2>/dev/null | head -c {piece} | base64 | tr -d '\\n'",
            self.state_script()
        );
        let CommandOutput { output, .. } = ask(environment, &script, None, cancel).await?;
        ProcessPoll::read(&output).ok_or(RunError::Unavailable(output))
    }

    /// The code is looked for a second time: it may have ended in between. Where nobody collects the dead, one that was
    /// killed stays in the list of processes. Without its log it is in a place that was made anew, and gone.
    fn state_script(&self) -> String {
        let Self { files, pid } = self;
        format!(
            "if [ ! -e {files}.log ]; then echo -1; else cat {files}.exit 2>/dev/null || \
             {{ kill -0 {pid} 2>/dev/null && \
             ! grep -q '^State:[[:space:]]*Z' /proc/{pid}/status 2>/dev/null && echo running; }} || \
             cat {files}.exit 2>/dev/null || echo -1; fi"
        )
    }

    /// What it has said from byte `from` on, at most `most` of it. `bounds` are those of the environment.
    pub async fn output(
        &self,
        environment: &dyn Environment,
        bounds: OutputBounds,
        from: u64,
        most: usize,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, RemoteFileError> {
        RemoteFiles::new(environment, bounds).read(&format!("{}.log", self.files), from, most, cancel).await
    }

    /// Ends it and all it started: a request, a second's grace, then the kill. It is then said to have exited with −15,
    /// unless it had ended before.
    pub async fn kill(&self, environment: &dyn Environment, cancel: &Cancel) -> Result<(), RunError> {
        let end = script::end_group_script(self.pid);
        let script = format!("( {end} ) 2>/dev/null; [ -e {0}.exit ] || echo -15 >| {0}.exit", self.files);
        ask(environment, &script, None, cancel).await.map(|_| ())
    }

    /// Removes its files. It is not asked about after this.
    pub async fn remove_files(self, environment: &dyn Environment, cancel: &Cancel) -> Result<(), RunError> {
        let script = format!("rm -f {0}.log {0}.new {0}.exit {0}.pid", self.files);
        ask(environment, &script, None, cancel).await.map(|_| ())
    }
}

/// One look at a process and its log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProcessPoll {
    pub(crate) state: RemoteProcessState,
    /// How long the log is.
    pub(crate) size: u64,
    /// Where in it the fresh part ends.
    pub(crate) next: u64,
    pub(crate) fresh: Vec<u8>,
}

impl ProcessPoll {
    fn read(said: &str) -> Option<Self> {
        let mut parts = said.splitn(4, ' ');
        let state = state(parts.next()?)?;
        let (size, from): (u64, u64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let fresh = base64::decode(parts.next()?.trim())?;
        Some(Self { state, size, next: from + fresh.len() as u64, fresh })
    }
}

fn state(said: &str) -> Option<RemoteProcessState> {
    match said {
        "running" => Some(RemoteProcessState::Running),
        code => code.parse().ok().map(RemoteProcessState::Exited),
    }
}

async fn ask(
    environment: &dyn Environment,
    shell: &str,
    directory: Option<&Path>,
    cancel: &Cancel,
) -> Result<CommandOutput, RunError> {
    environment.run(ShellCommand { shell, directory, stdin: None, timeout: LIMIT }, cancel).await
}
