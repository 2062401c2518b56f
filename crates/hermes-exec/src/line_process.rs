//! A program that keeps running and answers each line it reads with a line.

use std::time::Duration;

use hermes_types::{Clock, RunError};

use crate::child::RunningChild;
use crate::group::ProcessGroup;
use crate::stream::Stream;

const CHUNK: usize = 16 * 1024;
const LONGEST_LINE: usize = 1024 * 1024;

/// A running program; dropping the value ends it.
#[derive(Debug)]
pub struct LineProcess {
    running: RunningChild,
    buffered: Vec<u8>,
}

impl LineProcess {
    pub(crate) fn new(running: RunningChild) -> Self {
        Self { running, buffered: Vec::new() }
    }

    /// Writes one line and waits for one line. After an error the program can no longer be used.
    pub async fn ask(&mut self, line: &str, limit: Duration, clock: &dyn Clock) -> Result<String, RunError> {
        let conversation = async {
            let Some(input) = &self.running.input else {
                return Err(RunError::Unavailable("it takes no input".to_owned()));
            };
            input.write_all(format!("{line}\n").as_bytes()).await.map_err(process_ended)?;
            self.read_line().await
        };
        tokio::select! {
            answer = conversation => answer,
            () = clock.sleep(limit) => Err(RunError::Unavailable(format!("no answer within {} s", limit.as_secs()))),
        }
    }

    /// Returns the next line the program writes. Dropping the future loses nothing.
    pub(crate) async fn read_line(&mut self) -> Result<String, RunError> {
        let mut buffer = vec![0; CHUNK];
        loop {
            if let Some(end) = self.buffered.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffered.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.buffered.len() > LONGEST_LINE {
                return Err(RunError::Unavailable("its answer is too long".to_owned()));
            }
            match self.running.output.read(&mut buffer).await.map_err(process_ended)? {
                0 => return Err(RunError::Unavailable("it has ended".to_owned())),
                count => self.buffered.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            }
        }
    }

    /// Returns the program's input for concurrent writing; dropping it closes the input.
    pub(crate) fn take_input(&mut self) -> Option<Stream> {
        self.running.input.take()
    }

    pub(crate) fn group(&self) -> ProcessGroup {
        self.running.group()
    }

    /// Kills what is left of the program and returns its exit code.
    pub(crate) async fn kill_and_reap(mut self) -> i32 {
        self.running.group().kill();
        self.running.wait().await.unwrap_or(-1)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn process_ended(error: std::io::Error) -> RunError {
    RunError::Unavailable(error.to_string())
}
