//! Runs other programs for their output: checkers of files, and helpers that supply a credential.
//!
//! No shell interprets their arguments. Programs that the user names run as the user would run them; programs
//! that read what a model wrote run in a sandbox.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, Clock, RunError};

use crate::capture::OutputBounds;
use crate::child::{Launch, Lifetime, StdioMode};
use crate::group::KillScope;
use crate::line_process::LineProcess;
use crate::output_stream::OutputStream;
use crate::piped_process::{MessageEnd, PipedProcess};
use crate::run::{CommandOutcome, ExitCause, RunContext, run};
use crate::sandbox::{ExpectedRuntime, Sandbox};
use crate::variables::Variables;

/// Moves the pipes of standard input and output to the descriptors 3 and 4.
const MESSAGE_DESCRIPTORS: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;

/// Starts programs with a given set of variables.
#[derive(Debug, Clone)]
pub struct ProgramRunner {
    variables: Variables,
    clock: Arc<dyn Clock>,
    /// The sandbox of the programs, and the folder it is made for.
    sandbox: Option<(Sandbox, PathBuf)>,
}

/// Selects what happens to the standard error of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StderrMode {
    /// Standard error is merged into the output.
    Merge,
    Discard,
}

/// The ways in which a program can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramExit {
    Exited(i32),
    TimedOut,
    Cancelled,
}

/// Describes a program to be run.
#[derive(Debug, Clone)]
pub struct Program<'a> {
    pub name: &'a str,
    pub arguments: Vec<OsString>,
    pub directory: &'a Path,
    pub limit: Duration,
    pub stderr: StderrMode,
}

impl ProgramRunner {
    pub fn new(variables: Variables, clock: Arc<dyn Clock>) -> Self {
        Self { variables, clock, sandbox: None }
    }

    /// Returns a runner that uses the sandbox of a conversation about `anchor`.
    #[must_use]
    pub fn in_sandbox(&self, sandbox: Sandbox, anchor: &Path) -> Self {
        Self { sandbox: Some((sandbox, anchor.to_owned())), ..self.clone() }
    }

    /// Returns the path of the program with this name, if it is on the path.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        let path = self.variables.get("PATH").unwrap_or_default();
        path.split(':').map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
    }

    /// Runs the program until it exits, without input.
    pub async fn output(
        &self,
        program: Program<'_>,
        cancel: &Cancel,
    ) -> Result<(String, ProgramExit), RunError> {
        self.output_for(program, None, cancel).await
    }

    /// Runs the program until it exits, with an input.
    pub async fn output_for(
        &self,
        program: Program<'_>,
        input: Option<&[u8]>,
        cancel: &Cancel,
    ) -> Result<(String, ProgramExit), RunError> {
        let limit = program.limit;
        let wiring = if input.is_some() { StdioMode::InputAndOutput } else { StdioMode::OutputOnly };
        let launch = self.launch(program, wiring)?;
        let watch = RunContext { limit, clock: &*self.clock, cancel, bounds: OutputBounds::default() };
        let ran = run(launch, input, watch).await;
        let CommandOutcome { output, exit_cause: ending } =
            ran.map_err(|error| RunError::Unavailable(error.to_string()))?;
        let end = match ending {
            ExitCause::Exited(code) => ProgramExit::Exited(code),
            ExitCause::TimedOut => ProgramExit::TimedOut,
            ExitCause::Interrupted => ProgramExit::Cancelled,
        };
        Ok((output.text(), end))
    }

    /// Starts a program that keeps running and answers line by line.
    pub async fn worker(&self, program: Program<'_>) -> Result<LineProcess, RunError> {
        let launch = self.launch(program, StdioMode::InputAndOutput)?;
        let running = launch.start().await.map_err(|error| RunError::Unavailable(error.to_string()))?;
        Ok(LineProcess::new(running))
    }

    /// Starts a program that keeps running and whose standard output is read as bytes.
    pub async fn stream(&self, program: Program<'_>) -> Result<OutputStream, RunError> {
        let launch = self.launch(program, StdioMode::SeparateStderr)?;
        let running = launch.start().await.map_err(|error| RunError::Unavailable(error.to_string()))?;
        Ok(OutputStream::new(running))
    }

    /// Starts a program that keeps running and exchanges lines of at most `longest_line` bytes.
    pub async fn piped(&self, program: Program<'_>, longest_line: usize) -> Result<PipedProcess, RunError> {
        let launch = self.launch(program, StdioMode::Pipes)?;
        let running = launch.start().await.map_err(|error| RunError::Unavailable(error.to_string()))?;
        Ok(PipedProcess::new(running, longest_line, MessageEnd::Newline))
    }

    /// Starts a program that keeps running, reads messages from its descriptor 3 and writes them to descriptor 4, each
    /// ended by a zero byte. Its standard output is discarded.
    pub async fn framed(
        &self,
        program: Program<'_>,
        longest_message: usize,
    ) -> Result<PipedProcess, RunError> {
        let launch = self.launch_script(program, StdioMode::Pipes, MESSAGE_DESCRIPTORS)?;
        let running = launch.start().await.map_err(|error| RunError::Unavailable(error.to_string()))?;
        Ok(PipedProcess::new(running, longest_message, MessageEnd::Zero))
    }

    fn launch(&self, program: Program<'_>, wiring: StdioMode) -> Result<Launch, RunError> {
        let script = match program.stderr {
            StderrMode::Merge => r#"exec "$0" "$@""#,
            StderrMode::Discard => r#"exec "$0" "$@" 2>/dev/null"#,
        };
        self.launch_script(program, wiring, script)
    }

    /// Prepares a program behind a shell that only redirects descriptors; the arguments pass through it unchanged.
    fn launch_script(
        &self,
        program: Program<'_>,
        wiring: StdioMode,
        script: &str,
    ) -> Result<Launch, RunError> {
        let Program { name, arguments, directory, .. } = program;
        let found =
            self.find(name).ok_or_else(|| RunError::Unavailable(format!("there is no program `{name}`")))?;
        let mut all: Vec<OsString> = vec!["-c".into(), script.into(), found.into_os_string()];
        all.extend(arguments);
        let fence = match &self.sandbox {
            Some((sandbox, anchor)) => sandbox
                .for_command(anchor, directory, ExpectedRuntime::Short)
                .map_err(RunError::Refused)?
                .map(Arc::new),
            None => None,
        };
        Ok(Launch {
            program: PathBuf::from("/bin/sh"),
            arguments: all,
            variables: self.variables.pairs(),
            directory: directory.to_owned(),
            lifetime: Lifetime::Bound,
            scope: KillScope::Tree,
            stdio: wiring,
            sandbox: fence,
        })
    }
}
