//! Finds messages of earlier conversations by the rare words they share with a text.
//!
//! Unlike a search, not every word has to occur, and the caller says whose conversations may be read. Invariants: a
//! message of another person is never returned, and the work has a bound that does not depend on the size of the
//! file: of each word, only the newest messages are looked at.

use std::collections::{HashMap, HashSet};

use hermes_types::{MessageId, SessionId, Timestamp};
use rusqlite::params;

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::index;
use crate::lineage::compression_ancestors;
use crate::message::decode_content;
use crate::pending_result::PendingResult;
use crate::writer::OperationScope;

/// Limits the messages that are looked at for one word, newest first.
const MESSAGES_PER_WORD: i64 = 1_000;
/// Limits the messages whose text is read.
const MOST_READ: usize = 160;
/// Limits the characters of a message that are compared.
const COMPARED_CHARS: usize = 8_000;

/// The conversations that may be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecallScope {
    /// Platforms with the id of the person there.
    pub people: Vec<(String, String)>,
    /// Sources whose conversations without a user belong to the person, such as the terminal.
    pub own_sources: Vec<String>,
    /// The conversation that is left out with everything it continues.
    pub current: Option<SessionId>,
}

/// A message that shares words with the text.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallCandidate {
    pub id: MessageId,
    pub session: SessionId,
    pub role: String,
    pub source: String,
    pub at: Timestamp,
    pub text: String,
}

/// The messages found, and how much each word says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecallCandidates {
    /// The messages, those with the rarest words first.
    pub messages: Vec<RecallCandidate>,
    /// The weight of each word, in their order: rare words weigh more.
    pub weights: Vec<f64>,
}

impl Store {
    /// Finds messages that contain some of the words. A word is letters and digits; one that ends in `*` is the
    /// beginning of words.
    pub fn recall(&self, words: Vec<String>, allowed: RecallScope) -> PendingResult<RecallCandidates> {
        self.read(move |scope| match find(scope, &words, &allowed) {
            // The next search repairs the index.
            Err(fault) if index::may_be_damage(&fault) => Ok(RecallCandidates::default()),
            found => found,
        })
    }
}

fn find(
    scope: &OperationScope<'_>,
    words: &[String],
    allowed: &RecallScope,
) -> OperationResult<RecallCandidates> {
    let newest: i64 =
        scope.connection.query_row("SELECT COALESCE(MAX(id), 0) FROM messages", [], |row| row.get(0))?;
    let mut scores: HashMap<i64, f64> = HashMap::new();
    let mut weights = Vec::with_capacity(words.len());
    let mut statement = scope.connection.prepare_cached(
        "SELECT rowid FROM messages_fts WHERE messages_fts MATCH ?1 ORDER BY rowid DESC LIMIT ?2",
    )?;
    for word in words {
        let phrase = match word.strip_suffix('*') {
            Some(beginning) => format!("\"{}\"*", beginning.replace('"', "")),
            None => format!("\"{}\"", word.replace('"', "")),
        };
        let ids = statement
            .query_map(params![phrase, MESSAGES_PER_WORD], |row| row.get::<_, i64>(0))?
            .collect::<Result<Vec<_>, _>>()?;
        if ids.is_empty() {
            weights.push(None);
            continue;
        }
        let weight = rarity(newest, ids.len());
        weights.push(Some(weight));
        for id in ids {
            *scores.entry(id).or_default() += weight;
        }
    }
    // A word that was never used says as much as the others do: what is meant may have been said in other words.
    let known: Vec<f64> = weights.iter().copied().flatten().collect();
    let average = known.iter().sum::<f64>() / f64::from(u32::try_from(known.len().max(1)).unwrap_or(1));
    let weights = weights.into_iter().map(|weight| weight.unwrap_or(average)).collect();
    let mut ranked: Vec<(i64, f64)> = scores.into_iter().collect();
    ranked.sort_by(|(a_id, a), (b_id, b)| b.total_cmp(a).then(b_id.cmp(a_id)));
    let messages = read_allowed(scope, &ranked, allowed)?;
    Ok(RecallCandidates { messages, weights })
}

/// Returns the weight of a word that occurs in so many messages.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn rarity(messages: i64, occurrences: usize) -> f64 {
    (1.0 + messages as f64 / (occurrences as f64 + 0.5)).ln()
}

/// Reads the best messages that may be read.
fn read_allowed(
    scope: &OperationScope<'_>,
    ranked: &[(i64, f64)],
    allowed: &RecallScope,
) -> OperationResult<Vec<RecallCandidate>> {
    let left_out = match &allowed.current {
        Some(current) => {
            let mut sessions: HashSet<SessionId> =
                compression_ancestors(scope, current)?.into_iter().collect();
            sessions.insert(current.clone());
            sessions
        }
        None => HashSet::new(),
    };
    let active = match (scope.columns.has_message("active"), scope.columns.has_message("compacted")) {
        (true, true) => " AND (COALESCE(m.active, 1) = 1 OR m.compacted = 1)",
        (true, false) => " AND COALESCE(m.active, 1) = 1",
        (false, _) => "",
    };
    let sql = format!(
        "SELECT m.session_id, m.role, m.timestamp, m.content, s.source, s.user_id, s.model_config
         FROM messages m JOIN sessions s ON s.id = m.session_id
         WHERE m.id = ?1 AND m.role IN ('user', 'assistant'){active}"
    );
    let mut statement = scope.connection.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for (id, _) in ranked.iter().take(MOST_READ * 8) {
        if found.len() == MOST_READ {
            break;
        }
        let mut rows = statement.query([id])?;
        let Some(row) = rows.next()? else { continue };
        let session = SessionId::new(column::string(row, 0)?);
        let (source, user) = (column::string(row, 4)?, column::text(row, 5)?);
        let is_delegated = column::string(row, 6)?.contains("_delegate_from");
        let is_own = match &user {
            Some(user) => allowed.people.iter().any(|(platform, id)| *platform == source && id == user),
            None => allowed.own_sources.contains(&source),
        };
        if !is_own || is_delegated || left_out.contains(&session) {
            continue;
        }
        let content = decode_content(column::string(row, 3)?);
        found.push(RecallCandidate {
            id: MessageId(*id),
            session,
            role: column::string(row, 1)?,
            source,
            at: Timestamp(column::real(row, 2)?.unwrap_or_default()),
            text: content.text().chars().take(COMPARED_CHARS).collect(),
        });
    }
    Ok(found)
}
