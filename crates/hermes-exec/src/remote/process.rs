//! A process that runs on in an environment elsewhere.
//!
//! It leads a group of its own over there and writes to a file; a second file gets its exit code. Everything is asked by
//! ordinary commands of the environment, so it holds no connection, takes no input, and survives us. Whoever keeps it
//! decides how often to look.

use std::path::Path;
use std::time::Duration;

use hermes_types::{Cancel, Command, Environment, Finished, RunError, random_hex};

use super::files::{FileError, RemoteFiles};
use super::script;
use crate::capture::Bounds;
use crate::shell::quote;

const LIMIT: Duration = Duration::from_secs(30);

/// A process over there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteProcess {
    /// Its files are under this path, with endings.
    files: String,
    pid: u32,
}

/// How it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteState {
    Running,
    /// −1 if it ended without leaving a code.
    Exited(i32),
}

impl RemoteProcess {
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
        let Finished { output, exit_code } = ask(environment, &script, directory, cancel).await?;
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

    pub async fn look(
        &self,
        environment: &dyn Environment,
        cancel: &Cancel,
    ) -> Result<RemoteState, RunError> {
        let Self { files, pid } = self;
        // The code is looked for a second time: it may have ended in between. Where nobody collects the dead, one that
        // was killed stays in the list of processes.
        let script = format!(
            "cat {files}.exit 2>/dev/null || {{ kill -0 {pid} 2>/dev/null && \
             ! grep -q '^State:[[:space:]]*Z' /proc/{pid}/status 2>/dev/null && echo running; }} || \
             cat {files}.exit 2>/dev/null || echo -1"
        );
        let Finished { output, .. } = ask(environment, &script, None, cancel).await?;
        match output.trim() {
            "running" => Ok(RemoteState::Running),
            code => code.parse().map(RemoteState::Exited).map_err(|_| RunError::Unavailable(output)),
        }
    }

    /// What it has said from byte `from` on, at most `most` of it. `bounds` are those of the environment.
    pub async fn output(
        &self,
        environment: &dyn Environment,
        bounds: Bounds,
        from: u64,
        most: usize,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, FileError> {
        RemoteFiles::new(environment, bounds).read(&format!("{}.log", self.files), from, most, cancel).await
    }

    /// Ends it and all it started: a request, a second's grace, then the kill. It is then said to have exited with −15,
    /// unless it had ended before.
    pub async fn kill(&self, environment: &dyn Environment, cancel: &Cancel) -> Result<(), RunError> {
        let end = script::end_group(self.pid);
        let script = format!("( {end} ) 2>/dev/null; [ -e {0}.exit ] || echo -15 >| {0}.exit", self.files);
        ask(environment, &script, None, cancel).await.map(|_| ())
    }

    /// Removes its files. It is not asked about after this.
    pub async fn forget(self, environment: &dyn Environment, cancel: &Cancel) -> Result<(), RunError> {
        let script = format!("rm -f {0}.log {0}.new {0}.exit {0}.pid", self.files);
        ask(environment, &script, None, cancel).await.map(|_| ())
    }
}

async fn ask(
    environment: &dyn Environment,
    shell: &str,
    directory: Option<&Path>,
    cancel: &Cancel,
) -> Result<Finished, RunError> {
    environment.run(Command { shell, directory, stdin: None, limit: LIMIT }, cancel).await
}
