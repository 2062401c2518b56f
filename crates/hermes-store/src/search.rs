//! Full-text search in messages.
//!
//! The index answers; while it is being rebuilt, the rows it does not hold yet are scanned as well, so that a
//! search finds everything at any time, only slower.

use std::collections::HashMap;
use std::fmt::Write as _;

use hermes_text::{SearchQuery, ellipsize, head};
use hermes_types::{MessageId, SessionId, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Row, ToSql, params};

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::index::{self, RebuildPosition};
use crate::message::decode_content;
use crate::pending_result::PendingResult;
use crate::ranking::{Candidate, WEIGHED_CHARS, rank};
use crate::title::escape_like;
use crate::writer::{OperationScope, WriterCommand};

/// The minimum number of newest matches that are ranked; it is three times the limit if that is more. SQLite's own
/// ranking first counts every occurrence of every word in the whole file, which takes a tenth of a second for a
/// common word.
const MIN_RANKED: usize = 100;

/// The number of rows outside the index that one search scans, newest first.
const MAX_SCANNED_ROWS: i64 = 50_000;

const CONTEXT_CHARS: usize = 200;

/// The limits of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchScope {
    /// The sources to search; empty means all.
    pub sources: Vec<String>,
    /// The sources to leave out.
    pub exclude_sources: Vec<String>,
    /// The roles to search; empty means all.
    pub roles: Vec<String>,
    pub limit: usize,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    pub id: MessageId,
    pub session_id: SessionId,
    pub role: String,
    /// The text around the match, which is enclosed in `>>>` and `<<<`.
    pub snippet: String,
    pub timestamp: Timestamp,
    pub tool_name: Option<String>,
    pub source: String,
    pub model: Option<String>,
    pub session_started: Timestamp,
    /// The messages before and after, shortened.
    pub context: Vec<HitContext>,
}

/// A message next to a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HitContext {
    pub role: String,
    pub content: String,
}

/// The hits, and how they were found.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    pub hits: Vec<SearchHit>,
    pub coverage: SearchCoverage,
}

/// The way a result was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchCoverage {
    Index,
    /// The index is unusable or incomplete; the newest rows it lacks were scanned.
    PartlyScanned,
}

impl Store {
    /// Searches messages. A damaged index is detected here, replaced in the background, and not used for this
    /// search.
    pub fn search(&self, query: SearchQuery, within: SearchScope) -> PendingResult<SearchResult> {
        let store = self.clone();
        self.read(move |scope| {
            let found = search(scope, &query, &within)?;
            if let IndexState::Damaged = found.index {
                store.replace_index();
            } else if found.coverage == SearchCoverage::PartlyScanned {
                store.send_command(WriterCommand::ContinueIndexRebuild);
            }
            Ok(SearchResult { hits: found.hits, coverage: found.coverage })
        })
    }
}

enum IndexState {
    Sound,
    Damaged,
}

struct SearchMatches {
    hits: Vec<SearchHit>,
    coverage: SearchCoverage,
    index: IndexState,
}

struct Match {
    id: i64,
    head: HitHeader,
    snippet: String,
}

/// The fields of a hit's message and session, read together with the row.
struct HitHeader {
    session_id: SessionId,
    role: String,
    timestamp: Timestamp,
    tool_name: Option<String>,
    source: String,
    model: Option<String>,
    session_started: Timestamp,
}

/// The columns of a [`HitHeader`], in the order `read` takes them.
const HEAD: &str = "m.session_id, m.role, m.timestamp, m.tool_name, s.source, s.model, s.started_at";

impl HitHeader {
    fn read(row: &Row<'_>, from: usize) -> OperationResult<Self> {
        Ok(Self {
            session_id: SessionId::new(column::string(row, from)?),
            role: column::string(row, from + 1)?,
            timestamp: Timestamp(column::real(row, from + 2)?.unwrap_or_default()),
            tool_name: column::text(row, from + 3)?,
            source: column::string(row, from + 4)?,
            model: column::text(row, from + 5)?,
            session_started: Timestamp(column::real(row, from + 6)?.unwrap_or_default()),
        })
    }
}

fn search(
    scope: &OperationScope<'_>,
    query: &SearchQuery,
    within: &SearchScope,
) -> OperationResult<SearchMatches> {
    let rebuild = index::rebuild_state(scope.connection)?;
    let (mut matches, index) = match ask_index(scope, query, within) {
        Ok(matches) => (matches, IndexState::Sound),
        Err(fault) if index::may_be_damage(&fault) => (Vec::new(), IndexState::Damaged),
        Err(fault) => return Err(fault),
    };
    let unindexed = match (&index, rebuild) {
        (IndexState::Damaged, _) => Some(RebuildPosition { cursor: 0, target: i64::MAX }),
        (IndexState::Sound, rebuild) => rebuild,
    };
    let coverage = if let Some(range) = unindexed {
        let missing = within.limit.saturating_sub(matches.len());
        matches.extend(scan(scope, query, within, range, missing)?);
        SearchCoverage::PartlyScanned
    } else {
        SearchCoverage::Index
    };
    let mut hits = Vec::with_capacity(matches.len());
    for found in matches {
        hits.push(describe(scope, found)?);
    }
    Ok(SearchMatches { hits, coverage, index })
}

fn ask_index(
    scope: &OperationScope<'_>,
    query: &SearchQuery,
    within: &SearchScope,
) -> OperationResult<Vec<Match>> {
    let mut values: Vec<Value> = vec![Value::from(query.as_str().to_owned())];
    let conditions = conditions(scope, within, &mut values);
    let sql = format!(
        "SELECT m.id, substr(m.content, 1, {WEIGHED_CHARS}), {HEAD} FROM messages_fts
         JOIN messages m ON m.id = messages_fts.rowid JOIN sessions s ON s.id = m.session_id
         WHERE messages_fts MATCH ?1{conditions} ORDER BY messages_fts.rowid DESC LIMIT {}",
        MIN_RANKED.max(within.limit.saturating_mul(3))
    );
    let mut statement = scope.connection.prepare_cached(&sql)?;
    let mut rows = statement.query(rusqlite::params_from_iter(&values))?;
    let mut candidates = Vec::new();
    let mut heads = HashMap::new();
    while let Some(row) = rows.next()? {
        let id = row.get(0)?;
        candidates.push(Candidate { id, text: column::string(row, 1)? });
        heads.insert(id, HitHeader::read(row, 2)?);
    }
    let best = rank(candidates, query.words(), within.limit);
    let mut snippets = cut_snippets(scope, query, &best)?;
    let found = best.into_iter().filter_map(|id| {
        let snippet = snippets.remove(&id).unwrap_or_default();
        Some(Match { id, head: heads.remove(&id)?, snippet })
    });
    Ok(found.collect())
}

/// Returns the text around each match. It uses one query on the index for all of them: a query per row would read
/// the lists of common words once per row.
fn cut_snippets(
    scope: &OperationScope<'_>,
    query: &SearchQuery,
    ids: &[i64],
) -> OperationResult<HashMap<i64, String>> {
    let Some(oldest) = ids.iter().min() else { return Ok(HashMap::new()) };
    let list = format!("[{}]", ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
    let mut statement = scope.connection.prepare_cached(
        "SELECT rowid, CASE WHEN rowid IN (SELECT value FROM json_each(?3))
                            THEN snippet(messages_fts, 0, '>>>', '<<<', '...', 40) END
         FROM messages_fts WHERE messages_fts MATCH ?1 AND rowid >= ?2 ORDER BY rowid DESC",
    )?;
    let mut rows = statement.query(params![query.as_str(), oldest, list])?;
    let mut snippets = HashMap::with_capacity(ids.len());
    while snippets.len() < ids.len()
        && let Some(row) = rows.next()?
    {
        if let Some(snippet) = column::text(row, 1)? {
            snippets.insert(row.get(0)?, snippet);
        }
    }
    Ok(snippets)
}

/// Scans rows the index does not hold: every word must occur, newest rows first.
fn scan(
    scope: &OperationScope<'_>,
    query: &SearchQuery,
    within: &SearchScope,
    range: RebuildPosition,
    limit: usize,
) -> OperationResult<Vec<Match>> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let mut values: Vec<Value> = vec![Value::from(range.cursor), Value::from(range.target)];
    let conditions = conditions(scope, within, &mut values);
    let mut words = String::new();
    for word in query.words() {
        values.push(Value::from(format!("%{}%", escape_like(word))));
        let _ = write!(words, " AND m.content LIKE ?{} ESCAPE '\\'", values.len());
    }
    let sql = format!(
        "SELECT m.id, m.content, {HEAD} FROM messages m JOIN sessions s ON s.id = m.session_id
         WHERE m.id > MAX(?1, (SELECT MAX(id) FROM messages) - {MAX_SCANNED_ROWS}) AND m.id <= ?2{words}{conditions}
         ORDER BY m.id DESC LIMIT {limit}"
    );
    let mut statement = scope.connection.prepare_cached(&sql)?;
    let parameters: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
    let mut rows = statement.query(parameters.as_slice())?;
    let mut matches = Vec::new();
    while let Some(row) = rows.next()? {
        let content = decode_content(column::string(row, 1)?);
        let snippet = mark_match(&content.text(), query);
        matches.push(Match { id: row.get(0)?, head: HitHeader::read(row, 2)?, snippet });
    }
    Ok(matches)
}

/// Returns the conditions a search scope puts on `m` and `s`; their values are appended to `values`.
fn conditions(scope: &OperationScope<'_>, within: &SearchScope, values: &mut Vec<Value>) -> String {
    let mut sql = String::new();
    let mut one_of = |column: &str, wanted: &[String], negation: &str| {
        if wanted.is_empty() {
            return;
        }
        let mut marks = Vec::new();
        for value in wanted {
            values.push(Value::from(value.clone()));
            marks.push(format!("?{}", values.len()));
        }
        let _ = write!(sql, " AND {column} {negation}IN ({})", marks.join(", "));
    };
    one_of("s.source", &within.sources, "");
    one_of("s.source", &within.exclude_sources, "NOT ");
    one_of("m.role", &within.roles, "");
    match (scope.columns.has_message("active"), scope.columns.has_message("compacted")) {
        (true, true) => sql.push_str(" AND (COALESCE(m.active, 1) = 1 OR m.compacted = 1)"),
        (true, false) => sql.push_str(" AND COALESCE(m.active, 1) = 1"),
        (false, _) => {}
    }
    sql
}

/// Builds a snippet like that of SQLite, for a match found without the index.
fn mark_match(text: &str, query: &SearchQuery) -> String {
    let lower = text.to_lowercase();
    let place = query.words().iter().find_map(|word| {
        let word = word.to_lowercase();
        let before = lower.find(&word).and_then(|at| lower.get(..at))?;
        Some((before.chars().count(), word.chars().count()))
    });
    // Lower-casing can change the number of characters; the marks are then slightly misplaced, which does no harm.
    let Some((start, length)) = place else {
        return ellipsize(text, CONTEXT_CHARS).into_owned();
    };
    let from = start.saturating_sub(80);
    let before: String = text.chars().skip(from).take(start - from).collect();
    let matched: String = text.chars().skip(start).take(length).collect();
    let after: String = text.chars().skip(start + length).take(120).collect();
    let lead = if from > 0 { "..." } else { "" };
    let rest = if text.chars().count() > start + length + 120 { "..." } else { "" };
    format!("{lead}{before}>>>{matched}<<<{after}{rest}")
}

fn describe(scope: &OperationScope<'_>, found: Match) -> OperationResult<SearchHit> {
    let Match { id, head, snippet } = found;
    let context = neighbours(scope, &head.session_id, head.timestamp, id)?;
    let HitHeader { session_id, role, timestamp, tool_name, source, model, session_started } = head;
    let id = MessageId(id);
    Ok(SearchHit {
        id,
        session_id,
        role,
        snippet,
        timestamp,
        tool_name,
        source,
        model,
        session_started,
        context,
    })
}

/// Returns the message before and the one after, by one index lookup each.
fn neighbours(
    scope: &OperationScope<'_>,
    session: &SessionId,
    at: Timestamp,
    id: i64,
) -> OperationResult<Vec<HitContext>> {
    let mut context = Vec::new();
    for (comparison, order) in [("<", "DESC"), (">", "ASC")] {
        let mut statement = scope.connection.prepare_cached(&format!(
            "SELECT role, substr(content, 1, 1000) FROM messages
             WHERE session_id = ?1 AND (timestamp, id) {comparison} (?2, ?3) ORDER BY timestamp {order}, id {order} LIMIT 1"
        ))?;
        let mut rows = statement.query(params![session.as_str(), at.seconds(), id])?;
        if let Some(row) = rows.next()? {
            let content = decode_content(column::string(row, 1)?);
            let content = head(&content.text(), CONTEXT_CHARS).to_owned();
            context.push(HitContext { role: column::string(row, 0)?, content });
        }
    }
    Ok(context)
}
