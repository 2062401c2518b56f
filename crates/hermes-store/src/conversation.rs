//! The current session of each chat.
//!
//! A chat keeps its key while its sessions change. Data that other programs store about a chat is kept as the text
//! they wrote; this crate does not parse it.

use hermes_types::{SessionId, Timestamp};
use rusqlite::{Connection, Row, params};

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};

/// The binding of a chat to its current session.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatBinding {
    pub key: String,
    pub session: SessionId,
    /// The entry as JSON, in the format of `sessions.json`.
    pub entry: String,
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "key, session_id, entry, updated_at";

impl Store {
    pub fn binding(&self, key: &str) -> PendingResult<Option<ChatBinding>> {
        let key = key.to_owned();
        self.read(move |scope| {
            let mut statement = scope
                .connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM hx_conversations WHERE key = ?1"))?;
            let mut rows = statement.query([&key])?;
            rows.next()?.map(read).transpose()
        })
    }

    /// Binds a chat to a session, or updates its entry. A binding older than the stored one changes nothing.
    pub fn bind(&self, binding: ChatBinding) -> PendingResult<()> {
        self.write(Durability::Process, move |scope| {
            scope
                .connection
                .prepare_cached(&format!(
                    "INSERT INTO hx_conversations ({COLUMNS}) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT (key) DO UPDATE SET session_id = excluded.session_id, entry = excluded.entry,
                        updated_at = excluded.updated_at
                     WHERE excluded.updated_at >= updated_at"
                ))?
                .execute(params![
                    binding.key,
                    binding.session.as_str(),
                    binding.entry,
                    binding.updated_at.seconds()
                ])?;
            list_session(scope, &binding)
        })
    }

    /// Returns all chats, the most recently used first.
    pub fn bindings(&self) -> PendingResult<Vec<ChatBinding>> {
        self.read(|scope| {
            let mut statement = scope.connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM hx_conversations ORDER BY updated_at DESC"
            ))?;
            let mut rows = statement.query([])?;
            let mut bindings = Vec::new();
            while let Some(row) = rows.next()? {
                bindings.push(read(row)?);
            }
            Ok(bindings)
        })
    }
}

/// The chat in the entry of a binding: platform and id.
const CHAT_COLUMNS: &str =
    "COALESCE(json_extract(entry, '$.origin.platform'), json_extract(entry, '$.platform')) AS p,
    json_extract(entry, '$.origin.chat_id') AS c";

/// Lists the session of a binding under its chat.
fn list_session(scope: &OperationScope<'_>, binding: &ChatBinding) -> OperationResult<()> {
    scope.execute_cached(
        &format!(
            "INSERT OR IGNORE INTO hx_chat_sessions (platform, chat_id, session_id)
             SELECT p, c, session FROM (
                SELECT {CHAT_COLUMNS}, ?2 AS session FROM (SELECT ?1 AS entry WHERE json_valid(?1)))
             WHERE p IS NOT NULL AND c IS NOT NULL AND EXISTS (SELECT 1 FROM sessions WHERE id = session)"
        ),
        params![binding.entry, binding.session.as_str()],
    )?;
    Ok(())
}

/// Lists a session under the chat that is bound to it.
pub(crate) fn list_session_of_chat(scope: &OperationScope<'_>, session: &SessionId) -> OperationResult<()> {
    scope.execute_cached(
        &format!(
            "INSERT OR IGNORE INTO hx_chat_sessions (platform, chat_id, session_id)
             SELECT p, c, ?1 FROM (
                SELECT {CHAT_COLUMNS}
                FROM (SELECT entry FROM hx_conversations WHERE session_id = ?1 AND json_valid(entry)))
             WHERE p IS NOT NULL AND c IS NOT NULL"
        ),
        params![session.as_str()],
    )?;
    Ok(())
}

/// Lists the sessions that chats are at, in a file of an older release.
pub(crate) fn list_bound_sessions(connection: &Connection) -> OperationResult<()> {
    connection.execute_batch(&format!(
        "INSERT OR IGNORE INTO hx_chat_sessions (platform, chat_id, session_id)
         SELECT p, c, session FROM (
            SELECT {CHAT_COLUMNS}, session_id AS session
            FROM (SELECT entry, session_id FROM hx_conversations WHERE json_valid(entry)))
         WHERE p IS NOT NULL AND c IS NOT NULL AND EXISTS (SELECT 1 FROM sessions WHERE id = session)"
    ))?;
    Ok(())
}

/// Moves chats from a session that was split to the one that continues it.
pub(crate) fn move_bindings(
    scope: &OperationScope<'_>,
    old: &SessionId,
    new: &SessionId,
    at: Timestamp,
) -> OperationResult<()> {
    scope.execute_cached(
        "UPDATE hx_conversations SET session_id = ?2, updated_at = MAX(updated_at, ?3),
            entry = CASE WHEN json_valid(entry) THEN json_set(entry, '$.session_id', ?2) ELSE entry END
         WHERE session_id = ?1",
        params![old.as_str(), new.as_str(), at.seconds()],
    )?;
    scope.execute_cached(
        "INSERT OR IGNORE INTO hx_chat_sessions (platform, chat_id, session_id)
         SELECT platform, chat_id, ?2 FROM hx_chat_sessions WHERE session_id = ?1",
        params![old.as_str(), new.as_str()],
    )?;
    Ok(())
}

fn read(row: &Row<'_>) -> OperationResult<ChatBinding> {
    Ok(ChatBinding {
        key: column::string(row, 0)?,
        session: SessionId::new(column::string(row, 1)?),
        entry: column::string(row, 2)?,
        updated_at: Timestamp(column::real(row, 3)?.unwrap_or_default()),
    })
}
