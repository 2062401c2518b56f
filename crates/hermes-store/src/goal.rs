//! The goals of conversations, as texts that the agent writes and this crate does not parse.
//!
//! Invariant: a goal belongs to the current session of its conversation; it is removed with that session.

use hermes_types::{SessionId, Timestamp};
use rusqlite::{OptionalExtension, params};

use crate::Store;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};

impl Store {
    /// Returns the goal of a session.
    pub fn goal(&self, session: &SessionId) -> PendingResult<Option<String>> {
        let session = session.clone();
        self.read(move |scope| {
            let mut statement =
                scope.connection.prepare_cached("SELECT goal FROM hx_goals WHERE session_id = ?1")?;
            Ok(statement.query_row([session.as_str()], |row| row.get(0)).optional()?)
        })
    }

    /// Stores the goal of a session, or removes it.
    pub fn set_goal(&self, session: &SessionId, goal: Option<String>, at: Timestamp) -> PendingResult<()> {
        let session = session.clone();
        self.write(Durability::Process, move |scope| {
            match &goal {
                Some(goal) => scope.execute_cached(
                    "INSERT INTO hx_goals (session_id, goal, updated_at) VALUES (?1, ?2, ?3)
                     ON CONFLICT (session_id) DO UPDATE SET goal = excluded.goal, updated_at = excluded.updated_at",
                    params![session.as_str(), goal, at.seconds()],
                )?,
                None => scope.execute_cached("DELETE FROM hx_goals WHERE session_id = ?1", [session.as_str()])?,
            };
            Ok(())
        })
    }
}

/// Moves the goal of a conversation to the session it continues in.
pub(crate) fn carry(scope: &OperationScope<'_>, old: &SessionId, new: &SessionId) -> OperationResult<()> {
    scope.execute_cached(
        "UPDATE OR REPLACE hx_goals SET session_id = ?2 WHERE session_id = ?1",
        [old.as_str(), new.as_str()],
    )?;
    Ok(())
}
