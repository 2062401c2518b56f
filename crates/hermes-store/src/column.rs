//! Reads columns leniently: the files were written by many programs over a long time, and types vary.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::error::OperationResult;

/// Reads text, whatever the column holds; invalid UTF-8 is replaced rather than refused.
pub(crate) fn text(row: &Row<'_>, at: usize) -> OperationResult<Option<String>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
    })
}

/// Reads text like [`text`], with absence as the empty string.
pub(crate) fn string(row: &Row<'_>, at: usize) -> OperationResult<String> {
    Ok(text(row, at)?.unwrap_or_default())
}

/// Reads a floating-point number; text that is not a number counts as absent.
pub(crate) fn real(row: &Row<'_>, at: usize) -> OperationResult<Option<f64>> {
    Ok(match row.get_ref(at)? {
        #[expect(clippy::cast_precision_loss, reason = "times and sums are far below 2^52")]
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok()),
        ValueRef::Null | ValueRef::Blob(_) => None,
    })
}

/// Reads an integer; absent and invalid values count as zero.
pub(crate) fn integer(row: &Row<'_>, at: usize) -> OperationResult<i64> {
    Ok(match row.get_ref(at)? {
        ValueRef::Integer(number) => number,
        #[expect(clippy::cast_possible_truncation, reason = "a counter stored as a float is still a counter")]
        ValueRef::Real(number) => number as i64,
        ValueRef::Text(bytes) => {
            std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        }
        ValueRef::Null | ValueRef::Blob(_) => 0,
    })
}

/// Reads a counter, never negative.
pub(crate) fn count(row: &Row<'_>, at: usize) -> OperationResult<u64> {
    Ok(u64::try_from(integer(row, at)?).unwrap_or(0))
}

/// Converts a count to a signed integer, because SQLite integers are signed; larger counts are capped, not
/// wrapped.
pub(crate) fn to_signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
