//! Runs a script from start to end within a time limit, with its two outputs separate and bounded.
//!
//! The script runs in the sandbox that commands of its folder have. However it ends, all processes it started
//! end with it: a script is one unit of work, and what is meant to run on is started as a background process.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, Clock, CommandOutput, RunError};

use crate::child::{Launch, Lifetime, RunningChild, StdioMode};
use crate::clip::{ClippedOutput, OutputClipper};
use crate::group::KillScope;
use crate::program::ProgramExit;
use crate::sandbox::{ExpectedRuntime, Sandbox, SandboxReport};
use crate::stream::Stream;
use crate::variables::Variables;

/// The time a script has to end by itself when its time limit has expired.
const GRACE: Duration = Duration::from_secs(5);
/// The time a script has to end by itself when it is interrupted.
const SHORT_GRACE: Duration = Duration::from_secs(1);
/// The time a pipe is still read that a process outside the group holds open.
const IDLE: Duration = Duration::from_millis(300);
const CHUNK: usize = 16 * 1024;

/// Runs scripts on this machine.
#[derive(Debug, Clone)]
pub struct ScriptRunner {
    sandbox: Sandbox,
    clock: Arc<dyn Clock>,
}

/// Describes a script to be run.
#[derive(Debug, Clone)]
pub struct ScriptCommand<'a> {
    pub program: &'a Path,
    pub arguments: Vec<OsString>,
    /// The complete environment of the script: nothing is inherited.
    pub variables: &'a Variables,
    pub directory: &'a Path,
    /// The folder for which the sandbox is made.
    pub sandbox_anchor: &'a Path,
    pub limit: Duration,
    /// The numbers of bytes kept of the beginning and of the end of standard output.
    pub output_limits: (usize, usize),
    /// The number of bytes kept of the beginning of standard error.
    pub stderr_limit: usize,
}

/// The result of a script.
#[derive(Debug)]
pub struct ScriptOutcome {
    pub output: ClippedOutput,
    pub stderr: ClippedOutput,
    pub exit: ProgramExit,
    pub sandbox: SandboxReport,
}

impl ScriptRunner {
    pub fn new(sandbox: Sandbox, clock: Arc<dyn Clock>) -> Self {
        Self { sandbox, clock }
    }

    pub async fn run(&self, script: ScriptCommand<'_>, cancel: &Cancel) -> Result<ScriptOutcome, RunError> {
        let fence = self
            .sandbox
            .for_command(script.sandbox_anchor, script.directory, ExpectedRuntime::Short)
            .map_err(RunError::Refused)?
            .map(Arc::new);
        let mut variables = script.variables.pairs();
        let caches = self.sandbox.variables().into_iter();
        let caches = caches.filter(|(name, _)| script.variables.get(name).is_none());
        variables.extend(caches.map(|(name, value)| (name.to_owned(), value)));
        let launch = Launch {
            program: script.program.to_owned(),
            arguments: script.arguments,
            variables,
            directory: script.directory.to_owned(),
            lifetime: Lifetime::Bound,
            scope: KillScope::Tree,
            stdio: StdioMode::SeparateStderr,
            sandbox: fence.clone(),
        };
        let mut ears = ScriptOutput {
            output: OutputClipper::new(script.output_limits.0, script.output_limits.1),
            stderr: OutputClipper::new(script.stderr_limit, 0),
        };
        let end = self.follow(launch, script.limit, cancel, &mut ears).await;
        let end = end.map_err(|error| RunError::Unavailable(error.to_string()))?;
        let (output, complaints) = (ears.output.finish(), ears.stderr.finish());
        let exit_code = if let ProgramExit::Exited(code) = end { code } else { -1 };
        let said = CommandOutput { output: complaints.head.clone(), exit_code };
        let report = fence.map(|fence| fence.report(&said, script.directory));
        Ok(ScriptOutcome { output, stderr: complaints, exit: end, sandbox: report.unwrap_or_default() })
    }

    async fn follow(
        &self,
        launch: Launch,
        limit: Duration,
        cancel: &Cancel,
        ears: &mut ScriptOutput,
    ) -> io::Result<ProgramExit> {
        let mut running = launch.start().await?;
        let clock = &*self.clock;
        let end = ears.read(&mut running, limit, clock, cancel).await?;
        let grace = match end {
            ProgramExit::Exited(_) => Duration::ZERO,
            ProgramExit::TimedOut => GRACE,
            ProgramExit::Cancelled => SHORT_GRACE,
        };
        let group = running.group();
        if !matches!(end, ProgramExit::Exited(_)) {
            let ((), code) = tokio::join!(group.terminate_within(grace, clock), running.wait());
            code?;
        }
        group.kill();
        ears.drain(&running, clock).await;
        Ok(end)
    }
}

/// The output of a script that was read so far.
struct ScriptOutput {
    output: OutputClipper,
    stderr: OutputClipper,
}

impl ScriptOutput {
    async fn read(
        &mut self,
        running: &mut RunningChild,
        limit: Duration,
        clock: &dyn Clock,
        cancel: &Cancel,
    ) -> io::Result<ProgramExit> {
        let mut out_of_time = clock.sleep(limit);
        let (mut first, mut second) = (vec![0; CHUNK], vec![0; CHUNK]);
        let (mut talks, mut complains) = (true, true);
        let (output, errors, mut reaper) = running.outputs_and_reaper();
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(ProgramExit::Cancelled),
                () = &mut out_of_time => return Ok(ProgramExit::TimedOut),
                count = read_chunk(Some(output), &mut first), if talks => {
                    talks = count > 0;
                    self.output.push(first.get(..count).unwrap_or_default());
                }
                count = read_chunk(errors, &mut second), if complains => {
                    complains = count > 0;
                    self.stderr.push(second.get(..count).unwrap_or_default());
                }
                code = reaper.wait() => return Ok(ProgramExit::Exited(code?)),
            }
        }
    }

    /// Reads what is left in the pipes. All processes of the group are gone, so the pipes end unless a
    /// process that left the group holds them.
    async fn drain(&mut self, running: &RunningChild, clock: &dyn Clock) {
        let mut buffer = vec![0; CHUNK];
        for (stream, clip) in
            [(Some(&running.output), &mut self.output), (running.stderr.as_ref(), &mut self.stderr)]
        {
            let mut enough = clock.sleep(IDLE);
            loop {
                tokio::select! {
                    biased;
                    count = read_chunk(stream, &mut buffer) => {
                        if count == 0 {
                            break;
                        }
                        clip.push(buffer.get(..count).unwrap_or_default());
                    }
                    () = &mut enough => break,
                }
            }
        }
    }
}

/// Reads the next bytes and returns how many there are; zero once the stream has ended.
async fn read_chunk(stream: Option<&Stream>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}
