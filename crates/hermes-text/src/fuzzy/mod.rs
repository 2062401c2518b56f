//! Replaces a passage that a model quoted from memory: exactly if possible, else by increasingly loose comparison.
//!
//! Nine strategies are tried in order; the first that finds anything decides, so a loose one can never override a
//! strict one. Holds no file access and no texts beyond what the model must read to correct itself. Invariants:
//! text outside the matches stays byte for byte; offsets are between characters; an ambiguous passage changes
//! nothing.

mod adapt;
mod lines;
mod mapped_text;
mod strategy;
mod suggest;

use std::ops::Range;

use adapt::{adapt, find_escape_drift};
pub use strategy::MatchStrategy;
pub use suggest::similar_passages;

/// The result of a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FuzzyReplacement {
    pub text: String,
    pub count: usize,
    pub strategy: MatchStrategy,
}

/// The number of places that a replacement may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurrences {
    One,
    All,
}

/// The reason why nothing was replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FuzzyError {
    #[error("old_string cannot be empty")]
    Empty,
    #[error("old_string and new_string are identical")]
    Identical,
    #[error("Could not find a match for old_string in the file")]
    NotFound,
    #[error("Found {0} matches for old_string. Quote more lines around it, or set replace_all")]
    Ambiguous(usize),
    #[error(
        "Escape-drift detected: old_string and new_string contain {0} but the file does not. Quote the file as it is, without the backslash"
    )]
    EscapeDrift(&'static str),
}

/// Replaces `old` by `new`.
pub fn fuzzy_replace(
    content: &str,
    old: &str,
    new: &str,
    occurrences: Occurrences,
) -> Result<FuzzyReplacement, FuzzyError> {
    if old.is_empty() {
        return Err(FuzzyError::Empty);
    }
    if old == new {
        return Err(FuzzyError::Identical);
    }
    let (strategy, found) = strategy::find(content, old).ok_or(FuzzyError::NotFound)?;
    if found.len() > 1 && occurrences == Occurrences::One {
        return Err(FuzzyError::Ambiguous(found.len()));
    }
    let found = without_overlaps(found);
    let mut text = String::with_capacity(content.len() + new.len());
    let mut kept_to = 0;
    for range in &found {
        let matched = slice_or_empty(content, range.clone());
        text.push_str(slice_or_empty(content, kept_to..range.start));
        if strategy == MatchStrategy::Exact {
            text.push_str(new);
        } else {
            if let Some(escape) = find_escape_drift(old, new, matched) {
                return Err(FuzzyError::EscapeDrift(escape));
            }
            text.push_str(&adapt(old, new, matched, strategy));
        }
        kept_to = range.end;
    }
    text.push_str(slice_or_empty(content, kept_to..content.len()));
    Ok(FuzzyReplacement { text, count: found.len(), strategy })
}

/// Removes overlaps: loose strategies may find windows that share lines, and the earlier one is kept.
fn without_overlaps(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_by_key(|range| (range.start, range.end));
    let mut kept: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        if kept.last().is_none_or(|last| last.end <= range.start && *last != range) {
            kept.push(range);
        }
    }
    kept
}

/// Returns a part of a text; empty where the range is not between characters.
fn slice_or_empty(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

#[cfg(test)]
mod tests;
