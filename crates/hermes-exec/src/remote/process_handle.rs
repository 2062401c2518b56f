//! A background process in a remote environment.
//!
//! It leads a process group of its own in the environment and writes to a log file; a second file gets its
//! exit code. It is controlled by ordinary commands of the environment, so it holds no connection, takes no
//! input, and outlives Hermes. The holder of the handle decides how often to poll it.

use std::path::Path;
use std::time::Duration;

use hermes_types::{Cancel, CommandOutput, Environment, RunError, ShellCommand, random_hex};

use super::files::{RemoteFileError, RemoteFiles};
use super::{base64, script};
use crate::capture::OutputBounds;
use crate::shell::quote;

const LIMIT: Duration = Duration::from_secs(30);
/// The size of output above which only the end is fetched.
const NEWEST: u64 = 400_000;

/// A handle to a remote process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteProcessHandle {
    /// The common beginning of the paths of its files.
    files: String,
    pid: u32,
}

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteProcessState {
    Running,
    /// The process has exited with this code; −1 if it left none.
    Exited(i32),
}

impl RemoteProcessHandle {
    /// Starts a process in the folder in which the next command would start, or in `directory`.
    pub async fn start(
        environment: &dyn Environment,
        command: &str,
        directory: Option<&Path>,
        cancel: &Cancel,
    ) -> Result<Self, RunError> {
        let files = format!("/tmp/hermes_bg_{}", random_hex(12));
        // Job control makes the process the leader of a group; it holds no descriptor of this call.
        let script = format!(
            "( umask 077; : >| {files}.log )\n\
             set -m\n\
             {{ trap '' HUP; export PYTHONUNBUFFERED=1; ( eval {} ) >> {files}.log 2>&1; \
             echo $? >| {files}.new; mv -f {files}.new {files}.exit; }} </dev/null >/dev/null 2>&1 & set +m; disown; \
             echo $! | tee {files}.pid",
            quote(command)
        );
        let CommandOutput { output, exit_code } = ask(environment, &script, directory, cancel).await?;
        // A process that exited at once may be reported next to its pid.
        match output.lines().find_map(|line| line.trim().parse().ok()) {
            Some(pid) if exit_code == 0 => Ok(Self { files, pid }),
            _ => Err(RunError::Unavailable(format!(
                "it could not be started (exit code {exit_code}): {}",
                output.trim()
            ))),
        }
    }

    /// Returns the pid in the remote environment.
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

    /// Returns the state and the output since byte `from`; only the newest part where that is very long.
    /// `bounds` are those of the environment.
    pub(crate) async fn poll(
        &self,
        environment: &dyn Environment,
        bounds: OutputBounds,
        from: u64,
        cancel: &Cancel,
    ) -> Result<ProcessPoll, RunError> {
        let (files, piece) = (&self.files, RemoteFiles::new(environment, bounds).piece());
        // The state is read first, so that all output of a process that has exited is included.
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

    /// Returns the script that reads the state. It looks for the exit code twice, because the process may
    /// exit in between. Where no process reaps zombies, a killed process stays in the process list. A missing
    /// log means that the environment was created again, so the process is gone.
    fn state_script(&self) -> String {
        let Self { files, pid } = self;
        format!(
            "if [ ! -e {files}.log ]; then echo -1; else cat {files}.exit 2>/dev/null || \
             {{ kill -0 {pid} 2>/dev/null && \
             ! grep -q '^State:[[:space:]]*Z' /proc/{pid}/status 2>/dev/null && echo running; }} || \
             cat {files}.exit 2>/dev/null || echo -1; fi"
        )
    }

    /// Returns the output beginning at byte `from`, at most `most` bytes. `bounds` are those of the
    /// environment.
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

    /// Ends the process and all processes it started: a termination request, a second of grace, then a kill.
    /// Its exit code is −15 afterwards, unless it had exited before.
    pub async fn kill(&self, environment: &dyn Environment, cancel: &Cancel) -> Result<(), RunError> {
        let end = script::end_group_script(self.pid);
        let script = format!("( {end} ) 2>/dev/null; [ -e {0}.exit ] || echo -15 >| {0}.exit", self.files);
        ask(environment, &script, None, cancel).await.map(|_| ())
    }

    /// Removes the files of the process, which cannot be polled after this.
    pub async fn remove_files(self, environment: &dyn Environment, cancel: &Cancel) -> Result<(), RunError> {
        let script = format!("rm -f {0}.log {0}.new {0}.exit {0}.pid", self.files);
        ask(environment, &script, None, cancel).await.map(|_| ())
    }
}

/// The state of a process and its log at one poll.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProcessPoll {
    pub(crate) state: RemoteProcessState,
    /// The length of the log.
    pub(crate) size: u64,
    /// The offset in the log at which the new output ends.
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
