//! Sketches of vectors, packed in blocks: the sign of each number, for a first look at many vectors.
//!
//! A search of all vectors spends most of its time with reading their rows. A sketch is an eighth of a byte per number, and a row of
//! the table has 256 of them. Invariants: each vector has a sketch, or its message is newer or older than all that have one; a sketch of
//! a vector that is gone does no harm, because the vector itself is read before it counts.

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::OperationResult;
use crate::schema::table_exists;
use crate::vector::{QuantizedVector, RankedMessages};
use crate::writer::OperationScope;

/// The number of vectors in a block.
const BLOCK: usize = 256;
/// The bytes that name a vector: its message and its session.
const NAME: usize = 12;
/// The number of vectors that a first look keeps for the second.
pub(crate) const SECOND_LOOK: usize = 2_000;

/// A vector to be packed.
pub(crate) struct SketchedVector {
    pub(crate) message: i64,
    pub(crate) session: i64,
    pub(crate) sketch: Vec<u8>,
}

impl SketchedVector {
    pub(crate) fn new(message: i64, session: i64, numbers: &[i8]) -> Self {
        let byte = |numbers: &[i8]| {
            let bit = |(at, number): (usize, &i8)| u8::from(*number >= 0) << at;
            numbers.iter().enumerate().map(bit).fold(0, |byte, bit| byte | bit)
        };
        Self { message, session, sketch: numbers.chunks(8).map(byte).collect() }
    }

    fn name(&self) -> [u8; NAME] {
        let mut name = [0; NAME];
        let session = u32::try_from(self.session).unwrap_or(u32::MAX);
        let bytes = self.message.to_le_bytes().into_iter().chain(session.to_le_bytes());
        name.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        name
    }
}

/// The messages of the blocks that were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedRange {
    pub(crate) oldest: i64,
    pub(crate) newest: i64,
}

/// Adds vectors to the blocks.
pub(crate) fn pack(scope: &OperationScope<'_>, vectors: &[SketchedVector]) -> OperationResult<()> {
    let mut statement = scope.connection.prepare_cached(
        "SELECT number, names, sketches FROM hx_vector_blocks ORDER BY number DESC LIMIT 1",
    )?;
    let mut last: Option<(i64, Vec<u8>, Vec<u8>)> =
        statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let mut waiting = vectors;
    while let Some(first) = waiting.first() {
        let size = first.sketch.len();
        let count = |names: &[u8]| names.len() / NAME;
        let fits = |(_, names, sketches): &(i64, Vec<u8>, Vec<u8>)| {
            count(names) < BLOCK && sketches.len() == count(names) * size
        };
        let (number, mut names, mut sketches) = match last.take().filter(fits) {
            Some((number, names, sketches)) => (Some(number), names, sketches),
            None => (None, Vec::new(), Vec::new()),
        };
        let room = BLOCK - count(&names);
        let same = waiting.iter().take(room).take_while(|vector| vector.sketch.len() == size).count();
        let (these, rest) = waiting.split_at(same);
        for vector in these {
            names.extend(vector.name());
            sketches.extend(&vector.sketch);
        }
        scope.execute_cached(
            "INSERT INTO hx_vector_blocks (number, names, sketches) VALUES (?1, ?2, ?3)
             ON CONFLICT (number) DO UPDATE SET names = excluded.names, sketches = excluded.sketches",
            params![number, names, sketches],
        )?;
        waiting = rest;
    }
    Ok(())
}

/// Tells whether there are blocks.
pub(crate) fn has_blocks(connection: &Connection) -> OperationResult<bool> {
    Ok(table_exists(connection, "hx_vector_blocks")?
        && connection.prepare_cached("SELECT 1 FROM hx_vector_blocks LIMIT 1")?.exists([])?)
}

/// Looks at all sketches, and returns the messages whose vectors are to be looked at, with the range they are from. Returns `None` where
/// there are no more vectors than that.
pub(crate) fn first_look(
    connection: &Connection,
    wanted: &QuantizedVector,
    may_read: &[bool],
) -> OperationResult<Option<(RankedMessages, PackedRange)>> {
    if !has_blocks(connection)? {
        return Ok(None);
    }
    let query = SketchQuery::new(&wanted.numbers);
    let size = wanted.numbers.len().div_ceil(8);
    let mut best = RankedMessages::new(SECOND_LOOK);
    let mut range = PackedRange { oldest: i64::MAX, newest: i64::MIN };
    let mut seen = 0_usize;
    let mut statement = connection.prepare_cached("SELECT names, sketches FROM hx_vector_blocks")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let names = row.get_ref(0)?.as_blob().unwrap_or_default();
        let sketches = row.get_ref(1)?.as_blob().unwrap_or_default();
        let (names, _) = names.as_chunks::<NAME>();
        if sketches.len() != names.len() * size {
            continue;
        }
        seen += names.len();
        for ([a, b, c, d, e, f, g, h, i, j, k, l], sketch) in names.iter().zip(sketches.chunks_exact(size)) {
            let message = i64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            let session = u32::from_le_bytes([*i, *j, *k, *l]);
            range.oldest = range.oldest.min(message);
            range.newest = range.newest.max(message);
            let is_readable = usize::try_from(session).ok().and_then(|at| may_read.get(at)).copied();
            if is_readable == Some(true) {
                best.offer(query.score(sketch), message);
            }
        }
    }
    Ok((seen > SECOND_LOOK).then_some((best, range)))
}

/// A vector that sketches are compared with: for each byte of a sketch, what each of its values adds.
struct SketchQuery(Vec<[i16; 256]>);

impl SketchQuery {
    fn new(numbers: &[i8]) -> Self {
        let table = |numbers: &[i8]| {
            let sum = |byte: usize| -> i16 {
                let term = |(at, number): (usize, &i8)| {
                    if byte >> at & 1 == 1 { i16::from(*number) } else { -i16::from(*number) }
                };
                numbers.iter().enumerate().map(term).sum()
            };
            std::array::from_fn(sum)
        };
        Self(numbers.chunks(8).map(table).collect())
    }

    fn score(&self, sketch: &[u8]) -> f32 {
        let term = |(byte, table): (&u8, &[i16; 256])| {
            i32::from(table.get(usize::from(*byte)).copied().unwrap_or_default())
        };
        let sum: i32 = sketch.iter().zip(&self.0).map(term).sum();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a vector has fewer numbers than would make this matter"
        )]
        let sum = sum as f32;
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_counts_each_number_with_its_sign() {
        let stored: Vec<i8> = vec![5, -1, 0, -128, 127, 3, -3, 2, -7, 9];
        let query: Vec<i8> = vec![10, 20, -30, 4, 5, -6, 70, -80, 9, 100];
        let sketch = SketchedVector::new(1, 1, &stored).sketch;
        let expected: i32 = stored
            .iter()
            .zip(&query)
            .map(|(stored, query)| if *stored >= 0 { i32::from(*query) } else { -i32::from(*query) })
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let expected = expected as f32;
        assert!((SketchQuery::new(&query).score(&sketch) - expected).abs() < 0.5);
    }
}
