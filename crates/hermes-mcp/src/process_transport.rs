//! The transport to a server that is a program: one JSON message per line.
//!
//! The program runs with the variables that its entry names and a short base set, and ends with the connection or
//! with Hermes, together with everything it started.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_exec::{PipeWriter, PipedLine, PipedProcess};
use hermes_types::Clock;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;

/// The longest message, in bytes.
pub(crate) const LONGEST_LINE: usize = 32 * 1024 * 1024;
/// The lines of standard error that are kept for an error text.
const KEPT_LINES: usize = 5;
/// The time a program has to end after its input is closed.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// Limits the wait for standard error of a program that has ended.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);

/// The connection to a program.
pub(crate) struct ProcessTransport {
    process: Option<PipedProcess>,
    input: Option<PipeWriter>,
    stderr_tail: StderrTail,
    clock: Arc<dyn Clock>,
}

/// The last lines of a program's standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail(Arc<Mutex<VecDeque<String>>>);

impl StderrTail {
    fn add(&self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    /// Returns the lines as one text.
    pub(crate) fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" | ")
    }
}

impl ProcessTransport {
    pub(crate) fn new(mut process: PipedProcess, stderr_tail: StderrTail, clock: Arc<dyn Clock>) -> Self {
        let input = process.take_input();
        Self { process: Some(process), input, stderr_tail, clock }
    }
}

impl Transport<RoleClient> for ProcessTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let input = self.input.clone();
        async move {
            let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the server has ended");
            match input.ok_or_else(closed)?.write_line(&serde_json::to_vec(&item)?).await {
                // The program has ended. The end of its output says so too, after what it wrote to standard error.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                written => written,
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let process = self.process.as_mut()?;
        loop {
            match process.next_line().await {
                Ok(Some(PipedLine::Output(line))) => {
                    if line.iter().all(u8::is_ascii_whitespace) {
                        continue;
                    }
                    match serde_json::from_slice(&line) {
                        Ok(message) => return Some(message),
                        Err(error) => {
                            tracing::debug!(%error, bytes = line.len(), "an MCP server wrote a line that is no message");
                        }
                    }
                }
                Ok(Some(PipedLine::Stderr(line))) => self.stderr_tail.add(&line),
                Ok(None) => {
                    for line in process.remaining_stderr(STDERR_TIMEOUT, &*self.clock).await.lines() {
                        self.stderr_tail.add(line);
                    }
                    return None;
                }
                Err(error) => {
                    tracing::warn!(%error, "the output of an MCP server cannot be read");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        drop(self.input.take());
        if let Some(process) = self.process.take() {
            process.stop(STOP_GRACE, &*self.clock).await;
        }
        Ok(())
    }
}
