//! The database: sessions, messages, search, and the durable steps of a turn.
//!
//! Holds access to one file, `state.db`, which other programs and other processes share. Callers see typed calls;
//! no SQL, no connection and no transaction leaves this crate.
//!
//! Invariants: every write is one transaction on one thread; a result means committed; nothing other programs
//! wrote is renamed, dropped or lowered in version; a damaged search index breaks nothing else.

mod checkpoint;
mod column;
mod connection;
mod conversation;
mod criteria;
mod error;
mod export;
mod goal;
mod inbox;
mod index;
mod insights;
mod job_run;
mod lease;
mod ledger;
mod lineage;
mod listing;
mod maintenance;
mod message;
mod outbox;
mod pending_result;
mod ranking;
mod reader;
mod recall;
mod record_file;
mod removal;
mod repair;
mod request;
mod response;
mod schema;
mod search;
mod session;
mod step;
mod title;
mod transcript_import;
mod turn;
mod vector;
mod vector_blocks;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use error::{OperationResult, Result};
use reader::{ReadAccess, ReaderPool};
use writer::{Durability, OperationScope, Writer, WriterCommand};

pub use connection::JournalMode;
pub use conversation::ChatBinding;
pub use criteria::{ArchiveChange, ArchivedSessions, CoveredStates, NumberRange, SessionCriteria};
pub use error::Error;
pub use inbox::{InboxCloseReason, InboxInsertion, QueueDepth, WaitingMessage};
pub use insights::{SessionUsage, UsageInsights};
pub use job_run::{CutOffRetry, JobClaim, JobRun, JobRunEnd, JobRunState, MissedRunNotice};
pub use lease::LeaseOutcome;
pub use ledger::{ChargeRange, ModelCharge, SpendingTotal};
pub use lineage::{Continuation, DelegatedSession};
pub use listing::{SessionFilter, SessionSummary, StoreStats};
pub use maintenance::{CompactionReport, IndexHealth, IntegrityReport, compact};
pub use message::{NewMessage, StoredMessage};
pub use outbox::{DueReply, EarlierSend, OutboxState};
pub use pending_result::PendingResult;
pub use recall::{RecallCandidate, RecallCandidates, RecallScope};
pub use record_file::{NamedRecords, RecordChange};
pub use removal::RemovalOutcome;
pub use repair::{RepairOutcome, RepairReport, repair};
pub use request::{KeyedRequest, RequestClaim, RequestRetention};
pub use response::{ResponseConversation, ResponseStore, StoredResponse};
pub use schema::StoreNotice;
pub use search::{HitContext, SearchCoverage, SearchHit, SearchResult, SearchScope};
pub use session::{EndReason, NewSession, Session, SessionBilling, UsageUpdate};
pub use step::{FinishedCall, FollowUpWork, InboxSettlement, TurnOpening};
pub use transcript_import::{ExternalTranscript, TranscriptImport};
pub use turn::{NewToolCall, ToolCallRecord};
pub use vector::{SimilarMessage, UnindexedMessage};

/// A handle on the open database. Cloning it is cheap; the threads end when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// The queue of the writer thread; absent when the file can only be read.
    writer: Option<Sender<WriterCommand>>,
    readers: ReaderPool,
    notices: Vec<StoreNotice>,
}

impl Store {
    /// Opens the file, creating or upgrading it as needed.
    pub fn open(path: &Path) -> Result<Self> {
        connection::check_engine(path)?;
        let (mut connection, journal) = connection::open_for_writing(path)?;
        let notices = schema::prepare(&mut connection, path).map_err(|fault| fault.into_error(path))?;
        let columns = schema::OptionalColumns::read(&connection).map_err(|fault| fault.into_error(path))?;
        connection.set_prepared_statement_cache_capacity(64);
        let (queue, orders) = channel();
        let checkpoints = checkpoint::CheckpointThread::new(path);
        let identity = writer::FileIdentity::of(path);
        let writer = Writer {
            path: path.to_owned(),
            connection,
            columns,
            journal,
            checkpoints,
            identity,
            is_gone: false,
        };
        thread::Builder::new()
            .name("store-write".to_owned())
            .stack_size(1024 * 1024)
            .spawn(move || writer.run(&orders))
            .map_err(|error| Error::Other { path: path.to_owned(), detail: error.to_string() })?;
        let readers = ReaderPool::start(path, ReadAccess::Shared)?;
        Ok(Self { inner: Arc::new(Inner { path: path.to_owned(), writer: Some(queue), readers, notices }) })
    }

    /// Opens a file in a location that cannot be written. Reads work; every write returns an error with the
    /// reason.
    pub fn open_read_only(path: &Path) -> Result<Self> {
        connection::check_engine(path)?;
        if !path.exists() {
            return Err(Error::NotFound(format!("{}: there is no database here yet", path.display())));
        }
        let readers = ReaderPool::start(path, ReadAccess::Immutable)?;
        Ok(Self {
            inner: Arc::new(Inner { path: path.to_owned(), writer: None, readers, notices: Vec::new() }),
        })
    }

    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    fn is_read_only(&self) -> bool {
        self.inner.writer.is_none()
    }

    /// Returns notices for the user about the file.
    pub fn notices(&self) -> &[StoreNotice] {
        &self.inner.notices
    }

    /// Checks whether the file accepts writes at this moment.
    pub fn probe(&self) -> PendingResult<()> {
        self.write(Durability::Process, |_| Ok(()))
    }

    /// Frees memory that only caches data. A process that runs for months calls it from time to time.
    pub fn release_memory(&self) {
        if !self.is_read_only() {
            self.send_command(WriterCommand::ReleaseMemory);
        }
        self.inner.readers.release_memory();
    }

    /// Writes the log back into the file and closes it. Later calls return `Closed`.
    pub fn close(&self) -> PendingResult<()> {
        let (reply, pending) = PendingResult::new();
        self.send_command(WriterCommand::Close(reply));
        pending
    }

    fn write<T, F>(&self, durability: Durability, run: F) -> PendingResult<T>
    where
        T: Send + 'static,
        F: FnMut(&OperationScope<'_>) -> OperationResult<T> + Send + 'static,
    {
        if let Some(queue) = &self.inner.writer {
            return writer::submit(queue, durability, run);
        }
        let (reply, pending) = PendingResult::new();
        let detail = "the database was opened read-only".to_owned();
        let _ = reply.send(Err(Error::ReadOnly { path: self.inner.path.clone(), detail }));
        pending
    }

    fn read<T, F>(&self, run: F) -> PendingResult<T>
    where
        T: Send + 'static,
        F: FnOnce(&OperationScope<'_>) -> OperationResult<T> + Send + 'static,
    {
        self.inner.readers.submit(run)
    }

    fn send_command(&self, order: WriterCommand) {
        if let Some(queue) = &self.inner.writer {
            // A writer that has ended has already reported that to every waiting caller.
            let _ = queue.send(order);
        }
    }

    /// Recreates the search index unless a rebuild is already running.
    fn replace_index(&self) {
        drop(self.write(Durability::Process, |scope| {
            if index::is_rebuilding(scope.connection)? { Ok(()) } else { index::recreate(scope.connection) }
        }));
        self.send_command(WriterCommand::ContinueIndexRebuild);
    }
}
