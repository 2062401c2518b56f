//! Incoming messages that are not yet processed. A message is acknowledged to its platform only after its row is
//! stored here.

use hermes_types::{Envelope, InboxId, Timestamp, TurnId};
use rusqlite::{OptionalExtension, params};

use crate::column;
use crate::error::{OperationError, OperationResult};
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};
use crate::{Error, Store};

/// The result of adding an envelope to the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxInsertion {
    New(InboxId),
    /// The platform delivered it before; it is safe to acknowledge it again.
    Duplicate(InboxId),
}

/// The reason why an inbox row was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InboxCloseReason {
    /// The message was answered, or needed no answer.
    Done,
    /// The message could not be answered, and the user has been notified.
    Reported,
    /// The message waited too long to be run; the user was notified in one line.
    Stale,
}

impl InboxCloseReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Reported => "reported",
            Self::Stale => "stale",
        }
    }
}

/// A message waiting for its turn.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingMessage {
    pub id: InboxId,
    pub conversation: String,
    pub envelope: Envelope,
    /// The turn that was begun for it. That turn may have ended with only its answer missing.
    pub turn: Option<TurnId>,
}

/// The size and age of the queue, for status displays.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueueDepth {
    pub waiting: u64,
    pub oldest: Option<Timestamp>,
}

impl Store {
    /// Stores a message. Once this returns, the message is on disk and may be acknowledged to the platform.
    pub fn accept(&self, conversation: &str, envelope: Envelope) -> PendingResult<InboxInsertion> {
        let conversation = conversation.to_owned();
        self.write(Durability::Disk, move |scope| insert(scope, &conversation, &envelope))
    }

    /// Returns the waiting messages of one conversation, in the order they arrived.
    pub fn waiting(&self, conversation: &str) -> PendingResult<Vec<WaitingMessage>> {
        let conversation = conversation.to_owned();
        self.read(move |scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT id, conversation, envelope, turn_id FROM hx_inbox WHERE state = 'waiting' AND conversation = ?1 ORDER BY id",
            )?;
            let mut rows = statement.query([&conversation])?;
            let mut waiting = Vec::new();
            while let Some(row) = rows.next()? {
                waiting.push(WaitingMessage {
                    id: InboxId(row.get(0)?),
                    conversation: column::string(row, 1)?,
                    envelope: read_json(&column::string(row, 2)?)?,
                    turn: column::text(row, 3)?.map(TurnId::new),
                });
            }
            Ok(waiting)
        })
    }

    /// Returns the conversations with waiting messages, the longest-waiting first.
    pub fn waiting_conversations(&self) -> PendingResult<Vec<String>> {
        self.read(|scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT conversation FROM hx_inbox WHERE state = 'waiting' GROUP BY conversation ORDER BY MIN(id)",
            )?;
            let names = statement.query_map([], |row| row.get(0))?;
            Ok(names.collect::<rusqlite::Result<_>>()?)
        })
    }

    /// Closes a row; closing it twice changes nothing.
    pub fn close_inbox(
        &self,
        id: InboxId,
        closing: InboxCloseReason,
        note: Option<String>,
        at: Timestamp,
    ) -> PendingResult<()> {
        self.write(Durability::Disk, move |scope| close(scope, id, closing, note.as_deref(), at))
    }

    /// Returns the newest message of a conversation, processed or not; answers go to its chat.
    pub fn newest_envelope(&self, conversation: &str) -> PendingResult<Option<Envelope>> {
        let conversation = conversation.to_owned();
        self.read(move |scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT envelope FROM hx_inbox WHERE conversation = ?1 ORDER BY id DESC LIMIT 1",
            )?;
            let mut rows = statement.query([&conversation])?;
            rows.next()?.map(|row| read_json(&column::string(row, 0)?)).transpose()
        })
    }

    pub fn inbox_depth(&self) -> PendingResult<QueueDepth> {
        self.read(|scope| {
            let mut statement = scope
                .connection
                .prepare_cached("SELECT COUNT(*), MIN(received_at) FROM hx_inbox WHERE state = 'waiting'")?;
            let mut rows = statement.query([])?;
            let Some(row) = rows.next()? else {
                return Ok(QueueDepth::default());
            };
            Ok(QueueDepth { waiting: column::count(row, 0)?, oldest: column::real(row, 1)?.map(Timestamp) })
        })
    }
}

pub(crate) fn insert(
    scope: &OperationScope<'_>,
    conversation: &str,
    envelope: &Envelope,
) -> OperationResult<InboxInsertion> {
    let json = serde_json::to_string(envelope).map_err(|error| not_storable(&error))?;
    let inserted: Option<i64> = scope
        .connection
        .prepare_cached(
            "INSERT INTO hx_inbox (platform, platform_key, conversation, envelope, state, received_at)
             VALUES (?1, ?2, ?3, ?4, 'waiting', ?5) ON CONFLICT (platform, platform_key) DO NOTHING RETURNING id",
        )?
        .query_row(
            params![
                envelope.platform,
                envelope.platform_key,
                conversation,
                json,
                envelope.received_at.seconds()
            ],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(id) = inserted {
        return Ok(InboxInsertion::New(InboxId(id)));
    }
    let id = scope
        .connection
        .prepare_cached("SELECT id FROM hx_inbox WHERE platform = ?1 AND platform_key = ?2")?
        .query_row(params![envelope.platform, envelope.platform_key], |row| row.get(0))?;
    Ok(InboxInsertion::Duplicate(InboxId(id)))
}

pub(crate) fn close(
    scope: &OperationScope<'_>,
    id: InboxId,
    closing: InboxCloseReason,
    note: Option<&str>,
    at: Timestamp,
) -> OperationResult<()> {
    scope
        .connection
        .prepare_cached(
            "UPDATE hx_inbox SET state = ?2, note = ?3, closed_at = ?4 WHERE id = ?1 AND state = 'waiting'",
        )?
        .execute(params![id.0, closing.as_str(), note, at.seconds()])?;
    Ok(())
}

/// Parses JSON that this crate wrote.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(json: &str) -> OperationResult<T> {
    serde_json::from_str(json).map_err(|error| not_storable(&error))
}

pub(crate) fn not_storable(error: &serde_json::Error) -> OperationError {
    OperationError::Refused(Error::Other {
        path: "state.db".into(),
        detail: format!("a queued message cannot be read: {error}"),
    })
}
