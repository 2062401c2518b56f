//! Programs of this machine that are asked for something: checkers of source files, helpers that know a credential.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_config::Env;
use hermes_exec::{Complaints, Program, ProgramEnd, Programs, Variables};
use hermes_model::credential::{CommandFailure, CommandLine, Commands};
use hermes_tools::{Lint, Linter};
use hermes_types::{BoxFuture, Cancel, Clock};

use super::child_variables;

const LINT_LIMIT: Duration = Duration::from_secs(30);
const CREDENTIAL_LIMIT: Duration = Duration::from_secs(30);

/// Endings, the program for each, and its arguments before the file.
const CHECKERS: [(&str, &str, &[&str]); 5] = [
    // Reads it without leaving a compiled file beside it.
    (
        "py",
        "python3",
        &["-I", "-c", "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')"],
    ),
    ("js", "node", &["--check"]),
    // The machine's own, never the project's: a command could have put another program there, and these run outside the
    // fence.
    ("ts", "tsc", &["--noEmit"]),
    // Reads the file and runs nothing of the project, unlike `go vet`.
    ("go", "gofmt", &["-l", "-e"]),
    ("rs", "rustfmt", &["--check"]),
];
/// What a checker says when it is the checker that is wrong, not the file.
const CANNOT_RUN: [&str; 1] = ["this is not the tsc command you are looking for"];

/// Checks files with the program of their language, where there is one.
pub(crate) struct Checkers(Programs);

impl Checkers {
    pub(crate) fn new(env: &Env, clock: Arc<dyn Clock>) -> Self {
        Self(Programs::new(child_variables(env, &[]), clock))
    }

    async fn check(&self, path: &Path, cancel: &Cancel) -> Lint {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
        let Some((_, name, before)) = CHECKERS.iter().find(|(known, ..)| *known == ending) else {
            return Lint::Skipped(format!("no check for .{ending} files"));
        };
        if self.0.find(name).is_none() {
            return Lint::Skipped(format!("{name} is not installed"));
        }
        let mut arguments: Vec<OsString> = before.iter().map(OsString::from).collect();
        arguments.push(path.as_os_str().to_owned());
        // Not beside the file: what lies there could choose another program, as a toolchain file does for rustfmt.
        let directory = Path::new("/");
        let complaints = Complaints::Keep;
        let program = Program { name, arguments, directory, limit: LINT_LIMIT, complaints };
        match self.0.output(program, cancel).await {
            Ok((_, ProgramEnd::Exited(0))) => Lint::Ok,
            Ok((output, ProgramEnd::Exited(_))) => {
                let lower = output.to_lowercase();
                if CANNOT_RUN.iter().any(|words| lower.contains(words)) {
                    return Lint::Skipped(format!("{name} cannot check this file here"));
                }
                Lint::Error(output.trim().to_owned())
            }
            Ok((_, ProgramEnd::TooSlow | ProgramEnd::Cancelled)) => {
                Lint::Skipped(format!("{name} took too long"))
            }
            Err(error) => Lint::Skipped(error.to_string()),
        }
    }
}

impl Linter for Checkers {
    fn lint<'a>(&'a self, path: &'a Path, cancel: &'a Cancel) -> BoxFuture<'a, Lint> {
        Box::pin(self.check(path, cancel))
    }
}

/// Programs that know a credential, such as `gh` or one named in an AWS profile. They get the user's own environment.
#[derive(Debug)]
pub(crate) struct Helpers(Programs);

impl Helpers {
    pub(crate) fn new(env: &Env, clock: Arc<dyn Clock>) -> Self {
        let names: Vec<String> = env.iter().map(|(name, _)| name.to_owned()).collect();
        Self(Programs::new(Variables::for_commands(env.iter(), &names, &[]), clock))
    }
}

impl Commands for Helpers {
    fn output<'a>(
        &'a self,
        line: &'a CommandLine,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Vec<u8>, CommandFailure>> {
        Box::pin(async move {
            let directory = PathBuf::from("/");
            let program = Program {
                name: &line.program,
                arguments: line.arguments.iter().map(OsString::from).collect(),
                directory: &directory,
                limit: CREDENTIAL_LIMIT,
                complaints: Complaints::Drop,
            };
            match self.0.output(program, cancel).await {
                Ok((output, ProgramEnd::Exited(0))) => Ok(output.into_bytes()),
                Ok((_, ProgramEnd::Exited(code))) => Err(CommandFailure::Failed(code)),
                Ok((_, ProgramEnd::TooSlow)) => Err(CommandFailure::TooSlow),
                Ok((_, ProgramEnd::Cancelled)) => Err(CommandFailure::Cancelled),
                Err(error) => Err(CommandFailure::NotStarted(error.to_string())),
            }
        })
    }
}
