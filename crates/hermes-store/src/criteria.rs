//! The sessions that an export, a removal or an archival covers.

use hermes_types::{SessionId, Timestamp};
use rusqlite::types::Value;

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};

/// A range that includes its ends; an absent end is open.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NumberRange {
    pub least: Option<f64>,
    pub most: Option<f64>,
}

/// Tells whether running sessions are covered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CoveredStates {
    #[default]
    All,
    Ended,
}

/// Tells whether archived sessions are covered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArchivedSessions {
    #[default]
    Include,
    Exclude,
}

/// Conditions on sessions. A session is covered if it meets all that are set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionCriteria {
    pub source: Option<String>,
    pub started_before: Option<Timestamp>,
    pub started_after: Option<Timestamp>,
    /// A part of the title, in any case.
    pub title: Option<String>,
    pub end_reason: Option<String>,
    /// The working folder, or a folder above it.
    pub folder: Option<String>,
    /// A part of the working folder, in any case.
    pub workspace: Option<String>,
    /// A part of the model's name, in any case.
    pub model: Option<String>,
    pub provider: Option<String>,
    pub user: Option<String>,
    pub chat_id: Option<String>,
    pub chat_type: Option<String>,
    pub branch: Option<String>,
    pub messages: NumberRange,
    /// Tokens of requests and answers.
    pub tokens: NumberRange,
    /// Dollars.
    pub cost: NumberRange,
    pub tool_calls: NumberRange,
    pub states: CoveredStates,
    pub archived: ArchivedSessions,
}

impl Store {
    /// Returns the covered sessions, oldest first.
    pub fn find_sessions(&self, criteria: SessionCriteria) -> PendingResult<Vec<SessionId>> {
        self.read(move |scope| find(scope, &criteria))
    }

    /// Hides sessions from lists, or shows them again.
    pub fn archive_sessions(&self, ids: Vec<SessionId>, archived: ArchiveChange) -> PendingResult<()> {
        self.write(Durability::Process, move |scope| {
            ids.iter().try_for_each(|id| set_archived(scope, id, archived))
        })
    }

    /// Returns the folder that a session worked in, if it is known.
    pub fn session_folder(&self, id: &SessionId) -> PendingResult<Option<String>> {
        let id = id.clone();
        self.read(move |scope| {
            let sql = format!("SELECT {} FROM sessions s WHERE s.id = ?1", noted(scope, "cwd"));
            let mut statement = scope.connection.prepare_cached(&sql)?;
            let mut rows = statement.query([id.as_str()])?;
            rows.next()?.map_or(Ok(None), |row| column::text(row, 0))
        })
    }
}

/// What happens to the mark that hides a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveChange {
    Archive,
    Restore,
}

fn set_archived(scope: &OperationScope<'_>, id: &SessionId, change: ArchiveChange) -> OperationResult<()> {
    let mark = i64::from(change == ArchiveChange::Archive);
    if scope.columns.has_session("archived") {
        scope.execute_cached(
            "UPDATE sessions SET archived = ?2 WHERE id = ?1",
            rusqlite::params![id.as_str(), mark],
        )?;
    }
    // A file that gained the column later may still have the mark here.
    scope.execute_cached(
        "INSERT INTO hx_session_notes (session_id, archived) SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1)
         ON CONFLICT (session_id) DO UPDATE SET archived = excluded.archived",
        rusqlite::params![id.as_str(), mark],
    )?;
    Ok(())
}

/// Returns the condition on `s` that a session is not archived; empty if the file knows no archived ones.
pub(crate) fn not_archived(scope: &OperationScope<'_>) -> String {
    let mut text = String::new();
    if scope.columns.has_session("archived") {
        text.push_str(" AND COALESCE(s.archived, 0) = 0");
    }
    if scope.columns.has_own_tables {
        text.push_str(
            " AND NOT EXISTS (SELECT 1 FROM hx_session_notes n WHERE n.session_id = s.id AND n.archived <> 0)",
        );
    }
    text
}

/// Returns the expression for a value of `s` that newer files keep in a column, and others in this program's own table.
pub(crate) fn noted(scope: &OperationScope<'_>, name: &str) -> String {
    let own = format!("(SELECT n.{name} FROM hx_session_notes n WHERE n.session_id = s.id)");
    match (scope.columns.has_session(name), scope.columns.has_own_tables) {
        (true, true) => format!("COALESCE(s.{name}, {own})"),
        (true, false) => format!("s.{name}"),
        (false, true) => own,
        (false, false) => "NULL".to_owned(),
    }
}

/// Returns the expression for a value of the chat that `s` belongs to.
fn of_chat(scope: &OperationScope<'_>, name: &str, path: &str) -> String {
    let own = format!(
        "(SELECT CASE WHEN json_valid(c.entry) THEN json_extract(c.entry, '{path}') END
          FROM hx_conversations c WHERE c.session_id = s.id)"
    );
    match (scope.columns.has_session(name), scope.columns.has_own_tables) {
        (true, true) => format!("COALESCE(s.{name}, {own})"),
        (true, false) => format!("s.{name}"),
        (false, true) => own,
        (false, false) => "NULL".to_owned(),
    }
}

/// A condition that is being put together, with its values.
#[derive(Default)]
struct Condition {
    text: String,
    values: Vec<Value>,
}

impl Condition {
    /// Adds a part; `?` in it stands for the value.
    fn add(&mut self, part: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.text.push_str(" AND ");
        self.text.push_str(&part.replace('?', &format!("?{}", self.values.len())));
    }

    fn equal(&mut self, expression: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.add(&format!("{expression} = ?"), value.clone());
        }
    }

    fn contains(&mut self, expression: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.add(&format!("instr(lower({expression}), ?) > 0"), value.to_lowercase());
        }
    }

    fn within(&mut self, expression: &str, range: NumberRange) {
        if let Some(least) = range.least {
            self.add(&format!("COALESCE({expression}, 0) >= ?"), least);
        }
        if let Some(most) = range.most {
            self.add(&format!("COALESCE({expression}, 0) <= ?"), most);
        }
    }
}

pub(crate) fn find(
    scope: &OperationScope<'_>,
    criteria: &SessionCriteria,
) -> OperationResult<Vec<SessionId>> {
    let mut condition = Condition::default();
    condition.equal("s.source", criteria.source.as_ref());
    condition.equal("s.end_reason", criteria.end_reason.as_ref());
    condition.equal("s.user_id", criteria.user.as_ref());
    condition.equal("s.billing_provider", criteria.provider.as_ref());
    condition.contains("s.title", criteria.title.as_ref());
    condition.contains("s.model", criteria.model.as_ref());
    let folder = noted(scope, "cwd");
    condition.contains(&folder, criteria.workspace.as_ref());
    if let Some(wanted) = criteria.folder.as_deref().map(|folder| folder.trim_end_matches('/').to_owned()) {
        // `/a/b` covers `/a/b/c`, and not `/a/bc`.
        condition.add(&format!("({folder} = ? OR substr({folder}, 1, length(?) + 1) = ? || '/')"), wanted);
    }
    condition.equal(&noted(scope, "git_branch"), criteria.branch.as_ref());
    condition.equal(&of_chat(scope, "chat_id", "$.origin.chat_id"), criteria.chat_id.as_ref());
    condition.equal(&of_chat(scope, "chat_type", "$.origin.chat_type"), criteria.chat_type.as_ref());
    if let Some(before) = criteria.started_before {
        condition.add("s.started_at < ?", before.seconds());
    }
    if let Some(after) = criteria.started_after {
        condition.add("s.started_at >= ?", after.seconds());
    }
    condition.within("s.message_count", criteria.messages);
    condition.within("s.tool_call_count", criteria.tool_calls);
    condition.within("(COALESCE(s.input_tokens, 0) + COALESCE(s.output_tokens, 0))", criteria.tokens);
    condition.within("COALESCE(s.actual_cost_usd, s.estimated_cost_usd)", criteria.cost);
    if criteria.states == CoveredStates::Ended {
        condition.text.push_str(" AND s.ended_at IS NOT NULL");
    }
    if criteria.archived == ArchivedSessions::Exclude {
        condition.text.push_str(&not_archived(scope));
    }
    let sql = format!("SELECT s.id FROM sessions s WHERE 1{} ORDER BY s.started_at, s.id", condition.text);
    let mut statement = scope.connection.prepare(&sql)?;
    let ids =
        statement.query_map(rusqlite::params_from_iter(condition.values), |row| row.get::<_, String>(0))?;
    Ok(ids.map(|id| id.map(SessionId::new)).collect::<rusqlite::Result<_>>()?)
}
