//! Runs client programs: finds them, runs them for their output, and builds the arguments that start a remote
//! shell.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock};
use rustix::fs::{Access, access};

use super::{base64, script};
use crate::capture::OutputBounds;
use crate::child::{Launch, Lifetime, StdioMode};
use crate::group::KillScope;
use crate::run::{ExitCause, RunContext, run};
use crate::shell::quote;
use crate::variables::Variables;

/// A client program with the variables it gets.
#[derive(Debug, Clone)]
pub(crate) struct ClientProgram {
    pub(crate) program: PathBuf,
    pub(crate) variables: Variables,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The output of a client, and its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientOutput {
    pub(crate) code: i32,
    pub(crate) text: String,
}

/// The reasons why a client has no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{program} could not be started: {error}")]
    Start { program: String, error: io::Error },
    #[error("no response within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("it was interrupted")]
    Interrupted,
    #[error("{0}")]
    Refused(String),
}

impl ClientProgram {
    /// Runs the client until it exits.
    pub(crate) async fn run(
        &self,
        arguments: &[String],
        stdin: Option<&[u8]>,
        limit: Duration,
        cancel: &Cancel,
    ) -> Result<ClientOutput, CliError> {
        let wiring = if stdin.is_some() { StdioMode::InputAndOutput } else { StdioMode::OutputOnly };
        let watch = RunContext { limit, clock: &*self.clock, cancel, bounds: OutputBounds::default() };
        let ran = run(self.launch(arguments, wiring), stdin, watch)
            .await
            .map_err(|error| self.not_started(error))?;
        match ran.exit_cause {
            ExitCause::Exited(code) => Ok(ClientOutput { code, text: ran.output.text().trim().to_owned() }),
            ExitCause::TimedOut => Err(CliError::TimedOut(limit)),
            ExitCause::Interrupted => Err(CliError::Interrupted),
        }
    }

    /// Runs the client without waiting for its result, if there is still a runtime.
    pub(crate) fn run_in_background(&self, arguments: &[&str], limit: Duration) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (cli, words) = (self.clone(), arguments.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        spawn_named(words.join(" "), &Cancel::new(), async move {
            cli.run(&words, None, limit, &Cancel::new()).await
        });
    }

    pub(crate) fn launch(&self, arguments: &[String], wiring: StdioMode) -> Launch {
        Launch {
            program: self.program.clone(),
            arguments: arguments.iter().map(OsString::from).collect(),
            variables: self.variables.pairs(),
            directory: PathBuf::from("/"),
            lifetime: Lifetime::Bound,
            scope: KillScope::Group,
            stdio: wiring,
            sandbox: None,
        }
    }

    pub(crate) fn not_started(&self, error: io::Error) -> CliError {
        CliError::Start { program: self.program.display().to_string(), error }
    }
}

/// The transport to a shell: a client and the arguments before `bash`.
#[derive(Debug, Clone)]
pub(crate) struct CliTransport {
    pub(crate) cli: ClientProgram,
    pub(crate) prefix_arguments: Vec<String>,
    pub(crate) form: CommandForm,
}

/// Selects how the client takes the program to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandForm {
    /// The program and its arguments are separate arguments.
    Arguments,
    /// The program is one line that a remote shell reads.
    ShellLine,
}

/// Selects whether the shell reads the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProfileLoading {
    Read,
    Skipped,
}

impl ProfileLoading {
    /// Returns the option of bash.
    fn option(self) -> &'static str {
        match self {
            Self::Read => "-l",
            // A bash started over SSH would read `~/.bashrc` each time, which may take long.
            Self::Skipped => "--norc",
        }
    }
}

/// Returns a command line without single quotes that starts a bash which reads its script in base64 from the
/// standard input.
pub(crate) fn bash_fed_with_base64(profile: ProfileLoading) -> String {
    let loader = base64::encode(script::LOADER.as_bytes());
    format!("base64 -d | bash {} -c \"$(printf %s {loader} | base64 -d)\"", profile.option())
}

/// Returns the arguments that start a bash which reads its script from the standard input.
pub(crate) fn bash_fed_by_script(profile: ProfileLoading) -> [&'static str; 4] {
    ["bash", profile.option(), "-c", script::LOADER]
}

impl CliTransport {
    /// Returns the client's arguments for a bash that reads its script from the standard input.
    pub(crate) fn arguments(&self, profile: ProfileLoading) -> Vec<String> {
        let [bash, option, flag, loader] = bash_fed_by_script(profile);
        let mut arguments = self.prefix_arguments.clone();
        match self.form {
            CommandForm::Arguments => arguments.extend([bash, option, flag, loader].map(str::to_owned)),
            CommandForm::ShellLine => {
                arguments.push(format!("exec {bash} {option} {flag} {}", quote(loader)));
            }
        }
        arguments
    }

    /// Ends a remote process group: a termination request, a second of grace, then a kill.
    pub(crate) async fn end_group(&self, group: u32) {
        const LIMIT: Duration = Duration::from_secs(8);
        let payload = script::payload(&script::end_group_script(group), None);
        let asked = self
            .cli
            .run(&self.arguments(ProfileLoading::Skipped), Some(&payload), LIMIT, &Cancel::new())
            .await;
        if let Err(error) = asked {
            tracing::warn!(%error, group, "a process over there could not be ended");
        }
    }
}

/// The result of the search for a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgramLookup {
    Program(PathBuf),
    /// The program exists and is not executable.
    NotExecutable(PathBuf),
    Missing,
}

/// Searches PATH, then the usual folders; an earlier name takes precedence over an earlier folder.
pub(crate) fn find_program(names: &[&str], variables: &Variables, places: &[&str]) -> ProgramLookup {
    let path = variables.get("PATH").unwrap_or_default();
    let folders: Vec<&Path> = path
        .split(':')
        .chain(places.iter().copied())
        .filter(|folder| folder.starts_with('/'))
        .map(Path::new)
        .collect();
    let mut locked = None;
    for name in names {
        for file in folders.iter().map(|folder| folder.join(name)).filter(|file| file.is_file()) {
            if access(&file, Access::EXEC_OK).is_ok() {
                return ProgramLookup::Program(file);
            }
            locked.get_or_insert(file);
        }
    }
    locked.map_or(ProgramLookup::Missing, ProgramLookup::NotExecutable)
}
