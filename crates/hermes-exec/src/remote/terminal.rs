//! A process on a remote terminal, reached through a client on a local terminal.
//!
//! The script is uploaded as a file first, so that no argument list shows it; the file removes itself. The
//! process starts with the state of the task's shell: folder, exports, functions, aliases.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, Clock, CommandOutput, Environment, RunError, ShellCommand, random_hex};

use super::RemoteShellSession;
use super::script::FrameMarks;
use crate::background::{BackgroundProcess, BackgroundSetup, RemoteEnd, TerminalMode};
use crate::child::{Launch, RunningChild};
use crate::shell::quote;

const BRING_LIMIT: Duration = Duration::from_secs(30);
/// The time the process has to start.
const PATIENCE: Duration = Duration::from_secs(20);
const CHUNK: usize = 4096;
/// The number of bytes before the start above which the output is not taken for a client's message.
const MOST_BEFORE: usize = 64 * 1024;

impl RemoteShellSession {
    /// Starts a background process on a remote terminal that can be written to; returns `None` where there
    /// are no terminals. The process ends with the connection. Cancelling `owner` ends the monitoring and the
    /// connection.
    pub async fn start_on_terminal(
        self: &Arc<Self>,
        command: &str,
        directory: Option<&Path>,
        clock: Arc<dyn Clock>,
        owner: &Cancel,
    ) -> Result<Option<BackgroundProcess>, RunError> {
        let id = random_hex(12);
        let (file, marks) = (format!("/tmp/hermes_bg_{id}.sh"), FrameMarks::new(&id));
        let Some(launch) = self.terminal_launch(&format!("exec bash --norc {file}")) else { return Ok(None) };
        let directory = directory.map_or_else(|| PathBuf::from(self.directory()), Path::to_owned);
        self.upload_script(&file, &script(&file, &marks, command), &directory, owner).await?;
        let (running, begun) = begin(launch, &marks, &*clock, owner).await?;
        let far = Some(RemoteEnd { pid: begun.pid, session: Arc::clone(self) });
        let ear = BackgroundSetup {
            running,
            initial_output: begun.rest,
            directory,
            terminal: TerminalMode::Pty,
            remote_end: far,
            clock,
        };
        Ok(Some(BackgroundProcess::monitor(ear, (), owner)))
    }

    /// Writes the file: the current state of the shell, then the script.
    async fn upload_script(
        &self,
        file: &str,
        script: &str,
        directory: &Path,
        cancel: &Cancel,
    ) -> Result<(), RunError> {
        let shell = format!(
            "( umask 077; unset -f __hermes_end; {{ shopt -p; alias -p; declare -f; export -p; \
             printf 'cd -- %q\\n' \"$PWD\"; cat; }} >| {file} )"
        );
        let stdin = Some(script.as_bytes());
        let command = ShellCommand { shell: &shell, directory: Some(directory), stdin, timeout: BRING_LIMIT };
        let CommandOutput { output, exit_code } = self.run(command, cancel).await?;
        if exit_code == 0 {
            return Ok(());
        }
        Err(RunError::Unavailable(format!("it could not be brought there (exit code {exit_code}): {output}")))
    }
}

/// Returns the script that reports its pid and is replaced by the command.
fn script(file: &str, marks: &FrameMarks, command: &str) -> String {
    let mark = &marks.begin;
    format!(
        "command rm -f -- {file}\nexport PYTHONUNBUFFERED=1\n\
         builtin printf '{mark}%s{mark}\\n' \"$$\"\neval {}\n",
        quote(command)
    )
}

struct StartedTerminal {
    pid: u32,
    /// The output after the report.
    rest: Vec<u8>,
}

/// Starts the client and waits until the remote side reports that the process runs.
async fn begin(
    launch: Launch,
    marks: &FrameMarks,
    clock: &dyn Clock,
    cancel: &Cancel,
) -> Result<(RunningChild, StartedTerminal), RunError> {
    let failed = |error: std::io::Error| RunError::Unavailable(error.to_string());
    let running = launch.start().await.map_err(failed)?;
    let (mut heard, mut buffer) = (Vec::new(), vec![0; CHUNK]);
    let mut out_of_patience = clock.sleep(PATIENCE);
    loop {
        if let Some(begun) = find_begin(&heard, &marks.begin) {
            return Ok((running, begun));
        }
        let count = tokio::select! {
            biased;
            () = cancel.cancelled() => 0,
            () = &mut out_of_patience => 0,
            read = running.output.read(&mut buffer) => read.map_err(failed)?,
        };
        heard.extend_from_slice(buffer.get(..count).unwrap_or_default());
        if count == 0 || heard.len() > MOST_BEFORE {
            let said = String::from_utf8_lossy(&heard);
            return Err(RunError::Unavailable(format!(
                "nothing could be started on a terminal there: {}",
                said.trim()
            )));
        }
    }
}

fn find_begin(heard: &[u8], mark: &str) -> Option<StartedTerminal> {
    let text = String::from_utf8_lossy(heard);
    let (_, after) = text.split_once(mark)?;
    let (pid, _) = after.split_once(mark)?;
    let line = format!("{mark}{pid}{mark}");
    let start = heard.windows(line.len()).position(|window| window == line.as_bytes())? + line.len();
    let end = start + heard.get(start..)?.iter().position(|byte| *byte == b'\n')? + 1;
    Some(StartedTerminal { pid: pid.parse().ok()?, rest: heard.get(end..)?.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_found_whole_or_not_at_all() {
        let check = |heard: &[u8], expected: Option<(u32, &[u8])>| {
            let found = find_begin(heard, "MM");
            assert_eq!(found.as_ref().map(|begun| (begun.pid, begun.rest.as_slice())), expected);
        };
        check(b"", None);
        check(b"banner MM12", None);
        check(b"banner\xff MM12MM\r", None);
        check(b"banner\xff MM12MM\r\nrest\xff", Some((12, b"rest\xff")));
        check(b"MMxMM\n", None);
    }
}
