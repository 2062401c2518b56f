//! The database: sessions, messages, search, and the durable steps of a turn.
//!
//! One file, `state.db`, shared with other programs and other processes. Callers see typed calls; no SQL, no
//! connection and no transaction leaves this crate.
//!
//! Invariants: every write is one transaction on one thread; an answer means committed; nothing other programs wrote
//! is renamed, dropped or lowered in version; the search index can break without anything else breaking.

mod checkpoint;
mod column;
mod connection;
mod conversation;
mod error;
mod export;
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
mod pending;
mod ranking;
mod reader;
mod removal;
mod repair;
mod request;
mod response;
mod schema;
mod search;
mod session;
mod step;
mod takeover;
mod title;
mod turn;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use error::{Attempt, Result};
use reader::{Access, Readers};
use writer::{Durability, Order, Scope, Writer};

pub use connection::Journal;
pub use conversation::Binding;
pub use error::Error;
pub use inbox::{Closing, Intake, QueueDepth, Waiting};
pub use insights::{Insights, SessionUse};
pub use job_run::{JobClaim, JobEnd, JobRun, JobRunState, Retry, Telling};
pub use lease::Lease;
pub use ledger::{Charge, Span, Spent};
pub use lineage::{Continuation, HandedOn};
pub use listing::{SessionFilter, SessionSummary, Stats};
pub use maintenance::{IndexHealth, Integrity};
pub use message::{NewMessage, StoredMessage};
pub use outbox::{Due, EarlierSend, OutboxState};
pub use pending::Pending;
pub use removal::Removed;
pub use repair::{RepairOutcome, Repaired, repair};
pub use request::{Horizon, KeyedRequest, RequestClaim};
pub use response::{KeptResponse, ResponseConversation, Responses};
pub use schema::Notice;
pub use search::{ContextMessage, Coverage, SearchHit, SearchResult, SearchScope};
pub use session::{Billing, EndReason, NewSession, Session, Tally};
pub use step::{FinishedCall, FollowUp, Opening, Settled};
pub use takeover::{KeptElsewhere, TakenOver};
pub use turn::{NewToolCall, ToolCallRecord};

/// A handle on the open database. Cloning it is cheap; the threads end when the last handle goes.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Absent when the file can only be read.
    writer: Option<Sender<Order>>,
    readers: Readers,
    notices: Vec<Notice>,
}

impl Store {
    /// Opens the file, creating or upgrading it as needed.
    pub fn open(path: &Path) -> Result<Self> {
        connection::check_engine(path)?;
        let (mut connection, journal) = connection::open_for_writing(path)?;
        let notices = schema::prepare(&mut connection, path).map_err(|fault| fault.at(path))?;
        let columns = schema::Columns::read(&connection).map_err(|fault| fault.at(path))?;
        connection.set_prepared_statement_cache_capacity(64);
        let (queue, orders) = channel();
        let checkpoints = checkpoint::Checkpoints::new(path);
        let identity = writer::FileIdentity::of(path);
        let writer = Writer { path: path.to_owned(), connection, columns, journal, checkpoints, identity };
        thread::Builder::new()
            .name("store-write".to_owned())
            .stack_size(1024 * 1024)
            .spawn(move || writer.run(&orders))
            .map_err(|error| Error::Other { path: path.to_owned(), detail: error.to_string() })?;
        let readers = Readers::start(path, Access::Shared)?;
        Ok(Self { inner: Arc::new(Inner { path: path.to_owned(), writer: Some(queue), readers, notices }) })
    }

    /// Opens a file that lies where nothing can be written. Reading works; every write says why it does not.
    pub fn open_read_only(path: &Path) -> Result<Self> {
        connection::check_engine(path)?;
        if !path.exists() {
            return Err(Error::NotFound(format!("{}: there is no database here yet", path.display())));
        }
        let readers = Readers::start(path, Access::Immutable)?;
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

    /// What the user should know about the file.
    pub fn notices(&self) -> &[Notice] {
        &self.inner.notices
    }

    /// Says whether the file takes writes at this moment.
    pub fn probe(&self) -> Pending<()> {
        self.write(Durability::Process, |_| Ok(()))
    }

    /// Frees the memory that only makes later calls faster. For a process that lives for months, once in a while.
    pub fn release_memory(&self) {
        if !self.is_read_only() {
            self.order(Order::ReleaseMemory);
        }
        self.inner.readers.release_memory();
    }

    /// Writes back the log and closes. Later calls answer `Closed`.
    pub fn close(&self) -> Pending<()> {
        let (reply, pending) = Pending::new();
        self.order(Order::Close(reply));
        pending
    }

    fn write<T, F>(&self, durability: Durability, run: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnMut(&Scope<'_>) -> Attempt<T> + Send + 'static,
    {
        if let Some(queue) = &self.inner.writer {
            return writer::submit(queue, durability, run);
        }
        let (reply, pending) = Pending::new();
        let detail = "the database was opened read-only".to_owned();
        let _ = reply.send(Err(Error::ReadOnly { path: self.inner.path.clone(), detail }));
        pending
    }

    fn read<T, F>(&self, run: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&Scope<'_>) -> Attempt<T> + Send + 'static,
    {
        self.inner.readers.submit(run)
    }

    fn order(&self, order: Order) {
        if let Some(queue) = &self.inner.writer {
            // A writer that is gone has said so to whoever was waiting.
            let _ = queue.send(order);
        }
    }

    /// Starts the search index anew unless somebody already did.
    fn replace_index(&self) {
        drop(self.write(Durability::Process, |scope| {
            if index::is_rebuilding(scope.connection)? { Ok(()) } else { index::recreate(scope.connection) }
        }));
        self.order(Order::TendIndex);
    }
}
