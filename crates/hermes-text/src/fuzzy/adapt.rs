//! Adapts the new text to an inexact match: its indentation, its control characters, its typography.

use super::mapped_text::MappedText;
use super::{MatchStrategy, slice_or_empty};
use crate::similarity::matching_blocks;

/// Returns the escape that both texts of the model contain and the file does not: the model escaped quotes
/// unnecessarily.
pub(super) fn find_escape_drift(old: &str, new: &str, matched: &str) -> Option<&'static str> {
    [r"\'", r#"\""#]
        .into_iter()
        .find(|escape| old.contains(escape) && new.contains(escape) && !matched.contains(escape))
}

/// Returns the new text as it should replace `matched`.
pub(super) fn adapt(old: &str, new: &str, matched: &str, strategy: MatchStrategy) -> String {
    let mut text = new.to_owned();
    if strategy == MatchStrategy::EscapeNormalized && old.contains(r"\n") && !new.contains('\n') {
        text = text.replace(r"\n", "\n");
    }
    for (escape, real) in [(r"\t", "\t"), (r"\r", "\r")] {
        if matched.contains(real) {
            text = text.replace(escape, real);
        }
    }
    let quoted = if strategy == MatchStrategy::EscapeNormalized { unescape(old) } else { old.to_owned() };
    text = indent_like(&text, base_indent(&quoted), base_indent(matched));
    if strategy == MatchStrategy::UnicodeNormalized { keep_typography(&text, matched) } else { text }
}

/// Replaces the escapes `\n`, `\t` and `\r` by the characters they name.
pub(super) fn unescape(text: &str) -> String {
    text.replace(r"\n", "\n").replace(r"\t", "\t").replace(r"\r", "\r")
}

fn base_indent(text: &str) -> &str {
    let line = text.split('\n').find(|line| !line.trim().is_empty()).unwrap_or_default();
    slice_or_empty(line, 0..line.len() - line.trim_start().len())
}

/// Moves every line from one base indentation to another; lines indented less are put at the base.
fn indent_like(text: &str, from: &str, to: &str) -> String {
    if from == to {
        return text.to_owned();
    }
    let moved = text.split('\n').map(|line| {
        if line.trim().is_empty() {
            line.to_owned()
        } else {
            format!("{to}{}", line.strip_prefix(from).unwrap_or_else(|| line.trim_start()))
        }
    });
    moved.collect::<Vec<_>>().join("\n")
}

/// Keeps the file's own characters where the new text repeats the old one.
fn keep_typography(new: &str, matched: &str) -> String {
    let plain = MappedText::with_plain_characters(matched);
    let (old_chars, origins): (Vec<char>, Vec<_>) = plain.characters().unzip();
    let new_chars: Vec<char> = new.chars().collect();
    let mut text = String::with_capacity(new.len());
    let mut next = 0;
    for block in matching_blocks(&old_chars, &new_chars) {
        text.extend(&new_chars[next..block.b]);
        next = block.b + block.len;
        let mut at = block.a;
        let end = block.a + block.len;
        while at < end {
            let origin = origins[at];
            let whole = origins.iter().skip(at).take_while(|other| **other == origin).count();
            let from_start = at == 0 || origins[at - 1] != origin;
            if from_start && at + whole <= end {
                text.push_str(slice_or_empty(matched, origin.clone()));
                at += whole;
            } else {
                text.push(old_chars[at]);
                at += 1;
            }
        }
    }
    text.extend(&new_chars[next..]);
    text
}
