//! The session row, from the first message to its end, with its usage totals.

use hermes_types::{Cost, SessionId, Timestamp, Usage};
use rusqlite::{OptionalExtension, params};

use crate::column;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::{Durability, OperationScope};
use crate::{Error, Store};

/// The data of a session at its start.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    pub id: SessionId,
    /// The source: `cli`, a platform's name, `cron`, `tool`, …
    pub source: String,
    pub user_id: Option<String>,
    pub model: Option<String>,
    /// The model configuration as JSON.
    pub model_config: Option<String>,
    pub system_prompt: Option<String>,
    pub parent: Option<SessionId>,
    pub started_at: Timestamp,
    /// The working directory.
    pub cwd: Option<String>,
    /// The git branch of the working directory.
    pub git_branch: Option<String>,
}

impl NewSession {
    pub fn new(id: SessionId, source: impl Into<String>, started_at: Timestamp) -> Self {
        Self {
            id,
            source: source.into(),
            user_id: None,
            model: None,
            model_config: None,
            system_prompt: None,
            parent: None,
            started_at,
            cwd: None,
            git_branch: None,
        }
    }
}

/// A session as stored in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: SessionId,
    pub source: String,
    pub user_id: Option<String>,
    pub model: Option<String>,
    pub model_config: Option<String>,
    pub system_prompt: Option<String>,
    pub parent: Option<SessionId>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub end_reason: Option<String>,
    pub title: Option<String>,
    pub message_count: u64,
    pub tool_call_count: u64,
    pub usage: Usage,
    pub estimated_cost_usd: Option<f64>,
    pub cost_status: Option<String>,
}

/// The reason why a session ended. The first reason given is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    CliClose,
    NewSession,
    ResumedOther,
    Compression,
    SessionReset,
    SessionSwitch,
    CronComplete,
}

impl EndReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CliClose => "cli_close",
            Self::NewSession => "new_session",
            Self::ResumedOther => "resumed_other",
            Self::Compression => "compression",
            Self::SessionReset => "session_reset",
            Self::SessionSwitch => "session_switch",
            Self::CronComplete => "cron_complete",
        }
    }
}

/// The provider that answered and how it is billed. Each field is set once and then kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionBilling {
    pub provider: Option<String>,
    pub base_url: Option<String>,
    pub mode: Option<String>,
    pub model: Option<String>,
    pub cost_source: Option<String>,
    pub pricing_version: Option<String>,
}

/// The way token counts change a session's totals: added to them, or replacing them. One frontend never does both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageUpdate {
    Add,
    Replace,
}

const COLUMNS: &str =
    "id, source, user_id, model, model_config, system_prompt, parent_session_id, started_at, ended_at,
    end_reason, title, message_count, tool_call_count, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, reasoning_tokens, estimated_cost_usd, cost_status";

impl Store {
    /// Creates the row, or fills in the missing fields of an existing one. It is safe to repeat.
    pub fn create_session(&self, session: NewSession) -> PendingResult<()> {
        self.write(Durability::Process, move |scope| insert(scope, &session))
    }

    pub fn session(&self, id: &SessionId) -> PendingResult<Option<Session>> {
        let id = id.clone();
        self.read(move |scope| find(scope, &id))
    }

    /// Ends a session that is still open; ending an ended one changes nothing.
    pub fn end_session(&self, id: &SessionId, reason: EndReason, at: Timestamp) -> PendingResult<()> {
        let id = id.clone();
        self.write(Durability::Process, move |scope| {
            scope.execute_cached(
                "UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE id = ?1 AND ended_at IS NULL",
                params![id.as_str(), at.seconds(), reason.as_str()],
            )?;
            Ok(())
        })
    }

    /// Reopens an ended session.
    pub fn reopen_session(&self, id: &SessionId) -> PendingResult<()> {
        let id = id.clone();
        self.write(Durability::Process, move |scope| {
            scope.execute_cached(
                "UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?1",
                [id.as_str()],
            )?;
            Ok(())
        })
    }

    /// Adds to or replaces the session's usage; billing fields are set once.
    pub fn record_usage(
        &self,
        id: &SessionId,
        tally: UsageUpdate,
        usage: Usage,
        cost: Cost,
        billing: SessionBilling,
    ) -> PendingResult<()> {
        let id = id.clone();
        self.write(Durability::Process, move |scope| save_usage(scope, &id, tally, usage, cost, &billing))
    }

    /// Tells whether more than one person uses this home on one platform.
    pub fn has_multiple_users(&self) -> PendingResult<bool> {
        self.read(|scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT 1 FROM sessions WHERE user_id IS NOT NULL
                 GROUP BY source HAVING COUNT(DISTINCT user_id) > 1 LIMIT 1",
            )?;
            Ok(statement.exists([])?)
        })
    }

    /// Returns the session of a source that started last.
    pub fn newest_session(&self, source: &str) -> PendingResult<Option<SessionId>> {
        let source = source.to_owned();
        self.read(move |scope| {
            let mut statement = scope.connection.prepare_cached(
                "SELECT id FROM sessions WHERE source = ?1 ORDER BY started_at DESC LIMIT 1",
            )?;
            let id: Option<String> = statement.query_row([source], |row| row.get(0)).optional()?;
            Ok(id.map(SessionId::new))
        })
    }

    /// Returns the session a command refers to: an exact id, or the only id with this prefix.
    pub fn resolve_prefix(&self, text: &str) -> PendingResult<Option<SessionId>> {
        let text = text.to_owned();
        self.read(move |scope| {
            if find_id(scope, &text)?.is_some() {
                return Ok(Some(SessionId::new(text)));
            }
            if text.is_empty() {
                return Ok(None);
            }
            let mut statement = scope.connection.prepare_cached(
                "SELECT id FROM sessions WHERE id >= ?1 AND substr(id, 1, length(?1)) = ?1 LIMIT 2",
            )?;
            let found: Vec<String> =
                statement.query_map([&text], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            Ok(match found.as_slice() {
                [only] => Some(SessionId::new(only.clone())),
                _ => None,
            })
        })
    }
}

pub(crate) fn insert(scope: &OperationScope<'_>, session: &NewSession) -> OperationResult<()> {
    let mut statement = scope.connection.prepare_cached(
        "INSERT INTO sessions (id, source, user_id, model, model_config, system_prompt, parent_session_id, started_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (id) DO UPDATE SET
            user_id = COALESCE(user_id, excluded.user_id),
            model = COALESCE(model, excluded.model),
            model_config = COALESCE(model_config, excluded.model_config),
            system_prompt = COALESCE(system_prompt, excluded.system_prompt),
            parent_session_id = COALESCE(parent_session_id, excluded.parent_session_id)",
    )?;
    // A parent that was deleted in the meantime must not keep its child from being stored.
    let parent = match &session.parent {
        Some(parent) => find_id(scope, parent.as_str())?,
        None => None,
    };
    statement.execute(params![
        session.id.as_str(),
        session.source,
        session.user_id,
        session.model,
        session.model_config,
        session.system_prompt,
        parent,
        session.started_at.seconds(),
    ])?;
    store_place(scope, session)
}

/// Stores the folder and the branch of a new session, in the columns for them or, where the file lacks these, in this
/// program's own table.
fn store_place(scope: &OperationScope<'_>, session: &NewSession) -> OperationResult<()> {
    let (id, folder, branch) = (session.id.as_str(), session.cwd.as_deref(), session.git_branch.as_deref());
    if folder.is_none() && branch.is_none() {
        return Ok(());
    }
    let (has_folder, has_branch) =
        (scope.columns.has_session("cwd"), scope.columns.has_session("git_branch"));
    if has_branch {
        // The branch belongs to the folder that is stored, not to the one of a later turn.
        let unless_known = if has_folder { " AND cwd IS NULL" } else { "" };
        let sql =
            format!("UPDATE sessions SET git_branch = COALESCE(git_branch, ?2) WHERE id = ?1{unless_known}");
        scope.execute_cached(&sql, params![id, branch])?;
    }
    if has_folder {
        scope.execute_cached(
            "UPDATE sessions SET cwd = COALESCE(cwd, ?2) WHERE id = ?1",
            params![id, folder],
        )?;
    }
    if !(has_folder && has_branch) {
        scope.execute_cached(
            "INSERT INTO hx_session_notes (session_id, cwd, git_branch) VALUES (?1, ?2, ?3)
             ON CONFLICT (session_id) DO NOTHING",
            params![id, folder, branch],
        )?;
    }
    Ok(())
}

pub(crate) fn find_id(scope: &OperationScope<'_>, id: &str) -> OperationResult<Option<String>> {
    let mut statement = scope.connection.prepare_cached("SELECT id FROM sessions WHERE id = ?1")?;
    Ok(statement.query_row([id], |row| row.get(0)).optional()?)
}

pub(crate) fn find(scope: &OperationScope<'_>, id: &SessionId) -> OperationResult<Option<Session>> {
    let mut statement =
        scope.connection.prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Session {
        id: SessionId::new(column::string(row, 0)?),
        source: column::string(row, 1)?,
        user_id: column::text(row, 2)?,
        model: column::text(row, 3)?,
        model_config: column::text(row, 4)?,
        system_prompt: column::text(row, 5)?,
        parent: column::text(row, 6)?.map(SessionId::new),
        started_at: Timestamp(column::real(row, 7)?.unwrap_or_default()),
        ended_at: column::real(row, 8)?.map(Timestamp),
        end_reason: column::text(row, 9)?,
        title: column::text(row, 10)?,
        message_count: column::count(row, 11)?,
        tool_call_count: column::count(row, 12)?,
        usage: Usage {
            input: column::count(row, 13)?,
            output: column::count(row, 14)?,
            cache_read: column::count(row, 15)?,
            cache_write: column::count(row, 16)?,
            reasoning: column::count(row, 17)?,
        },
        estimated_cost_usd: column::real(row, 18)?,
        cost_status: column::text(row, 19)?,
    }))
}

fn save_usage(
    scope: &OperationScope<'_>,
    id: &SessionId,
    tally: UsageUpdate,
    usage: Usage,
    cost: Cost,
    billing: &SessionBilling,
) -> OperationResult<()> {
    let keep = match tally {
        UsageUpdate::Add => 1,
        UsageUpdate::Replace => 0,
    };
    #[expect(clippy::cast_precision_loss, reason = "millionths of a dollar stay far below 2^52")]
    let dollars = cost.micro_usd.map(|micro| micro as f64 / 1e6);
    let changed = scope.execute_cached(
        "UPDATE sessions SET
            input_tokens = COALESCE(input_tokens, 0) * ?2 + ?3,
            output_tokens = COALESCE(output_tokens, 0) * ?2 + ?4,
            cache_read_tokens = COALESCE(cache_read_tokens, 0) * ?2 + ?5,
            cache_write_tokens = COALESCE(cache_write_tokens, 0) * ?2 + ?6,
            reasoning_tokens = COALESCE(reasoning_tokens, 0) * ?2 + ?7,
            estimated_cost_usd = CASE WHEN ?8 IS NULL THEN estimated_cost_usd
                                      ELSE COALESCE(estimated_cost_usd, 0) * ?2 + ?8 END,
            cost_status = ?9,
            billing_provider = COALESCE(billing_provider, ?10),
            billing_base_url = COALESCE(billing_base_url, ?11),
            billing_mode = COALESCE(billing_mode, ?12),
            model = COALESCE(model, ?13),
            cost_source = COALESCE(?14, cost_source),
            pricing_version = COALESCE(?15, pricing_version)
         WHERE id = ?1",
        params![
            id.as_str(),
            keep,
            column::to_signed(usage.input),
            column::to_signed(usage.output),
            column::to_signed(usage.cache_read),
            column::to_signed(usage.cache_write),
            column::to_signed(usage.reasoning),
            dollars,
            cost.status.as_str(),
            billing.provider,
            billing.base_url,
            billing.mode,
            billing.model,
            billing.cost_source,
            billing.pricing_version,
        ],
    )?;
    if changed == 0 {
        return Err(Error::NotFound(format!("Session not found: {id}")).into());
    }
    if tally == UsageUpdate::Add && scope.columns.has_session("api_call_count") {
        scope.execute_cached(
            "UPDATE sessions SET api_call_count = COALESCE(api_call_count, 0) + 1 WHERE id = ?1",
            [id.as_str()],
        )?;
    }
    Ok(())
}
