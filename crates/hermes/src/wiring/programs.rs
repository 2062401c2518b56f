//! Runs helper programs of this machine: checkers of source files, and helpers that provide a credential.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_config::Env;
use hermes_exec::{
    NetworkReach, Program, ProgramExit, ProgramRunner, Sandbox, StderrMode, Variables, remove_on_exit,
};
use hermes_model::credential::{CommandFailure, CommandRunner, ProgramInvocation};
use hermes_tools::{LintResult, Linter};
use hermes_types::{BoxFuture, Cancel, Clock};

use super::child_variables;

const LINT_LIMIT: Duration = Duration::from_secs(30);
const CREDENTIAL_LIMIT: Duration = Duration::from_secs(30);

/// Says how a checker gets the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckerInput {
    Stdin,
    /// Passes a copy in a temporary folder as the last argument.
    Copy,
}

/// Lists file extensions, their programs, arguments and inputs. Each program reads only that text and follows no
/// reference in it.
const CHECKERS: [(&str, &str, &[&str], CheckerInput); 5] = [
    (
        "py",
        "python3",
        &["-I", "-c", "import sys; compile(sys.stdin.buffer.read(), 'the file', 'exec')"],
        CheckerInput::Stdin,
    ),
    ("js", "node", &["--check"], CheckerInput::Copy),
    ("ts", "tsc", &["--noEmit", "--noResolve", "--pretty", "false", "--skipLibCheck"], CheckerInput::Copy),
    ("go", "gofmt", &["-l", "-e"], CheckerInput::Stdin),
    // Reading standard input, it does not follow modules to other files.
    ("rs", "rustfmt", &["--check"], CheckerInput::Stdin),
];
/// The messages with which a checker reports its own failure, not that of the file.
const CANNOT_RUN: [&str; 1] = ["this is not the tsc command you are looking for"];

/// Checks files with the program of their language, where there is one, inside the sandbox.
pub(crate) struct SourceCheckers {
    programs: ProgramRunner,
    sandbox: Sandbox,
    temp: PathBuf,
}

impl SourceCheckers {
    pub(crate) fn new(env: &Env, clock: Arc<dyn Clock>, sandbox: Sandbox, temp: PathBuf) -> Self {
        let programs = ProgramRunner::new(child_variables(env, &[]), clock);
        Self { programs, sandbox: sandbox.with_network_reach(NetworkReach::ThisMachine), temp }
    }

    async fn check(&self, path: &Path, text: &str, cancel: &Cancel) -> LintResult {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
        let Some((_, name, before, given)) = CHECKERS.iter().find(|(known, ..)| *known == ending) else {
            return LintResult::Skipped(format!("no check for .{ending} files"));
        };
        if self.programs.find(name).is_none() {
            return LintResult::Skipped(format!("{name} is not installed"));
        }
        let folder = match CheckFolder::make(&self.temp) {
            Ok(folder) => folder,
            Err(error) => return LintResult::Skipped(format!("there is no place to check it: {error}")),
        };
        let mut arguments: Vec<OsString> = before.iter().map(OsString::from).collect();
        if *given == CheckerInput::Copy {
            let copy = folder.0.join(path.file_name().unwrap_or_default());
            if let Err(error) = std::fs::write(&copy, text) {
                return LintResult::Skipped(format!("there is no place to check it: {error}"));
            }
            arguments.push(copy.into_os_string());
        }
        // Not beside the file: files there could select another program, as a toolchain file does for rustfmt.
        let directory = folder.0.as_path();
        let complaints = StderrMode::Merge;
        let program = Program { name, arguments, directory, limit: LINT_LIMIT, stderr: complaints };
        let input = (*given == CheckerInput::Stdin).then_some(text.as_bytes());
        let programs = self.programs.in_sandbox(self.sandbox.clone(), directory);
        match programs.output_for(program, input, cancel).await {
            Ok((_, ProgramExit::Exited(0))) => LintResult::Ok,
            Ok((output, ProgramExit::Exited(_))) => {
                let lower = output.to_lowercase();
                if CANNOT_RUN.iter().any(|words| lower.contains(words)) {
                    return LintResult::Skipped(format!("{name} cannot check this file here"));
                }
                let output = output.replace(&format!("{}/", directory.display()), "");
                // Without the files around it only the syntax can be checked.
                let output = if *name == "tsc" { syntax_errors(&output) } else { output };
                if output.trim().is_empty() {
                    LintResult::Ok
                } else {
                    LintResult::Error(output.trim().to_owned())
                }
            }
            Ok((_, ProgramExit::TimedOut | ProgramExit::Cancelled)) => {
                LintResult::Skipped(format!("{name} took too long"))
            }
            Err(error) => LintResult::Skipped(error.to_string()),
        }
    }
}

fn syntax_errors(output: &str) -> String {
    output.lines().filter(|line| line.contains("error TS1")).collect::<Vec<_>>().join("\n")
}

/// A temporary folder for one check, removed when dropped.
struct CheckFolder(PathBuf);

impl CheckFolder {
    fn make(temp: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = remove_on_exit(temp, "hermes-check-");
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for CheckFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Linter for SourceCheckers {
    fn lint<'a>(&'a self, path: &'a Path, text: &'a str, cancel: &'a Cancel) -> BoxFuture<'a, LintResult> {
        Box::pin(self.check(path, text, cancel))
    }
}

/// Runs programs that provide a credential, such as `gh` or one named in an AWS profile. They get the user's
/// environment.
#[derive(Debug)]
pub(crate) struct CredentialHelpers(ProgramRunner);

impl CredentialHelpers {
    pub(crate) fn new(env: &Env, clock: Arc<dyn Clock>) -> Self {
        let names: Vec<String> = env.iter().map(|(name, _)| name.to_owned()).collect();
        Self(ProgramRunner::new(Variables::for_commands(env.iter(), &names, &[]), clock))
    }
}

impl CommandRunner for CredentialHelpers {
    fn output<'a>(
        &'a self,
        line: &'a ProgramInvocation,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Vec<u8>, CommandFailure>> {
        Box::pin(async move {
            let directory = PathBuf::from("/");
            let program = Program {
                name: &line.program,
                arguments: line.arguments.iter().map(OsString::from).collect(),
                directory: &directory,
                limit: CREDENTIAL_LIMIT,
                stderr: StderrMode::Discard,
            };
            match self.0.output(program, cancel).await {
                Ok((output, ProgramExit::Exited(0))) => Ok(output.into_bytes()),
                Ok((_, ProgramExit::Exited(code))) => Err(CommandFailure::Failed(code)),
                Ok((_, ProgramExit::TimedOut)) => Err(CommandFailure::TooSlow),
                Ok((_, ProgramExit::Cancelled)) => Err(CommandFailure::Cancelled),
                Err(error) => Err(CommandFailure::NotStarted(error.to_string())),
            }
        })
    }
}
