//! Lists for people: the newest sessions with a preview, and totals.
//!
//! A list reads only what it shows: sessions come from the index on their start, and each preview is one index
//! lookup.

use hermes_text::{ellipsize, single_line};
use hermes_types::{SessionId, Timestamp};
use rusqlite::{CachedStatement, params};

use crate::Store;
use crate::column;
use crate::criteria::{not_archived, noted};
use crate::error::OperationResult;
use crate::message::decode_content;
use crate::pending_result::PendingResult;
use crate::writer::OperationScope;

const PREVIEW_CHARS: usize = 60;

/// The sessions a list covers. Archived ones are hidden.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// The source to include. Without it, sessions created by tools are hidden.
    pub source: Option<String>,
    /// A part of the working folder, in any case.
    pub workspace: Option<String>,
}

impl SessionFilter {
    /// Covers the sessions of one source.
    pub fn of_source(source: impl Into<String>) -> Self {
        Self { source: Some(source.into()), workspace: None }
    }

    /// Returns the condition on `s`, with `?1` for the source and `?3` for the workspace.
    fn condition(&self, scope: &OperationScope<'_>) -> String {
        let source =
            if self.source.is_some() { "s.source = ?1" } else { "(?1 IS NULL AND s.source <> 'tool')" };
        let workspace = if self.workspace.is_some() {
            format!(" AND instr(lower({}), ?3) > 0", noted(scope, "cwd"))
        } else {
            " AND ?3 IS NULL".to_owned()
        };
        format!("{source}{workspace}{}", not_archived(scope))
    }
}

/// A session as a list shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    pub id: SessionId,
    pub source: String,
    pub model: Option<String>,
    pub title: Option<String>,
    /// The user's first message, on one line, cut to 60 characters.
    pub preview: String,
    pub started_at: Timestamp,
    /// The time of the newest message, or the start when there is none.
    pub last_active: Timestamp,
    pub message_count: u64,
    pub parent: Option<SessionId>,
    /// The folder it worked in, if it is known.
    pub folder: Option<String>,
}

/// The totals over the whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreStats {
    pub sessions: u64,
    pub messages: u64,
    /// The number of sessions per source, largest first.
    pub by_source: Vec<(String, u64)>,
    pub file_bytes: u64,
}

impl Store {
    /// Returns the newest sessions by their start.
    pub fn list_sessions(&self, filter: SessionFilter, limit: usize) -> PendingResult<Vec<SessionSummary>> {
        self.read(move |scope| list(scope, &filter, "", limit))
    }

    /// Returns the newest conversations, one row for each; for a compressed conversation, the row is its current
    /// session.
    pub fn list_conversations(
        &self,
        filter: SessionFilter,
        limit: usize,
    ) -> PendingResult<Vec<SessionSummary>> {
        self.read(move |scope| list(scope, &filter, NEWEST_PART_CONDITION, limit))
    }

    pub fn stats(&self) -> PendingResult<StoreStats> {
        let path = self.path().to_owned();
        self.read(move |scope| {
            let mut stats = StoreStats {
                messages: count(scope, "SELECT COUNT(*) FROM messages")?,
                file_bytes: std::fs::metadata(&path).map_or(0, |meta| meta.len()),
                ..StoreStats::default()
            };
            let mut statement = scope.connection.prepare_cached(
                "SELECT source, COUNT(*) FROM sessions GROUP BY source ORDER BY COUNT(*) DESC, source",
            )?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let sessions = column::count(row, 1)?;
                stats.sessions += sessions;
                stats.by_source.push((column::string(row, 0)?, sessions));
            }
            Ok(stats)
        })
    }
}

/// Leaves out sessions that continue in another one. Side branches are recognised by their configuration and are
/// not continuations.
const NEWEST_PART_CONDITION: &str = " AND NOT (COALESCE(s.end_reason, '') = 'compression' AND EXISTS (
    SELECT 1 FROM sessions c WHERE c.parent_session_id = s.id AND c.message_count > 0
        AND COALESCE(c.model_config, '') NOT LIKE '%\"_delegate_from\"%'
        AND COALESCE(c.model_config, '') NOT LIKE '%\"_branched_from\"%'))";

fn list_statement<'a>(
    scope: &OperationScope<'a>,
    filter: &SessionFilter,
    more: &str,
) -> OperationResult<CachedStatement<'a>> {
    let condition = format!("{}{more}", filter.condition(scope));
    Ok(scope.connection.prepare_cached(&format!(
        "SELECT s.id, s.source, s.model, s.title, s.started_at, s.message_count, s.parent_session_id,
            (SELECT m.content FROM messages m
             WHERE m.session_id = s.id AND m.role = 'user' ORDER BY m.timestamp, m.id LIMIT 1),
            (SELECT m.timestamp FROM messages m
             WHERE m.session_id = s.id ORDER BY m.timestamp DESC LIMIT 1), {}
         FROM sessions s
         WHERE {condition} ORDER BY s.started_at DESC LIMIT ?2",
        noted(scope, "cwd")
    ))?)
}

fn list(
    scope: &OperationScope<'_>,
    filter: &SessionFilter,
    more: &str,
    limit: usize,
) -> OperationResult<Vec<SessionSummary>> {
    let mut statement = list_statement(scope, filter, more)?;
    let workspace = filter.workspace.as_deref().map(str::to_lowercase);
    let mut rows = statement.query(params![filter.source, column::to_signed(limit as u64), workspace])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let started_at = Timestamp(column::real(row, 4)?.unwrap_or_default());
        let first = decode_content(column::string(row, 7)?);
        found.push(SessionSummary {
            id: SessionId::new(column::string(row, 0)?),
            source: column::string(row, 1)?,
            model: column::text(row, 2)?,
            title: column::text(row, 3)?,
            preview: ellipsize(single_line(&first.text()).trim(), PREVIEW_CHARS).into_owned(),
            started_at,
            last_active: column::real(row, 8)?.map_or(started_at, Timestamp),
            message_count: column::count(row, 5)?,
            parent: column::text(row, 6)?.map(SessionId::new),
            folder: column::text(row, 9)?,
        });
    }
    Ok(found)
}

fn count(scope: &OperationScope<'_>, sql: &str) -> OperationResult<u64> {
    let mut statement = scope.connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    rows.next()?.map_or(Ok(0), |row| column::count(row, 0))
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, StatementStatus};

    use super::*;
    use crate::schema::{self, OptionalColumns};

    /// Returns the work of SQLite to list 20 sessions, counted in its own instructions.
    fn work_for(sessions: u32, filter: &SessionFilter) -> i32 {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::prepare(&mut connection, std::path::Path::new("state.db"))
            .unwrap_or_else(|_| panic!("schema"));
        connection
            .execute_batch(&format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {sessions})
                 INSERT INTO sessions (id, source, started_at)
                    SELECT 's' || i, CASE WHEN i % 500 = 0 THEN 'discord' ELSE 'cli' END, i FROM n;
                 INSERT INTO messages (session_id, role, content, timestamp)
                    SELECT id, 'user', 'hello', started_at FROM sessions;"
            ))
            .unwrap();
        let columns = OptionalColumns::read(&connection).unwrap_or_else(|_| panic!("columns"));
        let scope = OperationScope { connection: &connection, columns: &columns };
        let mut statement =
            list_statement(&scope, filter, NEWEST_PART_CONDITION).unwrap_or_else(|_| panic!("statement"));
        let rows =
            statement.query_map(params![filter.source, 20, None::<String>], |_| Ok(())).unwrap().count();
        assert_eq!(rows, 20);
        statement.get_status(StatementStatus::VmStep)
    }

    #[test]
    fn listing_touches_only_what_it_shows() {
        for source in [None, Some("cli".to_owned()), Some("discord".to_owned())] {
            let filter = SessionFilter { source, ..SessionFilter::default() };
            let (small, large) = (work_for(10_000, &filter), work_for(50_000, &filter));
            assert_eq!(small, large, "{filter:?}: the work must not grow with the number of sessions");
        }
    }
}
