//! Replacements on a text, and the positions of its lines.

use std::ops::Range;

use crate::yaml::compose::byte_at;

/// The bytes to replace and their replacement.
#[derive(Debug, Clone)]
pub(super) struct Splice {
    range: Range<usize>,
    text: String,
}

/// The splices that together make one change, in any order, not overlapping.
pub(super) type EditPlan = Vec<Splice>;

pub(super) fn replace(range: Range<usize>, text: impl Into<String>) -> Splice {
    Splice { range, text: text.into() }
}

pub(super) fn insert(at: usize, text: impl Into<String>) -> Splice {
    replace(at..at, text)
}

pub(super) fn delete(range: Range<usize>) -> Splice {
    replace(range, "")
}

/// Applies a plan; returns `None` when the splices overlap or split a character.
pub(super) fn apply(text: &str, mut plan: EditPlan) -> Option<String> {
    plan.sort_by_key(|splice| (splice.range.start, splice.range.end));
    let mut out =
        String::with_capacity(text.len() + plan.iter().map(|splice| splice.text.len()).sum::<usize>());
    let mut at = 0;
    for splice in plan {
        out.push_str(text.get(at..splice.range.start)?);
        out.push_str(&splice.text);
        at = splice.range.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

/// Returns the line break the file uses.
pub(super) fn line_break(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if at > 0 && byte_at(text, at - 1) == Some(b'\r') => "\r\n",
        _ => "\n",
    }
}

/// Returns where the line containing `at` begins.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// Returns where the line containing `at` ends, before its line break.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let end = at + rest.find('\n').unwrap_or(rest.len());
    if end > at && byte_at(text, end - 1) == Some(b'\r') { end - 1 } else { end }
}

/// Returns where the line after the one containing `at` begins, or the end of the text when there is none.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.find('\n')).map_or(text.len(), |newline| at + newline + 1)
}

/// Tells whether only spaces precede `at` on its line.
pub(super) fn starts_line(text: &str, at: usize) -> bool {
    let before = text.get(line_start(text, at)..at).unwrap_or_default();
    before.trim_start_matches('\u{feff}').chars().all(|c| c == ' ')
}

/// Joins lines with the file's own line break.
pub(super) fn join(lines: &[String], text: &str) -> String {
    lines.join(line_break(text))
}
