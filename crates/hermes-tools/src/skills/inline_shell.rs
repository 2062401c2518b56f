//! Runs the commands that the user allowed skills to have in their texts (`skills.inline_shell`).

use std::path::PathBuf;
use std::time::Duration;

use hermes_exec::{Program, ProgramExit, ProgramRunner, StderrMode};
use hermes_types::Cancel;

/// Runs commands in the sandbox of the conversation.
#[derive(Debug, Clone)]
pub struct InlineShell {
    programs: ProgramRunner,
    folder: PathBuf,
    limit: Duration,
}

impl InlineShell {
    pub fn new(programs: ProgramRunner, folder: PathBuf, limit: Duration) -> Self {
        Self { programs, folder, limit }
    }

    /// Runs commands one after another and returns the output of each, or why there is none.
    pub(super) async fn run(&self, commands: &[String], cancel: &Cancel) -> Vec<String> {
        let mut outputs = Vec::with_capacity(commands.len());
        for command in commands {
            outputs.push(self.run_one(command, cancel).await);
        }
        outputs
    }

    async fn run_one(&self, command: &str, cancel: &Cancel) -> String {
        let program = Program {
            name: "sh",
            arguments: vec!["-c".into(), command.into()],
            directory: &self.folder,
            limit: self.limit,
            stderr: StderrMode::Merge,
        };
        match self.programs.output(program, cancel).await {
            Ok((output, ProgramExit::Exited(0))) => output,
            Ok((output, ProgramExit::Exited(code))) => {
                format!("{}\n[`{command}` ended with code {code}]", output.trim())
            }
            Ok((_, ProgramExit::TimedOut)) => {
                format!("[`{command}` took longer than {} s]", self.limit.as_secs())
            }
            Ok((_, ProgramExit::Cancelled)) => format!("[`{command}` was interrupted]"),
            Err(error) => format!("[`{command}` could not be run: {error}]"),
        }
    }
}
