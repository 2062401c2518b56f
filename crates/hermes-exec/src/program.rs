//! Other programs asked for their output: checkers of files, helpers that know a credential.
//!
//! No shell reads their arguments. Those that are named by the user run as the user would run them; those that read what a
//! model wrote run inside a fence.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, Clock, RunError};

use crate::capture::OutputBounds;
use crate::child::{Launch, Lifetime, StdioMode};
use crate::group::KillScope;
use crate::line_process::LineProcess;
use crate::run::{CommandOutcome, ExitCause, RunContext, run};
use crate::sandbox::{ExpectedRuntime, Sandbox};
use crate::variables::Variables;

/// Starts programs with these variables.
#[derive(Debug, Clone)]
pub struct ProgramRunner {
    variables: Variables,
    clock: Arc<dyn Clock>,
    /// The fence around them, and the folder it is about.
    sandbox: Option<(Sandbox, PathBuf)>,
}

/// What becomes of what a program complains about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StderrMode {
    /// It stands among the output.
    Merge,
    Discard,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramExit {
    Exited(i32),
    TimedOut,
    Cancelled,
}

/// A program to be run.
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

    /// The same inside the fence of a conversation about `anchor`.
    #[must_use]
    pub fn in_sandbox(&self, sandbox: Sandbox, anchor: &Path) -> Self {
        Self { sandbox: Some((sandbox, anchor.to_owned())), ..self.clone() }
    }

    /// Whether a program of this name is on the path.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_file());
        }
        let path = self.variables.get("PATH").unwrap_or_default();
        path.split(':').map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
    }

    /// Runs it to its end, without input.
    pub async fn output(
        &self,
        program: Program<'_>,
        cancel: &Cancel,
    ) -> Result<(String, ProgramExit), RunError> {
        self.output_for(program, None, cancel).await
    }

    /// Runs it to its end on an input.
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

    /// Starts one that stays and is spoken to.
    pub async fn worker(&self, program: Program<'_>) -> Result<LineProcess, RunError> {
        let launch = self.launch(program, StdioMode::InputAndOutput)?;
        let running = launch.start().await.map_err(|error| RunError::Unavailable(error.to_string()))?;
        Ok(LineProcess::new(running))
    }

    fn launch(&self, program: Program<'_>, wiring: StdioMode) -> Result<Launch, RunError> {
        let Program { name, arguments, directory, stderr: complaints, .. } = program;
        let found =
            self.find(name).ok_or_else(|| RunError::Unavailable(format!("there is no program `{name}`")))?;
        // A shell only to send the complaints away; the arguments pass through it untouched.
        let script = match complaints {
            StderrMode::Merge => r#"exec "$0" "$@""#,
            StderrMode::Discard => r#"exec "$0" "$@" 2>/dev/null"#,
        };
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
