//! Writes the log back into the file, in parallel with the writer.
//!
//! Each pass costs two or three disk syncs, and a turn that waits for the writer would wait for them too. A
//! passive checkpoint takes no lock a writer needs, so it runs on its own thread and connection. Invariant: the
//! log does not grow without limit: a pass that could not catch up sets a flag, and the writer does the next one
//! itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::connection;

/// The number of frames in the log (16 MB) above which writing has to wait for a pass.
const MAX_LOG_FRAMES: i64 = 4000;

/// The checkpoint thread, which is started when it is first needed.
#[derive(Debug)]
pub(crate) struct CheckpointThread {
    path: PathBuf,
    running: Option<CheckpointHandle>,
    behind: Arc<AtomicBool>,
}

#[derive(Debug)]
struct CheckpointHandle {
    asked: SyncSender<()>,
    thread: JoinHandle<()>,
}

/// The thread that has to run a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointRunner {
    Thread,
    Writer,
}

impl CheckpointThread {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), running: None, behind: Arc::default() }
    }

    /// Requests a pass. The writer has to run it when the thread cannot catch up or is not available.
    pub(crate) fn request(&mut self) -> CheckpointRunner {
        if self.behind.swap(false, Ordering::Relaxed) {
            return CheckpointRunner::Writer;
        }
        if self.running.is_none() {
            self.running = self.start();
        }
        match self.running.as_ref().map(|running| running.asked.try_send(())) {
            // A full queue means that the thread has not begun the last requested pass yet; that pass is enough.
            Some(Ok(()) | Err(TrySendError::Full(()))) => CheckpointRunner::Thread,
            Some(Err(TrySendError::Disconnected(()))) | None => CheckpointRunner::Writer,
        }
    }

    /// Ends the thread and closes its connection, so that the writer's connection is the last.
    pub(crate) fn shut_down(&mut self) {
        if let Some(CheckpointHandle { asked, thread }) = self.running.take() {
            drop(asked);
            // A thread that panicked has closed its connection, too.
            let _ = thread.join();
        }
    }

    fn start(&self) -> Option<CheckpointHandle> {
        let connection = connection::open_for_checkpoints(&self.path).ok()?;
        let (asked, waiting) = sync_channel(1);
        let behind = self.behind.clone();
        let started = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || run(&connection, &waiting, &behind));
        started.ok().map(|thread| CheckpointHandle { asked, thread })
    }
}

fn run(connection: &Connection, waiting: &Receiver<()>, behind: &AtomicBool) {
    while waiting.recv().is_ok() {
        if frames_after(connection).is_some_and(|frames| frames > MAX_LOG_FRAMES) {
            behind.store(true, Ordering::Relaxed);
        }
    }
}

/// Writes back what it can without making another connection wait, and returns the number of frames in the log.
/// After a failure, the next pass does the work.
pub(crate) fn frames_after(connection: &Connection) -> Option<i64> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1)).ok()
}
