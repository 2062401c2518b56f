//! Background processes on this machine, which run on while the conversation continues.
//!
//! A handle holds the newest output, the input and the exit code. The holder of the handle decides how long
//! the process is remembered. Dropping every handle stops reading the output and leaves the process running.
//! A process in a remote environment is observed through a local client, and ending it ends both the client
//! and the remote process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_task::spawn_named;
use hermes_types::{Cancel, Clock};
use tokio::sync::watch;

use crate::child::{AnnouncedChild, RunningChild};
use crate::group::ProcessGroup;
use crate::remote::RemoteShellSession;
use crate::ring::RingBuffer;
use crate::stream::Stream;

const CHUNK: usize = 4096;
const IDLE: Duration = Duration::from_millis(300);
const LONGEST_DRAIN: Duration = Duration::from_secs(2);
/// The exit code reported for a process that Hermes ended.
const KILLED: i32 = -15;
const END_OF_INPUT: &[u8] = b"\x04";

/// Selects whether the process runs on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalMode {
    None,
    Pty,
}

/// A handle to a background process; clones refer to the same process.
#[derive(Debug, Clone)]
pub struct BackgroundProcess(Arc<BackgroundState>);

/// The parts from which a [`BackgroundProcess`] is made.
#[derive(Debug)]
pub(crate) struct BackgroundSetup {
    pub(crate) running: RunningChild,
    /// The output that was read before monitoring begins.
    pub(crate) initial_output: Vec<u8>,
    pub(crate) directory: PathBuf,
    pub(crate) terminal: TerminalMode,
    /// The remote process, if the local child is only a client.
    pub(crate) remote_end: Option<RemoteEnd>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The remote process behind a local client.
#[derive(Debug)]
pub(crate) struct RemoteEnd {
    pub(crate) pid: u32,
    pub(crate) session: Arc<RemoteShellSession>,
}

#[derive(Debug)]
struct BackgroundState {
    group: ProcessGroup,
    remote_end: Option<RemoteEnd>,
    directory: PathBuf,
    terminal: TerminalMode,
    clock: Arc<dyn Clock>,
    ring: Mutex<RingBuffer>,
    input: Mutex<Option<Arc<Stream>>>,
    ended: watch::Sender<Option<i32>>,
    killed: Mutex<bool>,
    /// The registration that ends the process with Hermes, held until the process has been recorded as
    /// running.
    tie: Mutex<Option<AnnouncedChild>>,
    /// A lock held while the process is being ended: the members of its process tree must stay known until
    /// then, even if the process itself has exited.
    ending: tokio::sync::Mutex<()>,
}

/// The reasons why nothing could be written to a process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("its input is closed")]
    Closed,
    #[error("it does not accept input: {0}")]
    Refused(String),
}

impl BackgroundProcess {
    /// Reads the output until the process exits or `owner` is cancelled; `held` is dropped then.
    pub(crate) fn monitor(ear: BackgroundSetup, held: impl Send + 'static, owner: &Cancel) -> Self {
        let BackgroundSetup {
            mut running,
            initial_output: heard,
            directory,
            terminal: screen,
            remote_end: far,
            clock,
        } = ear;
        let mut ring = RingBuffer::default();
        ring.push(&heard);
        let shared = Arc::new(BackgroundState {
            group: running.group(),
            remote_end: far,
            directory,
            terminal: screen,
            clock,
            ring: Mutex::new(ring),
            input: Mutex::new(running.input.take().map(Arc::new)),
            ended: watch::Sender::new(None),
            killed: Mutex::new(false),
            tie: Mutex::new(running.take_tie()),
            ending: tokio::sync::Mutex::default(),
        });
        let listener = Arc::clone(&shared);
        spawn_named(format!("process {}", shared.group.pid()), owner, async move {
            listener.read_output(running).await;
            drop(held);
        });
        Self(shared)
    }

    /// Lets the process outlive Hermes. Until this call it ends with Hermes, however Hermes ends, so callers
    /// make it once the next start can find the process.
    pub fn let_outlive(&self) {
        lock(&self.0.tie).take();
    }

    /// Returns the pid of the process in the environment where it runs.
    pub fn pid(&self) -> u32 {
        self.0.remote_end.as_ref().map_or_else(|| self.0.group.pid(), |far| far.pid)
    }

    /// Tells whether the process runs in a remote environment, where its pid has no meaning on this machine.
    pub fn is_remote(&self) -> bool {
        self.0.remote_end.is_some()
    }

    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// Returns the exit code; `None` while the process runs.
    pub fn exit_code(&self) -> Option<i32> {
        *self.0.ended.borrow()
    }

    /// Waits until the process has exited and returns its exit code.
    pub async fn ended(&self) -> i32 {
        let mut ended = self.0.ended.subscribe();
        let code = ended.wait_for(Option::is_some).await.ok().and_then(|code| *code);
        code.unwrap_or(-1)
    }

    /// Returns at most `chars` characters from the end of the output.
    pub fn output(&self, chars: usize) -> String {
        self.0.ring().last(chars).to_owned()
    }

    /// Returns the number of characters the process has written in all.
    pub fn total_chars(&self) -> u64 {
        self.0.ring().total()
    }

    pub async fn write(&self, bytes: &[u8]) -> Result<(), InputError> {
        let input = lock(&self.0.input).clone().ok_or(InputError::Closed)?;
        input.write_all(bytes).await.map_err(|error| InputError::Refused(error.to_string()))
    }

    /// Closes the standard input of the process.
    pub async fn close_input(&self) -> Result<(), InputError> {
        if self.0.terminal == TerminalMode::Pty {
            return self.write(END_OF_INPUT).await;
        }
        lock(&self.0.input).take().map(drop).ok_or(InputError::Closed)
    }

    /// Ends the process with all processes it started and waits until it has exited.
    pub async fn kill(&self) -> i32 {
        *lock(&self.0.killed) = true;
        if self.exit_code().is_none() {
            let _ending = self.0.ending.lock().await;
            if let Some(RemoteEnd { pid, session: seat }) = &self.0.remote_end {
                seat.end_group(*pid).await;
            }
            self.0.group.terminate(&*self.0.clock).await;
        }
        self.ended().await
    }
}

impl BackgroundState {
    fn ring(&self) -> MutexGuard<'_, RingBuffer> {
        lock(&self.ring)
    }

    async fn read_output(&self, mut running: RunningChild) {
        let mut buffer = vec![0; CHUNK];
        let mut open = true;
        let (pipe, mut reaper) = running.output_and_reaper();
        let code = loop {
            tokio::select! {
                biased;
                read = pipe.read(&mut buffer), if open => open = self.record_chunk(read, &buffer),
                code = reaper.wait() => break code.unwrap_or(-1),
            }
        };
        let mut enough = self.clock.sleep(LONGEST_DRAIN);
        while open {
            let mut idle = self.clock.sleep(IDLE);
            tokio::select! {
                biased;
                read = running.output.read(&mut buffer) => open = self.record_chunk(read, &buffer),
                () = &mut idle => break,
                () = &mut enough => break,
            }
        }
        self.ring().finish();
        lock(&self.input).take();
        lock(&self.tie).take();
        running.restore_protected_files();
        let code = if *lock(&self.killed) { KILLED } else { code };
        self.ended.send_replace(Some(code));
        let _ended = self.ending.lock().await;
        drop(running);
    }

    /// Records one read from the output and tells whether more may follow.
    fn record_chunk(&self, read: std::io::Result<usize>, buffer: &[u8]) -> bool {
        let count = read.unwrap_or(0);
        self.ring().push(buffer.get(..count).unwrap_or_default());
        count > 0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
