//! A process that runs on beside the conversation.
//!
//! Holds its newest output, its way in, and how it ended. Whoever keeps it decides how long it is remembered; dropping
//! every handle stops the listening and leaves the process alone. One that runs elsewhere is seen through a client here,
//! and is ended at both ends.

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
/// What a process that we ended is said to have ended with.
const KILLED: i32 = -15;
const END_OF_INPUT: &[u8] = b"\x04";

/// Whether the process sees a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalMode {
    None,
    Pty,
}

/// A handle; clones mean the same process.
#[derive(Debug, Clone)]
pub struct BackgroundProcess(Arc<BackgroundState>);

/// What a process is listened to by.
#[derive(Debug)]
pub(crate) struct BackgroundSetup {
    pub(crate) running: RunningChild,
    /// What was heard of it already.
    pub(crate) initial_output: Vec<u8>,
    pub(crate) directory: PathBuf,
    pub(crate) terminal: TerminalMode,
    /// Where it runs, if what runs here is only a client.
    pub(crate) remote_end: Option<RemoteEnd>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// The process at the other end of a client.
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
    /// Held until somebody has written down that it runs.
    tie: Mutex<Option<AnnouncedChild>>,
    /// Held while it is being ended: its kin must be known until then, also when the process itself is gone.
    ending: tokio::sync::Mutex<()>,
}

/// Why nothing could be written to a process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    #[error("its input is closed")]
    Closed,
    #[error("it does not take input: {0}")]
    Refused(String),
}

impl BackgroundProcess {
    /// Listens until it ends or `owner` is cancelled. What is `held` lives as long as the process.
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

    /// Lets the process outlive us. Until then it ends with us, however we end: call it when the next start can find it.
    pub fn let_outlive(&self) {
        lock(&self.0.tie).take();
    }

    /// Its number where it runs.
    pub fn pid(&self) -> u32 {
        self.0.remote_end.as_ref().map_or_else(|| self.0.group.pid(), |far| far.pid)
    }

    /// Whether it runs elsewhere, and its number means nothing here.
    pub fn is_remote(&self) -> bool {
        self.0.remote_end.is_some()
    }

    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// None while it runs.
    pub fn exit_code(&self) -> Option<i32> {
        *self.0.ended.borrow()
    }

    /// Waits for its end.
    pub async fn ended(&self) -> i32 {
        let mut ended = self.0.ended.subscribe();
        let code = ended.wait_for(Option::is_some).await.ok().and_then(|code| *code);
        code.unwrap_or(-1)
    }

    /// At most so many characters from the end of its output.
    pub fn output(&self, chars: usize) -> String {
        self.0.ring().last(chars).to_owned()
    }

    /// How much it has said in all.
    pub fn total_chars(&self) -> u64 {
        self.0.ring().total()
    }

    pub async fn write(&self, bytes: &[u8]) -> Result<(), InputError> {
        let input = lock(&self.0.input).clone().ok_or(InputError::Closed)?;
        input.write_all(bytes).await.map_err(|error| InputError::Refused(error.to_string()))
    }

    /// Ends its input.
    pub async fn close_input(&self) -> Result<(), InputError> {
        if self.0.terminal == TerminalMode::Pty {
            return self.write(END_OF_INPUT).await;
        }
        lock(&self.0.input).take().map(drop).ok_or(InputError::Closed)
    }

    /// Ends it with all it started and waits until it has ended.
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

    /// Whether there may be more.
    fn record_chunk(&self, read: std::io::Result<usize>, buffer: &[u8]) -> bool {
        let count = read.unwrap_or(0);
        self.ring().push(buffer.get(..count).unwrap_or_default());
        count > 0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
