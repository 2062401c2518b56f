//! Vectors of messages: kept beside them, and compared with what is looked for.
//!
//! The tables are created with the first vector. A vector is stored as one byte per number and a scale, which is exact
//! enough to order statements by how alike they are. Where there are many, a first look at their sketches (`vector_blocks.rs`)
//! says which ones are compared. Invariants: a search reads only vectors of the conversations that
//! may be read, its memory does not depend on their number, and vectors of another model are never compared.

use std::collections::{BTreeSet, BinaryHeap, HashSet};

use hermes_types::{MessageId, SessionId};
use rusqlite::{Connection, OptionalExtension, Rows, params};

use crate::Store;
use crate::column;
use crate::error::OperationResult;
use crate::message::decode_content;
use crate::pending_result::PendingResult;
use crate::recall::{RecallCandidate, RecallReader, RecallScope};
use crate::schema::table_exists;
use crate::vector_blocks::{self, PackedRange, SketchedVector};
use crate::writer::{Durability, OperationScope};

const SCHEMA: &str = include_str!("../schema/vectors.sql");
/// The key of the model of all vectors, in `hx_meta`.
const MODEL: &str = "vector_model";
/// The shortest text that gets a vector, in characters.
const SHORTEST_TEXT: usize = 12;
/// The number of vectors that are packed at once.
const PACKED_AT_ONCE: usize = 4_096;
/// The most characters of a message that are read for its vector.
const LONGEST_TEXT: usize = 4_000;

/// A message that has no vector yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnindexedMessage {
    pub id: MessageId,
    pub text: String,
}

/// A message, with how alike it is to what was looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarMessage {
    pub message: RecallCandidate,
    /// From -1 to 1.
    pub similarity: f32,
    /// The vector, of length 1.
    pub vector: Vec<f32>,
}

impl Store {
    /// Returns the newest messages without a vector. All of them are without one when the model is another one.
    pub fn messages_without_vectors(&self, model: &str, most: usize) -> PendingResult<Vec<UnindexedMessage>> {
        let model = model.to_owned();
        self.read(move |scope| unindexed(scope, &model, most))
    }

    /// Stores vectors of one model. Those of another model are removed first.
    pub fn store_vectors(&self, model: &str, vectors: Vec<(MessageId, Vec<f32>)>) -> PendingResult<()> {
        let model = model.to_owned();
        self.write(Durability::Process, move |scope| store(scope, &model, &vectors))
    }

    /// Finds the messages whose vectors are most alike to this one.
    pub fn similar_messages(
        &self,
        model: &str,
        vector: &[f32],
        allowed: RecallScope,
        most: usize,
    ) -> PendingResult<Vec<SimilarMessage>> {
        let (model, wanted) = (model.to_owned(), QuantizedVector::new(vector));
        self.read(move |scope| match &wanted {
            Some(wanted) if is_of_model(scope.connection, &model)? => search(scope, wanted, &allowed, most),
            _ => Ok(Vec::new()),
        })
    }

    /// Returns the number of vectors.
    pub fn vector_count(&self) -> PendingResult<u64> {
        self.read(|scope| {
            if !table_exists(scope.connection, "hx_vectors")? {
                return Ok(0);
            }
            let count: i64 =
                scope.connection.query_row("SELECT COUNT(*) FROM hx_vectors", [], |row| row.get(0))?;
            Ok(u64::try_from(count).unwrap_or_default())
        })
    }
}

/// A vector of length 1, one byte per number.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantizedVector {
    pub(crate) numbers: Vec<i8>,
    /// What one step of a number means.
    scale: f32,
}

impl QuantizedVector {
    /// Returns `None` for a vector that points nowhere.
    fn new(vector: &[f32]) -> Option<Self> {
        let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
        if !length.is_finite() || length <= f32::EPSILON {
            return None;
        }
        let most = vector.iter().fold(0.0_f32, |most, number| most.max((number / length).abs()));
        let scale = most / 127.0;
        #[expect(clippy::cast_possible_truncation, reason = "the quotient is between -127 and 127")]
        let numbers = vector.iter().map(|number| (number / length / scale).round() as i8).collect();
        Some(Self { numbers, scale })
    }

    fn bytes(&self) -> Vec<u8> {
        self.numbers.iter().map(|number| number.cast_unsigned()).collect()
    }
}

/// Multiplies two vectors of bytes.
fn product(wanted: &[i8], stored: &[u8]) -> i32 {
    // Blocks of a fixed length become vector instructions.
    const BLOCK: usize = 32;
    let mut sum = 0_i32;
    let (blocks, rest) = wanted.as_chunks::<BLOCK>();
    let (stored_blocks, stored_rest) = stored.as_chunks::<BLOCK>();
    for (a, b) in blocks.iter().zip(stored_blocks) {
        let mut part = 0_i32;
        for (a, b) in a.iter().zip(b) {
            part += i32::from(i16::from(*a) * i16::from(b.cast_signed()));
        }
        sum += part;
    }
    for (a, b) in rest.iter().zip(stored_rest) {
        sum += i32::from(*a) * i32::from(b.cast_signed());
    }
    sum
}

fn is_of_model(connection: &Connection, model: &str) -> OperationResult<bool> {
    if !table_exists(connection, "hx_vectors")? {
        return Ok(false);
    }
    let stored: Option<String> = connection
        .prepare_cached("SELECT value FROM hx_meta WHERE key = ?1")?
        .query_row([MODEL], |row| row.get(0))
        .optional()?;
    Ok(stored.as_deref() == Some(model))
}

fn unindexed(scope: &OperationScope<'_>, model: &str, most: usize) -> OperationResult<Vec<UnindexedMessage>> {
    let active = if scope.columns.has_message("active") { "AND COALESCE(m.active, 1) = 1" } else { "" };
    let select = |place: &str| {
        format!(
            "SELECT m.id, m.content FROM messages m
             WHERE m.role IN ('user', 'assistant') AND length(m.content) >= ?1 {active} {place} LIMIT ?2"
        )
    };
    if !is_of_model(scope.connection, model)? || is_empty(scope.connection)? {
        return read(scope, &select("ORDER BY m.id DESC"), most);
    }
    // Those that have vectors are without a gap: first what is newer, then what is older.
    let newer = select("AND m.id > (SELECT MAX(message_id) FROM hx_vectors) ORDER BY m.id");
    let mut found = read(scope, &newer, most)?;
    let older = select("AND m.id < (SELECT MIN(message_id) FROM hx_vectors) ORDER BY m.id DESC");
    found.extend(read(scope, &older, most - found.len())?);
    Ok(found)
}

fn is_empty(connection: &Connection) -> OperationResult<bool> {
    Ok(!connection.prepare_cached("SELECT 1 FROM hx_vectors LIMIT 1")?.exists([])?)
}

fn read(scope: &OperationScope<'_>, sql: &str, most: usize) -> OperationResult<Vec<UnindexedMessage>> {
    let mut statement = scope.connection.prepare_cached(sql)?;
    let limit = column::to_signed(most as u64);
    let mut rows = statement.query(params![column::to_signed(SHORTEST_TEXT as u64), limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let content = decode_content(column::string(row, 1)?);
        let text: String = content.text().chars().take(LONGEST_TEXT).collect();
        found.push(UnindexedMessage { id: MessageId(row.get(0)?), text });
    }
    Ok(found)
}

fn store(scope: &OperationScope<'_>, model: &str, vectors: &[(MessageId, Vec<f32>)]) -> OperationResult<()> {
    let connection = scope.connection;
    connection.execute_batch(SCHEMA)?;
    if !is_of_model(connection, model)? {
        connection.execute_batch("DELETE FROM hx_vectors; DELETE FROM hx_vector_blocks;")?;
        scope.execute_cached(
            "INSERT INTO hx_meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            params![MODEL, model],
        )?;
    }
    if !vector_blocks::has_blocks(connection)? {
        pack_all(scope)?;
    }
    let mut packed = Vec::new();
    for (id, vector) in vectors {
        // A text that points nowhere is stored as such, so that it is not asked for again.
        let quantized = QuantizedVector::new(vector);
        let (scale, bytes) =
            quantized.as_ref().map_or((0.0, Vec::new()), |vector| (vector.scale, vector.bytes()));
        scope.execute_cached(
            "INSERT OR IGNORE INTO hx_vector_sessions (session_id)
             SELECT session_id FROM messages WHERE id = ?1",
            params![id.0],
        )?;
        scope.execute_cached(
            "INSERT OR REPLACE INTO hx_vectors (message_id, session, scale, numbers)
             SELECT m.id, s.number, ?2, ?3 FROM messages m
             JOIN hx_vector_sessions s ON s.session_id = m.session_id WHERE m.id = ?1",
            params![id.0, f64::from(scale), bytes],
        )?;
        let session: Option<i64> = connection
            .prepare_cached("SELECT session FROM hx_vectors WHERE message_id = ?1")?
            .query_row([id.0], |row| row.get(0))
            .optional()?;
        if let (Some(session), Some(quantized)) = (session, quantized) {
            packed.push(SketchedVector::new(id.0, session, &quantized.numbers));
        }
    }
    vector_blocks::pack(scope, &packed)
}

/// Packs all vectors, for homes of earlier releases.
fn pack_all(scope: &OperationScope<'_>) -> OperationResult<()> {
    let mut statement =
        scope.connection.prepare_cached("SELECT message_id, session, numbers FROM hx_vectors")?;
    let mut rows = statement.query([])?;
    let mut some = Vec::new();
    while let Some(row) = rows.next()? {
        let bytes = row.get_ref(2)?.as_blob().unwrap_or_default();
        let numbers: Vec<i8> = bytes.iter().map(|byte| byte.cast_signed()).collect();
        if !numbers.is_empty() {
            some.push(SketchedVector::new(row.get(0)?, row.get(1)?, &numbers));
        }
        if some.len() >= PACKED_AT_ONCE {
            vector_blocks::pack(scope, &some)?;
            some.clear();
        }
    }
    vector_blocks::pack(scope, &some)
}

/// A message among the best so far; the order is by how alike it is, the worst first.
#[derive(PartialEq)]
struct Ranked {
    similarity: f32,
    id: i64,
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.similarity.total_cmp(&self.similarity).then(other.id.cmp(&self.id))
    }
}

/// The best messages so far, up to a number.
pub(crate) struct RankedMessages {
    kept: usize,
    best: BinaryHeap<Ranked>,
    least: f32,
}

impl RankedMessages {
    pub(crate) fn new(kept: usize) -> Self {
        Self { kept, best: BinaryHeap::with_capacity(kept + 1), least: f32::MIN }
    }

    pub(crate) fn offer(&mut self, similarity: f32, id: i64) {
        if self.best.len() >= self.kept && similarity <= self.least {
            return;
        }
        self.best.push(Ranked { similarity, id });
        if self.best.len() > self.kept {
            self.best.pop();
        }
        self.least = self.best.peek().map_or(f32::MIN, |worst| worst.similarity);
    }
}

fn search(
    scope: &OperationScope<'_>,
    wanted: &QuantizedVector,
    allowed: &RecallScope,
    most: usize,
) -> OperationResult<Vec<SimilarMessage>> {
    let connection = scope.connection;
    let reader = RecallReader::new(scope, allowed)?;
    let sessions = reader.readable_sessions()?;
    let may_read = session_marks(connection, &sessions)?;
    // More than are wanted, because some are left out when they are read.
    let mut comparison =
        VectorComparison { wanted, may_read: &may_read, best: RankedMessages::new(most.saturating_mul(4)) };
    match vector_blocks::first_look(connection, wanted, &may_read)? {
        None => comparison.take(connection.prepare_cached(ALL)?.query([])?)?,
        Some((candidates, PackedRange { oldest, newest })) => {
            // A message that was stored twice has two sketches.
            let ids: BTreeSet<i64> = candidates.best.into_iter().map(|ranked| ranked.id).collect();
            let mut statement = connection.prepare_cached(BY_ID)?;
            for id in ids {
                comparison.take(statement.query([id])?)?;
            }
            // What an earlier release added has no sketch.
            comparison.take(connection.prepare_cached(OUTSIDE)?.query([oldest, newest])?)?;
        }
    }
    let best = comparison.best;
    let mut found = Vec::new();
    for Ranked { similarity, id } in best.best.into_sorted_vec() {
        let Some(message) = reader.read(id)? else { continue };
        found.push(SimilarMessage { message, similarity, vector: vector_of(connection, id)? });
        if found.len() == most {
            break;
        }
    }
    Ok(found)
}

const ALL: &str = "SELECT message_id, session, scale, numbers FROM hx_vectors";
const BY_ID: &str = "SELECT message_id, session, scale, numbers FROM hx_vectors WHERE message_id = ?1";
const OUTSIDE: &str = "SELECT message_id, session, scale, numbers FROM hx_vectors WHERE message_id < ?1
    UNION ALL SELECT message_id, session, scale, numbers FROM hx_vectors WHERE message_id > ?2";

/// The comparison of vectors with the one that is looked for.
struct VectorComparison<'a> {
    wanted: &'a QuantizedVector,
    may_read: &'a [bool],
    best: RankedMessages,
}

impl VectorComparison<'_> {
    /// Compares the vectors of these rows.
    fn take(&mut self, mut rows: Rows<'_>) -> OperationResult<()> {
        while let Some(row) = rows.next()? {
            let session: i64 = row.get(1)?;
            let is_readable = usize::try_from(session).ok().and_then(|at| self.may_read.get(at)).copied();
            let bytes = row.get_ref(3)?.as_blob().unwrap_or_default();
            if is_readable != Some(true) || bytes.len() != self.wanted.numbers.len() {
                continue;
            }
            #[expect(clippy::cast_possible_truncation, reason = "it was stored as f32")]
            let scale = row.get::<_, f64>(2)? as f32;
            #[expect(
                clippy::cast_precision_loss,
                reason = "the product of two vectors of bytes is below 2^24 here"
            )]
            let similarity = product(&self.wanted.numbers, bytes) as f32 * scale * self.wanted.scale;
            self.best.offer(similarity, row.get(0)?);
        }
        Ok(())
    }
}

/// Returns which numbers of `hx_vector_sessions` stand for these sessions.
fn session_marks(connection: &Connection, sessions: &[SessionId]) -> OperationResult<Vec<bool>> {
    let wanted: HashSet<&str> = sessions.iter().map(SessionId::as_str).collect();
    let mut statement = connection.prepare_cached("SELECT number, session_id FROM hx_vector_sessions")?;
    let mut rows = statement.query([])?;
    let mut marks = Vec::new();
    while let Some(row) = rows.next()? {
        let number = usize::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
        if marks.len() <= number {
            marks.resize(number + 1, false);
        }
        let is_wanted = wanted.contains(column::string(row, 1)?.as_str());
        if let Some(mark) = marks.get_mut(number) {
            *mark = is_wanted;
        }
    }
    Ok(marks)
}

fn vector_of(connection: &Connection, id: i64) -> OperationResult<Vec<f32>> {
    let mut statement =
        connection.prepare_cached("SELECT scale, numbers FROM hx_vectors WHERE message_id = ?1")?;
    let (scale, bytes): (f64, Vec<u8>) = statement.query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    #[expect(clippy::cast_possible_truncation, reason = "it was stored as f32")]
    let scale = scale as f32;
    Ok(bytes.into_iter().map(|byte| f32::from(byte.cast_signed()) * scale).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_keeps_its_direction() {
        let vector: Vec<f32> = (0..100_u8).map(|n| f32::from(n % 7) - 3.0).collect();
        let quantized = QuantizedVector::new(&vector).unwrap();
        let similarity = f64::from(product(&quantized.numbers, &quantized.bytes()))
            * f64::from(quantized.scale)
            * f64::from(quantized.scale);
        assert!((similarity - 1.0).abs() < 0.01, "{similarity}");
        assert_eq!(QuantizedVector::new(&[0.0, 0.0]), None);
        assert_eq!(QuantizedVector::new(&[f32::NAN]), None);
    }
}
