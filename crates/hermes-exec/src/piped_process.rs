//! A program that keeps running and exchanges lines with Hermes in both directions at any time.
//!
//! Holds the pipes and the end of the process. What the lines mean is up to the caller. Invariant: a line longer than
//! the limit ends the conversation, so that a program cannot make Hermes keep arbitrary amounts of its output.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::Clock;
use tokio::sync::Mutex;

use crate::child::RunningChild;
use crate::stream::Stream;

const CHUNK: usize = 16 * 1024;

/// A running program with pipes for its three standard descriptors. Dropping the value kills it with everything it
/// started.
#[derive(Debug)]
pub struct PipedProcess {
    running: RunningChild,
    output: LineBuffer,
    stderr: LineBuffer,
    end: MessageEnd,
}

/// The byte after each message that a program and Hermes exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageEnd {
    Newline,
    Zero,
}

impl MessageEnd {
    fn byte(self) -> u8 {
        match self {
            Self::Newline => b'\n',
            Self::Zero => 0,
        }
    }
}

/// Writes lines to the input of a [`PipedProcess`]. The input is closed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct PipeWriter {
    input: Arc<Mutex<Stream>>,
    end: MessageEnd,
}

impl PipeWriter {
    /// Writes one line, or one message; those of several callers do not mix.
    pub async fn write_line(&self, line: &[u8]) -> io::Result<()> {
        let input = self.input.lock().await;
        input.write_all(line).await?;
        input.write_all(&[self.end.byte()]).await
    }
}

/// A line of a [`PipedProcess`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipedLine {
    Output(Vec<u8>),
    /// A line on standard error, cut where it is too long.
    Stderr(String),
}

impl PipedProcess {
    pub(crate) fn new(running: RunningChild, longest_line: usize, end: MessageEnd) -> Self {
        Self {
            running,
            output: LineBuffer::new(longest_line, end),
            stderr: LineBuffer::new(longest_line.min(CHUNK), MessageEnd::Newline),
            end,
        }
    }

    /// Returns the writer to the program's input; only the first call does.
    pub fn take_input(&mut self) -> Option<PipeWriter> {
        Some(PipeWriter { input: Arc::new(Mutex::new(self.running.input.take()?)), end: self.end })
    }

    pub fn pid(&self) -> u32 {
        self.running.group().pid()
    }

    /// Returns the next line, or `None` when the program has closed its output. Dropping the future loses nothing.
    pub async fn next_line(&mut self) -> io::Result<Option<PipedLine>> {
        let (mut first, mut second) = (vec![0; CHUNK], vec![0; CHUNK]);
        loop {
            if let Some(line) = self.output.take_line() {
                return Ok(Some(PipedLine::Output(line)));
            }
            if let Some(line) = self.stderr.take_line() {
                return Ok(Some(PipedLine::Stderr(String::from_utf8_lossy(&line).into_owned())));
            }
            if self.output.is_too_long() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line of its output is too long"));
            }
            if self.stderr.is_too_long() {
                let rest = self.stderr.take_all();
                return Ok(Some(PipedLine::Stderr(String::from_utf8_lossy(&rest).into_owned())));
            }
            let (output, stderr, _) = self.running.outputs_and_reaper();
            let has_stderr = stderr.is_some() && !self.stderr.is_closed;
            tokio::select! {
                biased;
                count = output.read(&mut first) => match count? {
                    0 => return Ok(None),
                    count => self.output.push(first.get(..count).unwrap_or_default()),
                },
                count = read_optional(stderr, &mut second), if has_stderr => match count {
                    0 => self.stderr.is_closed = true,
                    count => self.stderr.push(second.get(..count).unwrap_or_default()),
                },
            }
        }
    }

    /// Returns what the program has written to standard error since the last line, as far as it is there.
    pub async fn remaining_stderr(&mut self, wait: Duration, clock: &dyn Clock) -> String {
        let mut enough = clock.sleep(wait);
        let mut buffer = vec![0; CHUNK];
        while !self.stderr.is_closed && !self.stderr.is_too_long() {
            let (_, stderr, _) = self.running.outputs_and_reaper();
            tokio::select! {
                biased;
                count = read_optional(stderr, &mut buffer) => match count {
                    0 => self.stderr.is_closed = true,
                    count => self.stderr.push(buffer.get(..count).unwrap_or_default()),
                },
                () = &mut enough => break,
            }
        }
        String::from_utf8_lossy(&self.stderr.take_all()).into_owned()
    }

    /// Waits until the program has exited and returns its exit code. Its input should be closed before, and its output read.
    pub async fn wait(&mut self) -> io::Result<i32> {
        self.running.wait().await
    }

    /// Ends the program and everything it started: closes its input, waits for `grace`, then asks it to terminate,
    /// then kills it.
    pub async fn stop(mut self, grace: Duration, clock: &dyn Clock) {
        drop(self.running.input.take());
        let ended = tokio::select! {
            biased;
            code = self.running.wait() => code.is_ok(),
            () = clock.sleep(grace) => false,
        };
        let group = self.running.group();
        if !ended {
            let ((), _) = tokio::join!(group.terminate(clock), self.running.wait());
        }
        group.kill();
    }
}

async fn read_optional(stream: Option<&Stream>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}

/// The bytes of a pipe that are not a whole line yet.
#[derive(Debug)]
struct LineBuffer {
    bytes: Vec<u8>,
    /// The bytes in which no line end was found.
    searched: usize,
    limit: usize,
    end: MessageEnd,
    is_closed: bool,
}

impl LineBuffer {
    fn new(limit: usize, end: MessageEnd) -> Self {
        Self { bytes: Vec::new(), searched: 0, limit, end, is_closed: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let unsearched = self.bytes.get(self.searched..).unwrap_or_default();
        let Some(end) = unsearched.iter().position(|byte| *byte == self.end.byte()) else {
            self.searched = self.bytes.len();
            return None;
        };
        let rest = self.bytes.split_off(self.searched + end + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        self.searched = 0;
        line.pop();
        while self.end == MessageEnd::Newline && line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r'))
        {
            line.pop();
        }
        Some(line)
    }

    fn take_all(&mut self) -> Vec<u8> {
        self.searched = 0;
        std::mem::take(&mut self.bytes)
    }

    fn is_too_long(&self) -> bool {
        self.bytes.len() > self.limit
    }
}
