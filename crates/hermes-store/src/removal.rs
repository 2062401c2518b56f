//! Removes sessions from the file, and messages from a transcript.

use hermes_types::{SessionId, Timestamp};
use rusqlite::{OptionalExtension, params};

use crate::Store;
use crate::column;
use crate::criteria::{self, SessionCriteria};
use crate::error::OperationResult;
use crate::index::{self, IndexMaintenance};
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};

/// Tells whether there was anything to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalOutcome {
    Yes,
    NotFound,
}

impl Store {
    /// Removes a session and its messages. Its children are kept, as sessions without a parent.
    pub fn delete_session(&self, id: &SessionId) -> PendingResult<RemovalOutcome> {
        let id = id.clone();
        self.write(Durability::Process, move |scope| delete(scope, &id))
    }

    /// Removes the sessions that the criteria cover now. Returns their ids.
    pub fn prune_sessions(&self, criteria: SessionCriteria) -> PendingResult<Vec<SessionId>> {
        self.write(Durability::Process, move |scope| {
            let doomed = criteria::find(scope, &criteria)?;
            for id in &doomed {
                delete(scope, id)?;
            }
            Ok(doomed)
        })
    }
}

impl Store {
    /// Removes the last messages of a live transcript. They are counted from the end, which is the same for every
    /// reader, while a reader may have left out messages further up.
    pub fn remove_last_messages(&self, session: &SessionId, last: usize) -> PendingResult<()> {
        let session = session.clone();
        self.write(Durability::Process, move |scope| remove_last_messages(scope, &session, last))
    }
}

impl Store {
    /// Replaces the content of a message of a live transcript; the last one is number 1.
    pub fn replace_message_content(
        &self,
        session: &SessionId,
        from_end: usize,
        content: String,
    ) -> PendingResult<()> {
        let session = session.clone();
        self.write(Durability::Process, move |scope| {
            replace_message_content(scope, &session, from_end, &content)
        })
    }
}

fn replace_message_content(
    scope: &OperationScope<'_>,
    session: &SessionId,
    from_end: usize,
    content: &str,
) -> OperationResult<()> {
    let Some(id) = nth_last(scope, session, from_end)? else { return Ok(()) };
    if scope.columns.index_maintenance == IndexMaintenance::Statements {
        index::remove(scope.connection, id)?;
    }
    scope
        .connection
        .prepare_cached("UPDATE messages SET content = ?2 WHERE id = ?1")?
        .execute(params![id, content])?;
    if scope.columns.index_maintenance == IndexMaintenance::Statements {
        index::add(scope.connection, id, content)?;
    }
    Ok(())
}

/// Returns the row id of a message of a live transcript; the last one is number 1.
fn nth_last(scope: &OperationScope<'_>, session: &SessionId, number: usize) -> OperationResult<Option<i64>> {
    let Some(skipped) = number.checked_sub(1) else { return Ok(None) };
    let live = if scope.columns.has_message("active") { " AND COALESCE(active, 1) = 1" } else { "" };
    let found = scope
        .connection
        .prepare_cached(&format!(
            "SELECT id FROM messages WHERE session_id = ?1{live} ORDER BY id DESC LIMIT 1 OFFSET ?2"
        ))?
        .query_row(params![session.as_str(), column::to_signed(skipped as u64)], |row| row.get(0))
        .optional()?;
    Ok(found)
}

pub(crate) fn remove_last_messages(
    scope: &OperationScope<'_>,
    session: &SessionId,
    last: usize,
) -> OperationResult<()> {
    let Some(first) = nth_last(scope, session, last)? else { return Ok(()) };
    if scope.columns.index_maintenance == IndexMaintenance::Statements {
        index::remove_from(scope.connection, session.as_str(), first)?;
    }
    let gone = scope
        .connection
        .prepare_cached("DELETE FROM messages WHERE session_id = ?1 AND id >= ?2")?
        .execute(params![session.as_str(), first])?;
    scope
        .connection
        .prepare_cached(
            "UPDATE sessions SET message_count = MAX(COALESCE(message_count, 0) - ?2, 0) WHERE id = ?1",
        )?
        .execute(params![session.as_str(), column::to_signed(gone as u64)])?;
    Ok(())
}

fn delete(scope: &OperationScope<'_>, id: &SessionId) -> OperationResult<RemovalOutcome> {
    if scope.columns.index_maintenance == IndexMaintenance::Statements {
        index::remove_session(scope.connection, id.as_str())?;
    }
    delete_queued(scope, id)?;
    for sql in [
        "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id = ?1",
        "DELETE FROM messages WHERE session_id = ?1",
        "DELETE FROM hx_turns WHERE session_id = ?1",
        "DELETE FROM hx_goals WHERE session_id = ?1",
    ] {
        scope.connection.prepare_cached(sql)?.execute([id.as_str()])?;
    }
    let gone =
        scope.connection.prepare_cached("DELETE FROM sessions WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(if gone == 0 { RemovalOutcome::NotFound } else { RemovalOutcome::Yes })
}

/// Removes the closed inbox and outbox rows of a session's turns, and of a chat bound to it. Waiting rows are
/// kept.
fn delete_queued(scope: &OperationScope<'_>, id: &SessionId) -> OperationResult<()> {
    let mut statement = scope.connection.prepare_cached("SELECT id FROM hx_turns WHERE session_id = ?1")?;
    let turns: Vec<String> =
        statement.query_map([id.as_str()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for turn in turns {
        // Keys of answers are `turn:<id>:<part>`; a semicolon sorts directly after a colon.
        scope.execute_cached(
            "DELETE FROM hx_outbox WHERE closed_at IS NOT NULL
                AND idempotency_key >= 'turn:' || ?1 || ':' AND idempotency_key < 'turn:' || ?1 || ';'",
            [&turn],
        )?;
        scope.execute_cached("DELETE FROM hx_requests WHERE turn_id = ?1", [&turn])?;
    }
    for sql in [
        "DELETE FROM hx_inbox WHERE closed_at IS NOT NULL
            AND turn_id IN (SELECT id FROM hx_turns WHERE session_id = ?1)",
        "DELETE FROM hx_inbox WHERE closed_at IS NOT NULL
            AND conversation IN (SELECT key FROM hx_conversations WHERE session_id = ?1)",
        "DELETE FROM hx_outbox WHERE closed_at IS NOT NULL
            AND conversation IN (SELECT key FROM hx_conversations WHERE session_id = ?1)",
    ] {
        scope.execute_cached(sql, [id.as_str()])?;
    }
    Ok(())
}

impl Store {
    /// Removes up to `limit` messages and replies that were closed before then. Returns the number removed: fewer
    /// than the limit means that none are left.
    pub fn prune_settled(&self, before: Timestamp, limit: usize) -> PendingResult<usize> {
        self.write(Durability::Process, move |scope| {
            let mut gone = 0;
            for table in ["hx_inbox", "hx_outbox"] {
                let left = column::to_signed(limit.saturating_sub(gone) as u64);
                gone += scope.execute_cached(
                    &format!(
                        "DELETE FROM {table} WHERE id IN
                            (SELECT id FROM {table} WHERE closed_at < ?1 ORDER BY closed_at LIMIT ?2)"
                    ),
                    params![before.seconds(), left],
                )?;
            }
            Ok(gone)
        })
    }
}
