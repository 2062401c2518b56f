//! The threads that read. Each has a connection of its own and sees the last committed state.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

use crate::connection::{open_for_reading, open_immutable};
use crate::error::{Attempt, Error, Result};
use crate::pending::Pending;
use crate::schema::Columns;
use crate::writer::Scope;

/// Two: one long export does not make a listing wait.
const THREADS: usize = 2;

type Job = Box<dyn FnOnce(&mut Reader) + Send>;

/// How the file may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Shared,
    /// Nobody can write where the file is.
    Immutable,
}

/// A thread that has waited this long gives its memory back.
const IDLE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(crate) struct Readers {
    queue: Sender<Job>,
}

/// A reading thread's own state; the connection is opened by the first read.
pub(crate) struct Reader {
    path: PathBuf,
    access: Access,
    open: Option<(Connection, Columns)>,
}

impl Readers {
    pub(crate) fn start(path: &Path, access: Access) -> Result<Self> {
        let (queue, jobs) = channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 1..=THREADS {
            let reader = Reader { path: path.to_owned(), access, open: None };
            let jobs = Arc::clone(&jobs);
            thread::Builder::new()
                .name(format!("store-read-{number}"))
                .stack_size(512 * 1024)
                .spawn(move || reader.run(&jobs))
                .map_err(|error| Error::Other { path: path.to_owned(), detail: error.to_string() })?;
        }
        Ok(Self { queue })
    }

    pub(crate) fn submit<T, F>(&self, run: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&Scope<'_>) -> Attempt<T> + Send + 'static,
    {
        let (reply, pending) = Pending::new();
        let job: Job = Box::new(move |reader| {
            let _ = reply.send(reader.read(run));
        });
        // A closed queue drops the reply, which the pending side reads as `Closed`.
        let _ = self.queue.send(job);
        pending
    }
}

impl Reader {
    fn run(mut self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            let Ok(waiting) = jobs.lock() else { return };
            let next = waiting.recv_timeout(IDLE);
            drop(waiting);
            match next {
                Ok(job) => job(&mut self),
                Err(RecvTimeoutError::Timeout) => self.shrink(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Gives back the pages it holds in memory: nobody has asked for a while.
    fn shrink(&self) {
        if let Some((connection, _)) = &self.open
            && let Err(error) = connection.execute_batch("PRAGMA shrink_memory")
        {
            tracing::debug!(%error, "a reader keeps its memory");
        }
    }

    fn read<T>(&mut self, run: impl FnOnce(&Scope<'_>) -> Attempt<T>) -> Result<T> {
        if self.open.is_none() {
            let connection = match self.access {
                Access::Shared => open_for_reading(&self.path)?,
                Access::Immutable => open_immutable(&self.path)?,
            };
            connection.set_prepared_statement_cache_capacity(64);
            let columns = Columns::read(&connection).map_err(|fault| fault.at(&self.path))?;
            self.open = Some((connection, columns));
        }
        let Some((connection, columns)) = &mut self.open else {
            return Err(Error::Closed);
        };
        // One transaction per read: everything it looks at is of the same moment.
        let result = connection
            .execute_batch("BEGIN")
            .map_err(Into::into)
            .and_then(|()| columns.refresh(connection))
            .and_then(|_| run(&Scope { connection, columns }));
        if !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
            // Start afresh rather than read from a transaction that will not end.
            self.open = None;
        }
        result.map_err(|fault| fault.at(&self.path))
    }
}
