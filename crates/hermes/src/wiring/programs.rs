//! Programs of this machine that are asked for something: checkers of source files, helpers that know a credential.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_config::Env;
use hermes_exec::{Complaints, Program, ProgramEnd, Programs, Reach, Sandbox, Variables, fleeting};
use hermes_model::credential::{CommandFailure, CommandLine, Commands};
use hermes_tools::{Lint, Linter};
use hermes_types::{BoxFuture, Cancel, Clock};

use super::child_variables;

const LINT_LIMIT: Duration = Duration::from_secs(30);
const CREDENTIAL_LIMIT: Duration = Duration::from_secs(30);

/// How a checker gets the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Input,
    /// A copy in a folder of its own, named behind the arguments.
    Copy,
}

/// Endings, the program for each, its arguments, and how it gets the text. Each reads that text and follows nothing in it.
const CHECKERS: [(&str, &str, &[&str], Given); 5] = [
    (
        "py",
        "python3",
        &["-I", "-c", "import sys; compile(sys.stdin.buffer.read(), 'the file', 'exec')"],
        Given::Input,
    ),
    ("js", "node", &["--check"], Given::Copy),
    ("ts", "tsc", &["--noEmit", "--noResolve", "--pretty", "false", "--skipLibCheck"], Given::Copy),
    ("go", "gofmt", &["-l", "-e"], Given::Input),
    // From its input it follows no module to another file.
    ("rs", "rustfmt", &["--check"], Given::Input),
];
/// What a checker says when it is the checker that is wrong, not the file.
const CANNOT_RUN: [&str; 1] = ["this is not the tsc command you are looking for"];

/// Checks files with the program of their language, where there is one, inside the fence.
pub(crate) struct Checkers {
    programs: Programs,
    sandbox: Sandbox,
    temp: PathBuf,
}

impl Checkers {
    pub(crate) fn new(env: &Env, clock: Arc<dyn Clock>, sandbox: Sandbox, temp: PathBuf) -> Self {
        let programs = Programs::new(child_variables(env, &[]), clock);
        Self { programs, sandbox: sandbox.reaching(Reach::ThisMachine), temp }
    }

    async fn check(&self, path: &Path, text: &str, cancel: &Cancel) -> Lint {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
        let Some((_, name, before, given)) = CHECKERS.iter().find(|(known, ..)| *known == ending) else {
            return Lint::Skipped(format!("no check for .{ending} files"));
        };
        if self.programs.find(name).is_none() {
            return Lint::Skipped(format!("{name} is not installed"));
        }
        let folder = match CheckFolder::make(&self.temp) {
            Ok(folder) => folder,
            Err(error) => return Lint::Skipped(format!("there is no place to check it: {error}")),
        };
        let mut arguments: Vec<OsString> = before.iter().map(OsString::from).collect();
        if *given == Given::Copy {
            let copy = folder.0.join(path.file_name().unwrap_or_default());
            if let Err(error) = std::fs::write(&copy, text) {
                return Lint::Skipped(format!("there is no place to check it: {error}"));
            }
            arguments.push(copy.into_os_string());
        }
        // Not beside the file: what lies there could choose another program, as a toolchain file does for rustfmt.
        let directory = folder.0.as_path();
        let complaints = Complaints::Keep;
        let program = Program { name, arguments, directory, limit: LINT_LIMIT, complaints };
        let input = (*given == Given::Input).then_some(text.as_bytes());
        let programs = self.programs.within(self.sandbox.clone(), directory);
        match programs.output_for(program, input, cancel).await {
            Ok((_, ProgramEnd::Exited(0))) => Lint::Ok,
            Ok((output, ProgramEnd::Exited(_))) => {
                let lower = output.to_lowercase();
                if CANNOT_RUN.iter().any(|words| lower.contains(words)) {
                    return Lint::Skipped(format!("{name} cannot check this file here"));
                }
                let output = output.replace(&format!("{}/", directory.display()), "");
                // Without the files around it only its syntax can be judged.
                let output = if *name == "tsc" { syntax_errors(&output) } else { output };
                if output.trim().is_empty() { Lint::Ok } else { Lint::Error(output.trim().to_owned()) }
            }
            Ok((_, ProgramEnd::TooSlow | ProgramEnd::Cancelled)) => {
                Lint::Skipped(format!("{name} took too long"))
            }
            Err(error) => Lint::Skipped(error.to_string()),
        }
    }
}

fn syntax_errors(output: &str) -> String {
    output.lines().filter(|line| line.contains("error TS1")).collect::<Vec<_>>().join("\n")
}

/// An empty folder for one check, removed with it.
struct CheckFolder(PathBuf);

impl CheckFolder {
    fn make(temp: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = fleeting(temp, "hermes-check-");
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for CheckFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Linter for Checkers {
    fn lint<'a>(&'a self, path: &'a Path, text: &'a str, cancel: &'a Cancel) -> BoxFuture<'a, Lint> {
        Box::pin(self.check(path, text, cancel))
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
