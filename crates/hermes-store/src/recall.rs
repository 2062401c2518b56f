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
    /// The chat, by platform and id, whose own past may be read, whoever spoke in it.
    pub chat: Option<(String, String)>,
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
    /// Set for an answer that followed results of tools, and may repeat the words of others.
    pub follows_tools: bool,
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
    let reader = RecallReader::new(scope, allowed)?;
    let mut found = Vec::new();
    for (id, _) in ranked.iter().take(MOST_READ * 8) {
        if found.len() == MOST_READ {
            break;
        }
        found.extend(reader.read(*id)?);
    }
    Ok(found)
}

/// Reads messages, and none that may not be read.
pub(crate) struct RecallReader<'a> {
    scope: &'a OperationScope<'a>,
    allowed: &'a RecallScope,
    /// The current conversation, with everything it continues.
    left_out: HashSet<SessionId>,
    /// The sessions of the chat whose past may be read.
    of_chat: HashSet<SessionId>,
    sql: String,
}

impl<'a> RecallReader<'a> {
    pub(crate) fn new(scope: &'a OperationScope<'a>, allowed: &'a RecallScope) -> OperationResult<Self> {
        let mut left_out: HashSet<SessionId> = HashSet::new();
        if let Some(current) = &allowed.current {
            left_out.extend(compression_ancestors(scope, current)?);
            left_out.insert(current.clone());
        }
        let mut of_chat = HashSet::new();
        if let Some((platform, chat)) = &allowed.chat {
            let mut statement = scope.connection.prepare_cached(
                "SELECT session_id FROM hx_chat_sessions WHERE platform = ?1 AND chat_id = ?2",
            )?;
            let mut rows = statement.query([platform, chat])?;
            while let Some(row) = rows.next()? {
                of_chat.insert(SessionId::new(column::string(row, 0)?));
            }
        }
        let active = match (scope.columns.has_message("active"), scope.columns.has_message("compacted")) {
            (true, true) => " AND (COALESCE(m.active, 1) = 1 OR m.compacted = 1)",
            (true, false) => " AND COALESCE(m.active, 1) = 1",
            (false, _) => "",
        };
        // In a session that several people share, whose message it is follows from who spoke last.
        let sql = format!(
            "SELECT m.session_id, m.role, m.timestamp, m.content, s.source, s.model_config,
                COALESCE((SELECT k.user_id FROM hx_speakers k
                          WHERE k.session_id = m.session_id AND k.message_id <= m.id
                          ORDER BY k.message_id DESC LIMIT 1), s.user_id)
             FROM messages m JOIN sessions s ON s.id = m.session_id
             WHERE m.id = ?1 AND m.role IN ('user', 'assistant'){active}"
        );
        Ok(Self { scope, allowed, left_out, of_chat, sql })
    }

    /// Returns the sessions of which anything may be read.
    pub(crate) fn readable_sessions(&self) -> OperationResult<Vec<SessionId>> {
        let mut statement = self.scope.connection.prepare_cached(
            "SELECT s.id, s.source, s.user_id, k.user_id FROM sessions s
             LEFT JOIN (SELECT DISTINCT session_id, user_id FROM hx_speakers) k ON k.session_id = s.id",
        )?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let session = SessionId::new(column::string(row, 0)?);
            let source = column::string(row, 1)?;
            let users = [column::text(row, 2)?, column::text(row, 3)?];
            let is_own = users.iter().any(|user| self.is_own(&session, &source, user.as_deref()));
            if is_own && !self.left_out.contains(&session) {
                found.push(session);
            }
        }
        Ok(found)
    }

    fn is_own(&self, session: &SessionId, source: &str, user: Option<&str>) -> bool {
        let by_person = match user {
            Some(user) => self.allowed.people.iter().any(|(platform, id)| platform == source && id == user),
            None => self.allowed.own_sources.iter().any(|own| own == source),
        };
        by_person || self.of_chat.contains(session)
    }

    /// Returns a message, unless it may not be read.
    pub(crate) fn read(&self, id: i64) -> OperationResult<Option<RecallCandidate>> {
        let mut statement = self.scope.connection.prepare_cached(&self.sql)?;
        let mut rows = statement.query([id])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let session = SessionId::new(column::string(row, 0)?);
        let (source, user) = (column::string(row, 4)?, column::text(row, 6)?);
        let is_delegated = column::string(row, 5)?.contains("_delegate_from");
        if is_delegated
            || self.left_out.contains(&session)
            || !self.is_own(&session, &source, user.as_deref())
        {
            return Ok(None);
        }
        let role = column::string(row, 1)?;
        let content = decode_content(column::string(row, 3)?);
        let follows_tools = role == "assistant" && self.follows_tools(id, &session)?;
        Ok(Some(RecallCandidate {
            id: MessageId(id),
            session,
            role,
            source,
            at: Timestamp(column::real(row, 2)?.unwrap_or_default()),
            text: content.text().chars().take(COMPARED_CHARS).collect(),
            follows_tools,
        }))
    }

    /// Tells whether tools answered between the person's words and this answer.
    fn follows_tools(&self, id: i64, session: &SessionId) -> OperationResult<bool> {
        let mut statement = self.scope.connection.prepare_cached(
            "SELECT role FROM messages WHERE +session_id = ?1 AND id < ?2 AND id > ?2 - 64 ORDER BY id DESC LIMIT 1",
        )?;
        let mut rows = statement.query(params![session.as_str(), id])?;
        Ok(rows.next()?.is_some_and(|row| column::string(row, 0).is_ok_and(|role| role == "tool")))
    }
}
