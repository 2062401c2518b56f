//! Usage statistics of the sessions in a period.

use std::collections::BTreeMap;

use hermes_types::{SessionId, Timestamp, Usage};
use rusqlite::params;

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::pending_result::PendingResult;
use crate::writer::OperationScope;

/// The usage of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionUsage {
    pub id: SessionId,
    pub source: String,
    pub model: Option<String>,
    pub title: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub messages: u64,
    pub tool_calls: u64,
    pub usage: Usage,
    pub cost_usd: Option<f64>,
}

/// The usage of a period.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageInsights {
    /// The sessions, oldest first.
    pub sessions: Vec<SessionUsage>,
    /// The calls per tool, most used first.
    pub tools: Vec<(String, u64)>,
}

impl Store {
    /// Returns the usage of the sessions that began since then, of one source or of all.
    pub fn insights(&self, since: Timestamp, source: Option<String>) -> PendingResult<UsageInsights> {
        self.read(move |scope| {
            Ok(UsageInsights {
                sessions: sessions(scope, since, source.as_deref())?,
                tools: tools(scope, since, source.as_deref())?,
            })
        })
    }
}

fn sessions(
    scope: &OperationScope<'_>,
    since: Timestamp,
    source: Option<&str>,
) -> OperationResult<Vec<SessionUsage>> {
    let mut statement = scope.connection.prepare_cached(
        "SELECT id, source, model, title, started_at, ended_at, message_count, tool_call_count, input_tokens,
                output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,
                COALESCE(actual_cost_usd, estimated_cost_usd)
         FROM sessions WHERE started_at >= ?1 AND (?2 IS NULL OR source = ?2) ORDER BY started_at",
    )?;
    let mut rows = statement.query(params![since.seconds(), source])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(SessionUsage {
            id: SessionId::new(column::string(row, 0)?),
            source: column::string(row, 1)?,
            model: column::text(row, 2)?,
            title: column::text(row, 3)?,
            started_at: Timestamp(column::real(row, 4)?.unwrap_or_default()),
            ended_at: column::real(row, 5)?.map(Timestamp),
            messages: column::count(row, 6)?,
            tool_calls: column::count(row, 7)?,
            usage: Usage {
                input: column::count(row, 8)?,
                output: column::count(row, 9)?,
                cache_read: column::count(row, 10)?,
                cache_write: column::count(row, 11)?,
                reasoning: column::count(row, 12)?,
            },
            cost_usd: column::real(row, 13)?,
        });
    }
    Ok(found)
}

/// Counts calls per tool. Results carry the tool's name in some files, calls in all, so the larger count of each
/// tool is used.
fn tools(
    scope: &OperationScope<'_>,
    since: Timestamp,
    source: Option<&str>,
) -> OperationResult<Vec<(String, u64)>> {
    const WITHIN: &str = "FROM messages m JOIN sessions s ON s.id = m.session_id
         WHERE s.started_at >= ?1 AND (?2 IS NULL OR s.source = ?2)";
    let by_result = format!("SELECT m.tool_name, COUNT(*) {WITHIN} AND m.tool_name <> '' GROUP BY 1");
    let by_call = format!(
        "SELECT json_extract(call.value, '$.function.name'), COUNT(*)
         FROM (SELECT m.tool_calls {WITHIN} AND json_valid(m.tool_calls)) AS made, json_each(made.tool_calls) AS call
         GROUP BY 1"
    );
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sql in [by_result, by_call] {
        let mut statement = scope.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![since.seconds(), source])?;
        while let Some(row) = rows.next()? {
            let Some(name) = column::text(row, 0)?.filter(|name| !name.is_empty()) else { continue };
            let count = column::count(row, 1)?;
            let known = counts.entry(name).or_default();
            *known = (*known).max(count);
        }
    }
    let mut tools: Vec<(String, u64)> = counts.into_iter().collect();
    tools.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok(tools)
}
