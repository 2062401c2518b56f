//! The threads that read. Each has its own connection and sees the last committed state.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rusqlite::Connection;

use crate::connection::{open_for_reading, open_immutable};
use crate::error::{Error, OperationResult, Result};
use crate::pending_result::PendingResult;
use crate::schema::OptionalColumns;
use crate::writer::OperationScope;

/// The number of threads: two, so that one long export does not delay a listing.
const THREADS: usize = 2;

type Job = Box<dyn FnOnce(&mut ReaderThread) + Send>;

/// The way the file may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadAccess {
    Shared,
    /// No program can write at the file's location.
    Immutable,
}

#[derive(Debug, Clone)]
pub(crate) struct ReaderPool {
    queue: Sender<Job>,
    /// Marks the threads that have to close their connections after their next job.
    release: Arc<[AtomicBool; THREADS]>,
}

/// The state of a reader thread; its first read opens the connection.
pub(crate) struct ReaderThread {
    number: usize,
    release: Arc<[AtomicBool; THREADS]>,
    path: PathBuf,
    access: ReadAccess,
    open: Option<(Connection, OptionalColumns)>,
}

impl ReaderPool {
    pub(crate) fn start(path: &Path, access: ReadAccess) -> Result<Self> {
        let (queue, jobs) = channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        let release: Arc<[AtomicBool; THREADS]> = Arc::default();
        for number in 0..THREADS {
            let reader =
                ReaderThread { number, release: release.clone(), path: path.to_owned(), access, open: None };
            let jobs = Arc::clone(&jobs);
            thread::Builder::new()
                .name(format!("store-read-{}", number + 1))
                .stack_size(512 * 1024)
                .spawn(move || reader.run(&jobs))
                .map_err(|error| Error::Other { path: path.to_owned(), detail: error.to_string() })?;
        }
        Ok(Self { queue, release })
    }

    /// Closes the connections with their caches. A busy thread closes its own after its current job; the next read opens
    /// one again.
    pub(crate) fn release_memory(&self) {
        for wanted in self.release.iter() {
            wanted.store(true, Ordering::Relaxed);
            // An empty job wakes a thread, which then checks its own flag.
            let _ = self.queue.send(Box::new(|_| {}));
        }
    }

    pub(crate) fn submit<T, F>(&self, run: F) -> PendingResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&OperationScope<'_>) -> OperationResult<T> + Send + 'static,
    {
        let (reply, pending) = PendingResult::new();
        let job: Job = Box::new(move |reader| {
            let _ = reply.send(reader.read(run));
        });
        // A closed queue drops the reply, which the pending side reads as `Closed`.
        let _ = self.queue.send(job);
        pending
    }
}

impl ReaderThread {
    fn run(mut self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            let Ok(waiting) = jobs.lock() else { return };
            let next = waiting.recv();
            drop(waiting);
            let Ok(job) = next else { return };
            job(&mut self);
            self.release_memory_if_wanted();
        }
    }

    fn release_memory_if_wanted(&mut self) {
        if self.release.get(self.number).is_some_and(|wanted| wanted.swap(false, Ordering::Relaxed)) {
            self.open = None;
        }
    }

    fn read<T>(&mut self, run: impl FnOnce(&OperationScope<'_>) -> OperationResult<T>) -> Result<T> {
        if self.open.is_none() {
            let connection = match self.access {
                ReadAccess::Shared => open_for_reading(&self.path)?,
                ReadAccess::Immutable => open_immutable(&self.path)?,
            };
            connection.set_prepared_statement_cache_capacity(64);
            let columns = OptionalColumns::read(&connection).map_err(|fault| fault.into_error(&self.path))?;
            self.open = Some((connection, columns));
        }
        let Some((connection, columns)) = &mut self.open else {
            return Err(Error::Closed);
        };
        // Each read is one transaction, so that all its statements see the same state.
        let result = connection
            .execute_batch("BEGIN")
            .map_err(Into::into)
            .and_then(|()| columns.refresh(connection))
            .and_then(|_| run(&OperationScope { connection, columns }));
        if !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
            // A transaction that cannot be rolled back must not be read from again, so the connection is reopened.
            self.open = None;
        }
        result.map_err(|fault| fault.into_error(&self.path))
    }
}
