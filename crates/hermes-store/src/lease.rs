//! Leases: one holder per conversation, across all processes that share a home.

use std::time::Duration;

use hermes_types::{HolderId, Timestamp};
use rusqlite::{OptionalExtension, params};

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};

/// The time for which the row of an expired lease is kept.
const EXPIRED_RETENTION: Duration = Duration::from_hours(1);

/// The result of acquiring a lease.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseOutcome {
    Granted,
    HeldBy { holder: HolderId, until: Timestamp },
}

impl Store {
    /// Acquires the lease of a conversation if it is free, already held by this holder, or expired.
    pub fn acquire_lease(
        &self,
        conversation: &str,
        holder: &HolderId,
        now: Timestamp,
        span: Duration,
    ) -> PendingResult<LeaseOutcome> {
        let (conversation, holder) = (conversation.to_owned(), holder.clone());
        self.write(Durability::Process, move |scope| acquire(scope, &conversation, &holder, now, span))
    }

    /// Releases the lease of a conversation. A lease of another holder is not changed.
    pub fn release_lease(&self, conversation: &str, holder: &HolderId) -> PendingResult<()> {
        let (conversation, holder) = (conversation.to_owned(), holder.clone());
        self.write(Durability::Process, move |scope| {
            scope
                .connection
                .prepare_cached("DELETE FROM hx_leases WHERE conversation = ?1 AND holder = ?2")?
                .execute([conversation.as_str(), holder.as_str()])?;
            Ok(())
        })
    }

    /// Returns the current holder of a conversation's lease.
    pub fn lease_holder(&self, conversation: &str, now: Timestamp) -> PendingResult<Option<HolderId>> {
        let conversation = conversation.to_owned();
        self.read(move |scope| {
            let holder: Option<String> = scope
                .connection
                .prepare_cached("SELECT holder FROM hx_leases WHERE conversation = ?1 AND expires_at > ?2")?
                .query_row(params![conversation, now.seconds()], |row| row.get(0))
                .optional()?;
            Ok(holder.map(HolderId::new))
        })
    }
}

pub(crate) fn acquire(
    scope: &OperationScope<'_>,
    conversation: &str,
    holder: &HolderId,
    now: Timestamp,
    span: Duration,
) -> OperationResult<LeaseOutcome> {
    let taken = scope.execute_cached(
        "INSERT INTO hx_leases (conversation, holder, taken_at, expires_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (conversation) DO UPDATE SET
            holder = excluded.holder, expires_at = excluded.expires_at,
            taken_at = CASE WHEN holder = excluded.holder THEN taken_at ELSE excluded.taken_at END
         WHERE holder = excluded.holder OR expires_at <= excluded.taken_at",
        params![conversation, holder.as_str(), now.seconds(), now.plus(span).seconds()],
    )?;
    if taken > 0 {
        // Expired leases of processes that died are no longer needed.
        scope.execute_cached(
            "DELETE FROM hx_leases WHERE expires_at < ?1 AND conversation <> ?2",
            params![now.minus(EXPIRED_RETENTION).seconds(), conversation],
        )?;
        return Ok(LeaseOutcome::Granted);
    }
    let mut statement = scope
        .connection
        .prepare_cached("SELECT holder, expires_at FROM hx_leases WHERE conversation = ?1")?;
    let mut rows = statement.query([conversation])?;
    let Some(row) = rows.next()? else { return Ok(LeaseOutcome::Granted) };
    Ok(LeaseOutcome::HeldBy {
        holder: HolderId::new(column::string(row, 0)?),
        until: Timestamp(column::real(row, 1)?.unwrap_or_default()),
    })
}
