//! The current session of each chat.
//!
//! A chat keeps its key while its sessions change. Data that other programs store about a chat is kept as the text
//! they wrote; this crate does not parse it.

use hermes_types::{SessionId, Timestamp};
use rusqlite::{Row, params};

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
            Ok(())
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
