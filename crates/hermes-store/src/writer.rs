//! The one thread that writes.
//!
//! All waiting operations go into one transaction (group commit). When one of them fails, the transaction is
//! repeated with a savepoint around each, so that the others are not affected. A result is sent only after the
//! commit. Between transactions the thread rebuilds a damaged search index, one short step at a time.

use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use hermes_types::random_hex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use crate::checkpoint::{self, CheckpointThread};
use crate::connection::{self, JournalMode};
use crate::error::{Error, OperationError, OperationResult, Result};
use crate::index::{self, IndexMaintenance, RebuildProgress};
use crate::pending_result::PendingResult;
use crate::schema::{OptionalColumns, SchemaRefresh};

/// Limits how many waiting writes share a transaction, so that the first does not wait long for the last.
const BATCH: usize = 2048;

/// The number of retries for a lock held by another process, each after 20 to 150 ms.
const RETRIES: u32 = 15;

/// The number of writes after which the log is written back into the file.
const CHECKPOINT_EVERY: usize = 200;

/// The log size (8 MB) above which the log is written back at the start and between writes.
const LARGE_LOG_BYTES: u64 = 8 * 1024 * 1024;

/// The interval at which an idle writer checks whether another process left an index rebuild unfinished.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The failure a write has survived when its caller gets the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    /// The end of this process.
    Process,
    /// A crash of the machine: the write is synced to disk. Used for everything that is acknowledged to the
    /// outside.
    Disk,
}

/// The context of an operation: the connection inside a transaction, and the columns the file has.
pub(crate) struct OperationScope<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) columns: &'a OptionalColumns,
}

impl OperationScope<'_> {
    /// Runs a statement that is used often; it is prepared once and cached.
    pub(crate) fn execute_cached(&self, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.connection.prepare_cached(sql)?.execute(values)
    }
}

pub(crate) enum WriterCommand {
    Write(Box<dyn WriteOperation>, Durability),
    /// Continue an index rebuild, if there is one.
    ContinueIndexRebuild,
    /// Free the page cache.
    ReleaseMemory,
    Close(oneshot::Sender<Result<()>>),
}

/// A waiting operation. It may be run more than once, when its transaction has to be repeated.
pub(crate) trait WriteOperation: Send {
    fn run(&mut self, scope: &OperationScope<'_>) -> OperationResult<()>;
    fn complete(self: Box<Self>, committed: Result<()>);
}

struct Operation<T, F> {
    run: F,
    result: Option<T>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T: Send, F: FnMut(&OperationScope<'_>) -> OperationResult<T> + Send> WriteOperation for Operation<T, F> {
    fn run(&mut self, scope: &OperationScope<'_>) -> OperationResult<()> {
        self.result = Some((self.run)(scope)?);
        Ok(())
    }

    fn complete(self: Box<Self>, committed: Result<()>) {
        let Self { result, reply, .. } = *self;
        // The caller may have stopped waiting; the write is committed all the same.
        let _ = reply.send(committed.and_then(|()| result.ok_or(Error::Closed)));
    }
}

/// Puts an operation in the queue.
pub(crate) fn submit<T, F>(queue: &Sender<WriterCommand>, durability: Durability, run: F) -> PendingResult<T>
where
    T: Send + 'static,
    F: FnMut(&OperationScope<'_>) -> OperationResult<T> + Send + 'static,
{
    let (reply, pending) = PendingResult::new();
    // A closed queue drops the reply, which the pending side reads as `Closed`.
    let _ = queue.send(WriterCommand::Write(Box::new(Operation { run, result: None, reply }), durability));
    pending
}

pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(crate) columns: OptionalColumns,
    pub(crate) journal: JournalMode,
    pub(crate) checkpoints: CheckpointThread,
    pub(crate) identity: Option<FileIdentity>,
    /// Whether the loss of the file has been logged.
    pub(crate) is_gone: bool,
}

/// The identity of the file behind a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Self { device: meta.dev(), inode: meta.ino() })
    }
}

impl Writer {
    /// Runs until told to close, or until every handle is dropped.
    pub(crate) fn run(mut self, queue: &Receiver<WriterCommand>) {
        let mut since_checkpoint = 0;
        let mut synced = Durability::Process;
        let mut tending = true;
        let mut closing = None;
        if let Err(error) = self.connection.pragma_update(None, "wal_autocheckpoint", 0) {
            // SQLite then also writes the log back during writes, which is only slower.
            tracing::debug!(%error, "the log is also written back by SQLite itself");
        }
        if let Err(fault) = self.set_index_maintenance() {
            // The triggers stay on, which is slower and still correct; statements that also add to the index would
            // not be.
            tracing::warn!(error = %fault.into_error(&self.path), "the search index is kept by the file's triggers");
            self.columns.index_maintenance = IndexMaintenance::Triggers;
        }
        // Processes that were killed soon after their start may have left a long log.
        let mut too_long = LARGE_LOG_BYTES;
        if self.log_size() > too_long {
            self.shorten_log();
        }
        while closing.is_none() {
            let first = if tending {
                match queue.try_recv() {
                    Ok(order) => Some(order),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => break,
                }
            } else {
                match queue.recv_timeout(IDLE_CHECK_INTERVAL) {
                    Ok(order) => Some(order),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            };
            let mut writes = Vec::new();
            let mut durability = Durability::Process;
            for order in first.into_iter().chain(queue.try_iter().take(BATCH - 1)) {
                match order {
                    WriterCommand::Write(write, wanted) => {
                        durability = durability.max(wanted);
                        writes.push(write);
                    }
                    WriterCommand::ContinueIndexRebuild => tending = true,
                    WriterCommand::ReleaseMemory => self.release_memory(),
                    WriterCommand::Close(reply) => {
                        closing = Some(reply);
                        break;
                    }
                }
            }
            if writes.is_empty() {
                tending = self.continue_index_rebuild();
                continue;
            }
            self.sync_to(durability, &mut synced);
            since_checkpoint += writes.len();
            self.commit(writes);
            if tending {
                tending = self.continue_index_rebuild();
            } else if since_checkpoint >= CHECKPOINT_EVERY {
                since_checkpoint = 0;
                self.write_back();
            } else if self.log_size() > too_long {
                self.shorten_log();
                // If another connection keeps the log from being emptied, the next attempt waits until the log has
                // grown.
                too_long = self.log_size() + LARGE_LOG_BYTES;
            }
        }
        self.checkpoints.shut_down();
        self.checkpoint();
        if let Some(reply) = closing {
            let closed = self.connection.close().map_err(|(_, error)| Error::from_sqlite(&self.path, &error));
            let _ = reply.send(closed);
        }
    }

    /// Runs all writes in one transaction and sends every result.
    fn commit(&mut self, mut writes: Vec<Box<dyn WriteOperation>>) {
        if self.identity.is_some() && FileIdentity::of(&self.path) != self.identity {
            if !std::mem::replace(&mut self.is_gone, true) {
                tracing::error!(path = %self.path.display(), "the database was removed or replaced; nothing is written any more");
            }
            for write in writes {
                write.complete(Err(Error::Gone { path: self.path.clone() }));
            }
            return;
        }
        let mut results = self.attempt(&mut writes, Isolation::AllOrNone);
        if results.as_ref().is_err_and(index::may_be_damage) && self.replace_index().is_ok() {
            results = self.attempt(&mut writes, Isolation::AllOrNone);
        }
        // One of them failed: the transaction is repeated with a savepoint around each, so that the others
        // succeed.
        if results.is_err() && writes.len() > 1 {
            results = self.attempt(&mut writes, Isolation::Each);
        }
        match results {
            Ok(each) => {
                for (write, result) in writes.into_iter().zip(each) {
                    write.complete(result.map_err(|fault| fault.into_error(&self.path)));
                }
            }
            Err(fault) => {
                let error = fault.into_error(&self.path);
                for write in writes {
                    write.complete(Err(error.clone()));
                }
            }
        }
    }

    /// Runs one transaction. An outer error means nothing was written; an inner one concerns that write alone.
    fn attempt(
        &mut self,
        writes: &mut [Box<dyn WriteOperation>],
        isolation: Isolation,
    ) -> OperationResult<Vec<OperationResult<()>>> {
        self.begin()?;
        let results = self.refresh_schema().and_then(|()| self.run_all(writes, isolation));
        let committed = results.and_then(|results| {
            retry_while_busy(|| self.connection.execute_batch("COMMIT"))?;
            Ok(results)
        });
        if committed.is_err() {
            self.roll_back();
        }
        committed
    }

    fn run_all(
        &self,
        writes: &mut [Box<dyn WriteOperation>],
        isolation: Isolation,
    ) -> OperationResult<Vec<OperationResult<()>>> {
        let scope = OperationScope { connection: &self.connection, columns: &self.columns };
        let mut results = Vec::with_capacity(writes.len());
        for write in writes {
            match isolation {
                Isolation::AllOrNone => results.push(Ok(run_catching_panic(&scope, write.as_mut())?)),
                Isolation::Each => results.push(run_in_savepoint(&scope, write.as_mut())),
            }
            if self.connection.is_autocommit() {
                // SQLite rolled back the whole transaction (full disk, I/O error), including the writes that ran
                // before.
                let fault = results.pop().and_then(OperationResult::err);
                return Err(fault.unwrap_or(OperationError::Refused(Error::Closed)));
            }
        }
        Ok(results)
    }

    /// Reloads a schema that another program changed, and decides again who maintains the index.
    fn refresh_schema(&mut self) -> OperationResult<()> {
        if self.columns.refresh(&self.connection)? == SchemaRefresh::Changed {
            self.set_index_maintenance()?;
        }
        Ok(())
    }

    fn set_index_maintenance(&self) -> OperationResult<()> {
        let by_triggers = self.columns.index_maintenance == IndexMaintenance::Triggers;
        self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, by_triggers)?;
        Ok(())
    }

    fn begin(&self) -> OperationResult<()> {
        Ok(retry_while_busy(|| self.connection.execute_batch("BEGIN IMMEDIATE"))?)
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(path = %self.path.display(), %error, "could not roll back");
        }
    }

    fn replace_index(&mut self) -> OperationResult<()> {
        self.begin()?;
        let replaced = index::recreate(&self.connection);
        if let Err(fault) = replaced {
            self.roll_back();
            return Err(fault);
        }
        self.connection.execute_batch("COMMIT")?;
        Ok(())
    }

    fn release_memory(&self) {
        if let Err(error) = self.connection.execute_batch("PRAGMA shrink_memory") {
            tracing::debug!(%error, "the writer keeps its memory");
        }
    }

    /// Runs one step of a rebuild; returns true while there is more to do.
    fn continue_index_rebuild(&mut self) -> bool {
        // Most of the time there is nothing to do, and finding that out must not take the write lock.
        if !index::is_rebuilding(&self.connection).unwrap_or(false) {
            return false;
        }
        let step = self.begin().and_then(|()| index::step(&self.connection));
        match step {
            Ok(progress) if self.connection.execute_batch("COMMIT").is_ok() => {
                progress == RebuildProgress::More
            }
            Ok(_) => {
                self.roll_back();
                false
            }
            Err(fault) => {
                self.roll_back();
                tracing::warn!(path = %self.path.display(), error = %fault.into_error(&self.path), "the search index is not rebuilt yet; trying again later");
                false
            }
        }
    }

    fn sync_to(&self, wanted: Durability, current: &mut Durability) {
        if wanted == *current {
            return;
        }
        let level = match wanted {
            Durability::Process => "PRAGMA synchronous = NORMAL",
            Durability::Disk => "PRAGMA synchronous = FULL",
        };
        match self.connection.execute_batch(level) {
            Ok(()) => *current = wanted,
            Err(error) => tracing::error!(%error, "could not change how writes are synced"),
        }
    }

    /// Has the log written back, on the checkpoint thread as long as that keeps up with the writes.
    fn write_back(&mut self) {
        if self.journal == JournalMode::WriteAheadLog
            && self.checkpoints.request() == checkpoint::CheckpointRunner::Writer
        {
            self.checkpoint();
        }
    }

    /// Returns the size in bytes of the log beside the file.
    fn log_size(&self) -> u64 {
        let mut name = self.path.as_os_str().to_owned();
        name.push("-wal");
        std::fs::metadata(Path::new(&name)).map_or(0, |meta| meta.len())
    }

    /// Writes the log back and empties it, unless another connection is using it.
    fn shorten_log(&self) {
        self.checkpoint();
        if self.journal != JournalMode::WriteAheadLog {
            return;
        }
        // It does not wait for a lock: current readers will have finished by the next attempt.
        let emptied = self
            .connection
            .busy_timeout(Duration::ZERO)
            .and_then(|()| self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
        if let Err(error) = emptied.and(self.connection.busy_timeout(connection::BUSY_TIMEOUT)) {
            tracing::debug!(%error, "the log of the database stays as long as it is");
        }
    }

    fn checkpoint(&self) {
        if self.journal == JournalMode::WriteAheadLog {
            let _ = checkpoint::frames_after(&self.connection);
        }
    }
}

/// Decides whether one failing write fails its whole transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Isolation {
    AllOrNone,
    Each,
}

fn run_in_savepoint(scope: &OperationScope<'_>, write: &mut dyn WriteOperation) -> OperationResult<()> {
    scope.connection.prepare_cached("SAVEPOINT one")?.execute([])?;
    let result = run_catching_panic(scope, write);
    if scope.connection.is_autocommit() {
        return result;
    }
    if result.is_err() {
        scope.connection.prepare_cached("ROLLBACK TO one")?.execute([])?;
    }
    scope.connection.prepare_cached("RELEASE one")?.execute([])?;
    result
}

/// Runs an operation and turns a panic, which would be a bug in this crate, into an error, so that it does not end
/// the writer thread.
fn run_catching_panic(scope: &OperationScope<'_>, write: &mut dyn WriteOperation) -> OperationResult<()> {
    catch_unwind(AssertUnwindSafe(|| write.run(scope))).unwrap_or_else(|_| {
        let detail = "an operation panicked".to_owned();
        Err(OperationError::Refused(Error::Other { path: PathBuf::from("state.db"), detail }))
    })
}

fn retry_while_busy(mut attempt: impl FnMut() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    for _ in 0..RETRIES {
        match attempt() {
            Err(error)
                if matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                ) =>
            {
                thread::sleep(jitter());
            }
            other => return other,
        }
    }
    attempt()
}

/// Returns 20 to 150 ms at random, so that two waiting processes do not keep colliding.
fn jitter() -> Duration {
    let random = u64::from_str_radix(&random_hex(8), 16).unwrap_or(0);
    Duration::from_millis(20 + random % 131)
}
