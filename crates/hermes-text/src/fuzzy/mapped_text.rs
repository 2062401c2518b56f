//! A text rewritten for comparison, with a mapping of each character to the original.
//!
//! Invariant: every returned offset is between characters of the original.

use std::ops::Range;

/// The rewritten text, and the origin of each of its characters.
#[derive(Debug)]
pub(super) struct MappedText {
    pub(super) text: String,
    /// The start in `text`, and the range of the original that the character stands for, in the order of both.
    origins: Vec<(usize, Range<usize>)>,
}

impl MappedText {
    /// Replaces runs of spaces and tabs by one space.
    pub(super) fn with_single_spaces(original: &str) -> Self {
        let mut mapped = Self { text: String::with_capacity(original.len()), origins: Vec::new() };
        let mut in_run = false;
        for (at, c) in original.char_indices() {
            let end = at + c.len_utf8();
            let blank = matches!(c, ' ' | '\t');
            match mapped.origins.last_mut() {
                Some((_, origin)) if blank && in_run => origin.end = end,
                _ => {
                    mapped.origins.push((mapped.text.len(), at..end));
                    mapped.text.push(if blank { ' ' } else { c });
                }
            }
            in_run = blank;
        }
        mapped
    }

    /// Replaces typographic quotes, dashes, ellipses and spaces by their keyboard equivalents.
    pub(super) fn with_plain_characters(original: &str) -> Self {
        let mut mapped = Self { text: String::with_capacity(original.len()), origins: Vec::new() };
        for (at, c) in original.char_indices() {
            let origin = at..at + c.len_utf8();
            let mut buffer = [0; 4];
            for c in keyboard_equivalent(c).unwrap_or(c.encode_utf8(&mut buffer)).chars() {
                mapped.origins.push((mapped.text.len(), origin.clone()));
                mapped.text.push(c);
            }
        }
        mapped
    }

    /// Returns the range of the original for a range of the rewritten text, or `None` if it begins or ends inside a
    /// character that was expanded.
    pub(super) fn to_original(&self, range: Range<usize>) -> Option<Range<usize>> {
        let first = self.index_of(range.start)?;
        let last = if range.end == self.text.len() { self.origins.len() } else { self.index_of(range.end)? };
        let last = last.checked_sub(1).filter(|last| *last >= first)?;
        let origin = |at: usize| self.origins.get(at).map(|(_, origin)| origin.clone());
        let cut_front = first > 0 && origin(first - 1) == origin(first);
        let cut_back = origin(last + 1).is_some_and(|next| Some(next) == origin(last));
        if cut_front || cut_back {
            return None;
        }
        Some(origin(first)?.start..origin(last)?.end)
    }

    /// Returns the characters of the rewritten text with the range of the original that each stands for.
    pub(super) fn characters(&self) -> impl Iterator<Item = (char, &Range<usize>)> {
        self.text.chars().zip(self.origins.iter().map(|(_, origin)| origin))
    }

    fn index_of(&self, at: usize) -> Option<usize> {
        self.origins.binary_search_by_key(&at, |(start, _)| *start).ok()
    }
}

/// Returns the keyboard equivalent of a typographic character.
fn keyboard_equivalent(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{201c}' | '\u{201d}' => "\"",
        '\u{2018}' | '\u{2019}' => "'",
        '\u{2014}' => "--",
        '\u{2013}' => "-",
        '\u{2026}' => "...",
        '\u{a0}' => " ",
        _ => return None,
    })
}
