//! Applies a file's hunks to its text.

use super::{Hunk, HunkLine};
use crate::fuzzy::{FuzzyError, Occurrences, fuzzy_replace};
use crate::truncate::{head, tail};

/// The distance around its hint within which a hunk is searched for, in characters.
const BEFORE_HINT: usize = 500;
const AFTER_HINT: usize = 2000;

/// The hunk that does not fit, and the reason. Hunks count from one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HunkError {
    #[error("hunk {hunk}: {reason}")]
    NoMatch { hunk: usize, reason: FuzzyError },
    #[error("hunk {hunk}: the hint `{hint}` occurs {count} times; quote a line that occurs once")]
    HintAmbiguous { hunk: usize, hint: String, count: usize },
    #[error("the hunks change nothing")]
    NoChange,
}

/// Returns the text after all hunks; each is searched for in the result of those before it.
pub fn apply_hunks(content: &str, hunks: &[Hunk]) -> Result<String, HunkError> {
    let mut text = content.to_owned();
    for (at, hunk) in hunks.iter().enumerate().filter(|(_, hunk)| hunk.is_change()) {
        text = apply(text, hunk, at + 1)?;
    }
    if text == content { Err(HunkError::NoChange) } else { Ok(text) }
}

fn apply(text: String, hunk: &Hunk, number: usize) -> Result<String, HunkError> {
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for line in &hunk.lines {
        match line {
            HunkLine::Context(line) => {
                old.push(line.as_str());
                new.push(line.as_str());
            }
            HunkLine::Removed(line) => old.push(line),
            HunkLine::Added(line) => new.push(line),
        }
    }
    let hint = hunk.hint.as_deref();
    let replacement = new.join("\n");
    if old.is_empty() {
        return insert(&text, &replacement, hint, number);
    }
    let wanted = old.join("\n");
    if wanted == replacement {
        return Ok(text);
    }
    match fuzzy_replace(&text, &wanted, &replacement, Occurrences::One) {
        Ok(replaced) => Ok(drop_leftover_newline(replaced.text, new.is_empty(), &text)),
        Err(reason) => hint
            .and_then(|hint| apply_near_hint(&text, hint, &wanted, &replacement))
            .ok_or(HunkError::NoMatch { hunk: number, reason }),
    }
}

/// Drops the line break that a pure removal leaves as an empty line at the end of the file; nothing else is cleaned
/// up.
fn drop_leftover_newline(replaced: String, only_removed: bool, before: &str) -> String {
    if only_removed && replaced == "\n" && before.ends_with('\n') { String::new() } else { replaced }
}

/// Searches again near the hint, where a passage that occurs often may occur once.
fn apply_near_hint(text: &str, hint: &str, old: &str, new: &str) -> Option<String> {
    let at = text.find(hint)?;
    let (before, after) = (text.get(..at)?, text.get(at..)?);
    let front = tail(before, BEFORE_HINT);
    let back = head(after, AFTER_HINT);
    let start = at - front.len();
    let end = at + back.len();
    let window = text.get(start..end)?;
    let replaced = fuzzy_replace(window, old, new, Occurrences::One).ok()?;
    Some(format!("{}{}{}", text.get(..start)?, replaced.text, text.get(end..)?))
}

/// Inserts lines without context: after the hint's line, else at the end.
fn insert(text: &str, lines: &str, hint: Option<&str>, number: usize) -> Result<String, HunkError> {
    if let Some(hint) = hint {
        let count = text.matches(hint).count();
        if count > 1 {
            return Err(HunkError::HintAmbiguous { hunk: number, hint: hint.to_owned(), count });
        }
        if let Some(at) = text.find(hint) {
            let after = text.get(at..).unwrap_or_default();
            let (line_end, glue) = match after.find('\n') {
                Some(end) => (at + end + 1, ""),
                None => (text.len(), "\n"),
            };
            let (before, rest) =
                (text.get(..line_end).unwrap_or(text), text.get(line_end..).unwrap_or_default());
            let end = if glue.is_empty() { "\n" } else { "" };
            return Ok(format!("{before}{glue}{lines}{end}{rest}"));
        }
    }
    let kept = text.trim_end_matches('\n');
    let glue = if kept.is_empty() { "" } else { "\n" };
    Ok(format!("{kept}{glue}{lines}\n"))
}

#[cfg(test)]
mod tests {
    use super::super::{PatchOp, parse_patch};
    use super::*;

    fn apply_text(content: &str, hunks: &str) -> Result<String, String> {
        let ops = parse_patch(&format!("*** Update File: f\n{hunks}")).unwrap();
        let Some(PatchOp::Update { hunks, .. }) = ops.first() else { panic!("an update") };
        apply_hunks(content, hunks).map_err(|error| error.to_string())
    }

    #[test]
    fn hunks_find_their_place_one_after_the_other() {
        assert_eq!(apply_text("a\nb\nc\n", "@@\n a\n-b\n+B\n@@\n-B\n+BB").unwrap(), "a\nBB\nc\n");
        assert_eq!(apply_text("a\nb\n", "@@ a\n+x").unwrap(), "a\nx\nb\n");
        assert_eq!(apply_text("a\nb", "@@ b\n+x").unwrap(), "a\nb\nx");
        assert_eq!(apply_text("a\n\n\n", "+x").unwrap(), "a\nx\n");
        assert_eq!(apply_text("", "+x").unwrap(), "x\n");
        assert_eq!(apply_text("a\nb\n", "@@\n a\n@@\n-b\n+c").unwrap(), "a\nc\n");
    }

    #[test]
    fn a_hint_tells_places_apart() {
        let body = "x = 1\n".repeat(3) + &"filler line\n".repeat(300);
        let content = format!("{body}def here():\n    x = 1\n");
        let patched = apply_text(&content, "@@ def here\n-    x = 1\n+    x = 2").unwrap();
        assert!(patched.ends_with("def here():\n    x = 2\n") && patched.starts_with("x = 1\nx = 1\n"));
    }

    #[test]
    fn a_hunk_without_a_place_is_named() {
        assert!(
            apply_text("a\n", "@@\n-a\n+b\n@@\n-nowhere to be seen\n+c")
                .unwrap_err()
                .starts_with("hunk 2: Could not find")
        );
        assert!(apply_text("a\na\n", "@@ a\n+x").unwrap_err().contains("occurs 2 times"));
        assert_eq!(apply_text("a\n", "@@\n a").unwrap_err(), "the hunks change nothing");
    }
}
