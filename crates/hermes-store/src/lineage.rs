//! The descent of sessions: a long conversation continues in child sessions; side branches do not count as
//! continuations.

use std::collections::HashSet;

use hermes_types::{SessionId, Timestamp, TurnState};
use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::message::{self, StoredMessage};
use crate::pending_result::PendingResult;
use crate::session;
use crate::writer::OperationScope;

/// The maximum length of a chain; a longer one can only be a loop made by hand.
const MAX_CHAIN_LENGTH: usize = 1000;

/// A part of a session's work that was delegated to a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegatedSession {
    /// The session with the subagent's conversation.
    pub session: SessionId,
    /// The state of its turn; running if no end was recorded.
    pub state: Option<TurnState>,
}

/// The first and the newest session of a conversation that compression moved from session to session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Continuation {
    /// The session the conversation began in. It identifies the conversation, whichever session is current.
    pub first: SessionId,
    /// The current session.
    pub newest: SessionId,
}

impl Store {
    /// Returns the first and the newest session of this session's conversation. For an unknown session, both are
    /// its id.
    pub fn continuation(&self, id: &SessionId) -> PendingResult<Continuation> {
        let id = id.clone();
        self.read(move |scope| {
            let first = compression_ancestors(scope, &id)?.pop().unwrap_or_else(|| id.clone());
            Ok(Continuation { first, newest: newest_continuation(scope, &id)? })
        })
    }

    /// Returns the sessions of the conversation up to this one, oldest first.
    pub fn conversation_sessions(&self, newest: &SessionId) -> PendingResult<Vec<SessionId>> {
        let newest = newest.clone();
        self.read(move |scope| {
            let mut parts = compression_ancestors(scope, &newest)?;
            parts.reverse();
            parts.push(newest.clone());
            Ok(parts)
        })
    }

    /// Returns all messages of the conversation up to this session, each once: messages that compression copied
    /// into a new session are left out there.
    pub fn full_conversation(&self, newest: &SessionId) -> PendingResult<Vec<StoredMessage>> {
        let newest = newest.clone();
        self.read(move |scope| {
            let mut parts = compression_ancestors(scope, &newest)?;
            parts.reverse();
            parts.push(newest.clone());
            let mut whole = Vec::new();
            for (at, part) in parts.iter().enumerate() {
                // Copied messages have the time at which the new session began.
                let began = session::find(scope, part)?.map(|session| session.started_at).filter(|_| at > 0);
                let rows = message::load(scope, part)?;
                whole.extend(rows.into_iter().filter(|row| began.is_none_or(|began| row.at > began)));
            }
            Ok(whole)
        })
    }

    /// Returns the work a session has delegated since then, in that order.
    pub fn delegated_sessions(
        &self,
        by: &SessionId,
        since: Timestamp,
    ) -> PendingResult<Vec<DelegatedSession>> {
        let by = by.clone();
        self.read(move |scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT id, model_config FROM sessions WHERE parent_session_id = ?1 AND started_at >= ?2
                 ORDER BY started_at, rowid",
            )?;
            let mut rows = statement.query(params![by.as_str(), since.seconds()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                if !column::text(row, 1)?.is_some_and(|config| names(&config, "_delegate_from")) {
                    continue;
                }
                let first = SessionId::new(column::string(row, 0)?);
                let session = newest_continuation(scope, &first)?;
                found.push(DelegatedSession { state: last_state(scope, &session)?, session });
            }
            Ok(found)
        })
    }

    /// Returns the first session of the conversation this one belongs to.
    pub fn lineage_root(&self, id: &SessionId) -> PendingResult<SessionId> {
        let id = id.clone();
        self.read(move |scope| root(scope, &id))
    }

    /// Returns every session of the conversation: ancestors, itself and all descendants.
    pub fn lineage(&self, id: &SessionId) -> PendingResult<HashSet<SessionId>> {
        let id = id.clone();
        self.read(move |scope| {
            let mut members = HashSet::from([root(scope, &id)?]);
            let mut waiting: Vec<SessionId> = members.iter().cloned().collect();
            while let Some(next) = waiting.pop() {
                for child in children(scope, &next)? {
                    if members.len() < MAX_CHAIN_LENGTH && members.insert(child.id.clone()) {
                        waiting.push(child.id);
                    }
                }
            }
            Ok(members)
        })
    }
}

struct ChildSession {
    id: SessionId,
    is_side_branch: bool,
    message_count: u64,
}

pub(crate) fn root(scope: &OperationScope<'_>, id: &SessionId) -> OperationResult<SessionId> {
    let mut current = id.clone();
    for _ in 0..MAX_CHAIN_LENGTH {
        match parent(scope, &current)? {
            Some(parent) if parent != current => current = parent,
            _ => break,
        }
    }
    Ok(current)
}

/// Returns the session in which a compressed conversation continues: the newest descendant with messages that is
/// no side branch.
pub(crate) fn newest_continuation(scope: &OperationScope<'_>, id: &SessionId) -> OperationResult<SessionId> {
    let mut best = id.clone();
    let mut current = id.clone();
    for _ in 0..MAX_CHAIN_LENGTH {
        if end_reason(scope, &current)?.as_deref() != Some("compression") {
            break;
        }
        // Children are ordered newest first.
        let Some(next) = children(scope, &current)?.into_iter().find(|child| !child.is_side_branch) else {
            break;
        };
        current = next.id;
        if next.message_count > 0 {
            best = current.clone();
        }
    }
    Ok(best)
}

/// Returns the sessions this one continues, nearest first.
pub(crate) fn compression_ancestors(
    scope: &OperationScope<'_>,
    id: &SessionId,
) -> OperationResult<Vec<SessionId>> {
    let mut ancestors = Vec::new();
    let mut current = id.clone();
    while ancestors.len() < MAX_CHAIN_LENGTH {
        let Some(parent) = parent(scope, &current)? else {
            break;
        };
        if end_reason(scope, &parent)?.as_deref() != Some("compression") || ancestors.contains(&parent) {
            break;
        }
        ancestors.push(parent.clone());
        current = parent;
    }
    Ok(ancestors)
}

fn parent(scope: &OperationScope<'_>, id: &SessionId) -> OperationResult<Option<SessionId>> {
    let mut statement =
        scope.connection.prepare_cached("SELECT parent_session_id FROM sessions WHERE id = ?1")?;
    let parent: Option<Option<String>> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    Ok(parent.flatten().map(SessionId::new))
}

fn end_reason(scope: &OperationScope<'_>, id: &SessionId) -> OperationResult<Option<String>> {
    let mut statement = scope.connection.prepare_cached("SELECT end_reason FROM sessions WHERE id = ?1")?;
    let reason: Option<Option<String>> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    Ok(reason.flatten())
}

fn children(scope: &OperationScope<'_>, id: &SessionId) -> OperationResult<Vec<ChildSession>> {
    let mut statement = scope.connection.prepare_cached(
        "SELECT id, model_config, message_count FROM sessions WHERE parent_session_id = ?1 ORDER BY started_at DESC, rowid DESC",
    )?;
    let mut rows = statement.query([id.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(ChildSession {
            id: SessionId::new(column::string(row, 0)?),
            is_side_branch: column::text(row, 1)?.is_some_and(|config| is_side_branch(&config)),
            message_count: column::count(row, 2)?,
        });
    }
    Ok(found)
}

fn last_state(scope: &OperationScope<'_>, session: &SessionId) -> OperationResult<Option<TurnState>> {
    let mut statement = scope.connection.prepare_cached(
        "SELECT state FROM hx_turns WHERE session_id = ?1 ORDER BY started_at DESC, rowid DESC LIMIT 1",
    )?;
    let state: Option<String> = statement.query_row([session.as_str()], |row| row.get(0)).optional()?;
    Ok(state.and_then(|state| TurnState::parse(&state)))
}

fn is_side_branch(model_config: &str) -> bool {
    ["_delegate_from", "_branched_from"].iter().any(|key| names(model_config, key))
}

fn names(model_config: &str, key: &str) -> bool {
    let config: Value = serde_json::from_str(model_config).unwrap_or_default();
    config.get(key).is_some_and(|value| !value.is_null())
}
