//! Outgoing replies. A reply is written here before it is sent and marked afterwards, so that it is sent once.

use hermes_types::{DeliveryReceipt, OutboxId, OutgoingMessage, Timestamp};
use rusqlite::{OptionalExtension, params};

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::inbox::{QueueDepth, not_storable, read_json};
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};

/// A reply that is due.
#[derive(Debug, Clone, PartialEq)]
pub struct DueReply {
    pub id: OutboxId,
    pub conversation: String,
    pub reply: OutgoingMessage,
    pub created_at: Timestamp,
    /// The number of sends begun before this one.
    pub attempts: u32,
    pub earlier: EarlierSend,
}

/// The note of a reply whose delivery could not be confirmed.
const UNKNOWN: &str = "unknown";

/// The knowledge about an earlier attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierSend {
    /// There was no earlier attempt, or it certainly failed.
    None,
    /// The process ended or the connection was lost while sending: the platform may already have the reply.
    Unknown,
}

/// The delivery state of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum OutboxState {
    Waiting,
    Sent(DeliveryReceipt),
    /// The reply will never be delivered, for this reason.
    Failed(String),
}

impl Store {
    /// Returns the delivery state of a reply, or `None` when it does not exist.
    pub fn outbox_state(&self, id: OutboxId) -> PendingResult<Option<OutboxState>> {
        self.read(move |scope| {
            let mut statement = scope
                .connection
                .prepare_cached("SELECT state, receipt, note FROM hx_outbox WHERE id = ?1")?;
            let mut rows = statement.query([id.0])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            Ok(Some(match column::string(row, 0)?.as_str() {
                "sent" => OutboxState::Sent(read_json(&column::string(row, 1)?)?),
                "failed" => OutboxState::Failed(column::string(row, 2)?),
                _ => OutboxState::Waiting,
            }))
        })
    }

    /// Queues a reply. A repeated idempotency key returns the existing row.
    pub fn enqueue(
        &self,
        conversation: &str,
        reply: OutgoingMessage,
        at: Timestamp,
    ) -> PendingResult<OutboxId> {
        let conversation = conversation.to_owned();
        self.write(Durability::Disk, move |scope| insert(scope, &conversation, &reply, at))
    }

    /// Claims the oldest due reply of each conversation and marks it as being sent, in one step.
    ///
    /// Only the oldest is claimed, so that the replies of one conversation keep their order.
    pub fn claim_due(&self, platform: &str, now: Timestamp, limit: usize) -> PendingResult<Vec<DueReply>> {
        let platform = platform.to_owned();
        self.write(Durability::Disk, move |scope| claim(scope, &platform, now, limit))
    }

    /// Records that the platform accepted a reply.
    pub fn mark_sent(&self, id: OutboxId, receipt: DeliveryReceipt, at: Timestamp) -> PendingResult<()> {
        self.write(Durability::Disk, move |scope| {
            let json = serde_json::to_string(&receipt).map_err(|error| not_storable(&error))?;
            close(scope, id, "sent", Some(&json), None, at)
        })
    }

    /// Postpones a reply until `not_before`, and records whether the platform may already have it.
    pub fn postpone(
        &self,
        id: OutboxId,
        not_before: Timestamp,
        note: String,
        earlier: EarlierSend,
    ) -> PendingResult<()> {
        self.write(Durability::Disk, move |scope| {
            let note = match earlier {
                EarlierSend::None => note.as_str(),
                EarlierSend::Unknown => UNKNOWN,
            };
            scope
                .connection
                .prepare_cached("UPDATE hx_outbox SET state = 'waiting', not_before = ?2, note = ?3 WHERE id = ?1 AND state = 'sending'")?
                .execute(params![id.0, not_before.seconds(), note])?;
            Ok(())
        })
    }

    /// Makes every waiting reply of a platform due now.
    pub fn make_due(&self, platform: &str, now: Timestamp) -> PendingResult<()> {
        let platform = platform.to_owned();
        self.write(Durability::Process, move |scope| {
            scope
                .connection
                .prepare_cached(
                    "UPDATE hx_outbox SET not_before = ?2 WHERE state = 'waiting' AND platform = ?1 AND not_before > ?2",
                )?
                .execute(params![platform, now.seconds()])?;
            Ok(())
        })
    }

    /// Marks a reply as undeliverable; the row is kept for the user to see.
    pub fn mark_undeliverable(&self, id: OutboxId, note: String, at: Timestamp) -> PendingResult<()> {
        self.write(Durability::Disk, move |scope| close(scope, id, "failed", None, Some(&note), at))
    }

    /// Makes replies that were being sent before a restart due again, marked as possibly sent. Returns their
    /// number.
    pub fn recover_outbox(&self) -> PendingResult<usize> {
        self.write(Durability::Disk, |scope| {
            Ok(scope.connection.execute(
                "UPDATE hx_outbox SET state = 'waiting', note = 'unknown' WHERE state = 'sending'",
                [],
            )?)
        })
    }

    /// Returns when the next reply of a platform is due, if any is waiting.
    pub fn next_due(&self, platform: &str) -> PendingResult<Option<Timestamp>> {
        let platform = platform.to_owned();
        self.read(move |scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT MIN(not_before) FROM hx_outbox WHERE state = 'waiting' AND platform = ?1",
            )?;
            let mut rows = statement.query([&platform])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            Ok(column::real(row, 0)?.map(Timestamp))
        })
    }

    pub fn outbox_depth(&self) -> PendingResult<QueueDepth> {
        self.read(|scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT COUNT(*), MIN(created_at) FROM hx_outbox WHERE state IN ('waiting', 'sending')",
            )?;
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
    reply: &OutgoingMessage,
    at: Timestamp,
) -> OperationResult<OutboxId> {
    let json = serde_json::to_string(reply).map_err(|error| not_storable(&error))?;
    let inserted: Option<i64> = scope
        .connection
        .prepare_cached(
            "INSERT INTO hx_outbox (idempotency_key, platform, conversation, reply, state, created_at, not_before)
             VALUES (?1, ?2, ?3, ?4, 'waiting', ?5, ?5) ON CONFLICT (idempotency_key) DO NOTHING RETURNING id",
        )?
        .query_row(params![reply.idempotency_key, reply.platform, conversation, json, at.seconds()], |row| row.get(0))
        .optional()?;
    if let Some(id) = inserted {
        return Ok(OutboxId(id));
    }
    let mut statement =
        scope.connection.prepare_cached("SELECT id FROM hx_outbox WHERE idempotency_key = ?1")?;
    Ok(OutboxId(statement.query_row([&reply.idempotency_key], |row| row.get(0))?))
}

fn claim(
    scope: &OperationScope<'_>,
    platform: &str,
    now: Timestamp,
    limit: usize,
) -> OperationResult<Vec<DueReply>> {
    let mut statement = scope.connection.prepare_cached(
        "SELECT id, reply, attempts, note, conversation, created_at FROM hx_outbox o
         WHERE state = 'waiting' AND platform = ?1 AND not_before <= ?2
           AND NOT EXISTS (SELECT 1 FROM hx_outbox e WHERE e.conversation = o.conversation AND e.platform = o.platform
                           AND e.id < o.id AND e.state IN ('waiting', 'sending'))
         ORDER BY id LIMIT ?3",
    )?;
    let mut rows = statement.query(params![platform, now.seconds(), column::to_signed(limit as u64)])?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        let earlier = match column::text(row, 3)?.as_deref() {
            Some(UNKNOWN) => EarlierSend::Unknown,
            _ => EarlierSend::None,
        };
        due.push(DueReply {
            id: OutboxId(row.get(0)?),
            conversation: column::string(row, 4)?,
            reply: read_json(&column::string(row, 1)?)?,
            created_at: Timestamp(column::real(row, 5)?.unwrap_or_default()),
            attempts: u32::try_from(column::count(row, 2)?).unwrap_or(u32::MAX),
            earlier,
        });
    }
    let mut mark = scope
        .connection
        .prepare_cached("UPDATE hx_outbox SET state = 'sending', attempts = attempts + 1 WHERE id = ?1")?;
    for reply in &due {
        mark.execute([reply.id.0])?;
    }
    Ok(due)
}

fn close(
    scope: &OperationScope<'_>,
    id: OutboxId,
    state: &str,
    receipt: Option<&str>,
    note: Option<&str>,
    at: Timestamp,
) -> OperationResult<()> {
    scope
        .connection
        .prepare_cached("UPDATE hx_outbox SET state = ?2, receipt = ?3, note = ?4, closed_at = ?5 WHERE id = ?1 AND closed_at IS NULL")?
        .execute(params![id.0, state, receipt, note, at.seconds()])?;
    Ok(())
}
