//! Writing the log back into the file, beside the writer.
//!
//! Each time costs two or three syncs of the disk, and a turn that waits for the writer would wait for them too. A passive
//! checkpoint takes no lock a writer needs, so it runs on a thread and a connection of its own. Invariant: the log does not
//! grow without end: a pass that could not catch up leaves word, and the writer does the next one itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use crate::connection;

/// Frames in the log beyond which writing has to wait for a pass; 16 MB.
const MAX_LOG_FRAMES: i64 = 4000;

/// The thread, from the first time it is needed.
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

/// Who has to do a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointRunner {
    Thread,
    Writer,
}

impl CheckpointThread {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), running: None, behind: Arc::default() }
    }

    /// Asks for a pass. The writer has to do it when the thread cannot catch up, or cannot be had.
    pub(crate) fn request(&mut self) -> CheckpointRunner {
        if self.behind.swap(false, Ordering::Relaxed) {
            return CheckpointRunner::Writer;
        }
        if self.running.is_none() {
            self.running = self.start();
        }
        match self.running.as_ref().map(|running| running.asked.try_send(())) {
            // It has not begun the last one yet; that one will do.
            Some(Ok(()) | Err(TrySendError::Full(()))) => CheckpointRunner::Thread,
            Some(Err(TrySendError::Disconnected(()))) | None => CheckpointRunner::Writer,
        }
    }

    /// Ends the thread and closes its connection, so that the writer's is the last.
    pub(crate) fn shut_down(&mut self) {
        if let Some(CheckpointHandle { asked, thread }) = self.running.take() {
            drop(asked);
            // One that panicked has closed its connection too.
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

/// Takes what can be taken without making anyone wait. A failure leaves the log to the next pass.
pub(crate) fn frames_after(connection: &Connection) -> Option<i64> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1)).ok()
}
