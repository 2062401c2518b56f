//! The nine strategies for finding a quoted passage, strict ones first.

use std::ops::Range;

use super::adapt::unescape;
use super::lines::{LineIndex, equal_blocks};
use super::mapped_text::MappedText;
use crate::similarity::{ComparableText, similarity};

/// The least similarity of the lines between two anchors, with one candidate and with several.
const SINGLE_MATCH_SIMILARITY: f64 = 0.5;
const MULTIPLE_MATCH_SIMILARITY: f64 = 0.7;
const LINE_SIMILARITY: f64 = 0.8;

/// The largest text that is rewritten for comparison, which takes many times its size; larger ones are compared as
/// they are.
const MAX_REWRITTEN_BYTES: usize = 4 * 1024 * 1024;
/// The most pairs of lines that are compared loosely; with more the passage counts as not found.
const MAX_PAIRS: usize = 500_000;

/// The comparison that found the passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchStrategy {
    Exact,
    LineTrimmed,
    WhitespaceNormalized,
    IndentationFlexible,
    EscapeNormalized,
    TrimmedBoundary,
    UnicodeNormalized,
    BlockAnchor,
    ContextAware,
}

const ORDER: [MatchStrategy; 9] = [
    MatchStrategy::Exact,
    MatchStrategy::LineTrimmed,
    MatchStrategy::WhitespaceNormalized,
    MatchStrategy::IndentationFlexible,
    MatchStrategy::EscapeNormalized,
    MatchStrategy::TrimmedBoundary,
    MatchStrategy::UnicodeNormalized,
    MatchStrategy::BlockAnchor,
    MatchStrategy::ContextAware,
];

/// Returns the first strategy that finds anything, and every match it finds.
pub(super) fn find(content: &str, old: &str) -> Option<(MatchStrategy, Vec<Range<usize>>)> {
    let text = LineIndex::of(content);
    let pattern = LineIndex::of(old);
    ORDER.into_iter().find_map(|strategy| {
        let found = match strategy {
            MatchStrategy::WhitespaceNormalized
            | MatchStrategy::UnicodeNormalized
            | MatchStrategy::BlockAnchor
                if content.len() > MAX_REWRITTEN_BYTES =>
            {
                Vec::new()
            }
            MatchStrategy::Exact => exact(content, old),
            MatchStrategy::LineTrimmed => by_lines(&text, &pattern, str::trim),
            MatchStrategy::WhitespaceNormalized => whitespace_normalized(content, old),
            MatchStrategy::IndentationFlexible => by_lines(&text, &pattern, str::trim_start),
            MatchStrategy::EscapeNormalized => {
                let plain = unescape(old);
                if plain == old { Vec::new() } else { exact(content, &plain) }
            }
            MatchStrategy::TrimmedBoundary => trimmed_boundary(&text, &pattern),
            MatchStrategy::UnicodeNormalized => unicode_normalized(content, old),
            MatchStrategy::BlockAnchor => block_anchor(content, old),
            MatchStrategy::ContextAware => context_aware(&text, &pattern),
        };
        (!found.is_empty()).then_some((strategy, found))
    })
}

fn exact(content: &str, old: &str) -> Vec<Range<usize>> {
    content.match_indices(old).map(|(at, found)| at..at + found.len()).collect()
}

/// Returns blocks of whole lines that are equal once each line is normalised.
fn by_lines(
    text: &LineIndex<'_>,
    pattern: &LineIndex<'_>,
    comparable: fn(&str) -> &str,
) -> Vec<Range<usize>> {
    let content: Vec<&str> = text.texts().map(comparable).collect();
    let wanted: Vec<&str> = pattern.texts().map(comparable).collect();
    if wanted.iter().all(|line| line.is_empty()) {
        // A passage of only whitespace would be found at every empty line.
        return Vec::new();
    }
    equal_blocks(&content, &wanted).into_iter().filter_map(|at| text.span(at, wanted.len())).collect()
}

fn whitespace_normalized(content: &str, old: &str) -> Vec<Range<usize>> {
    let (content, old) = (MappedText::with_single_spaces(content), MappedText::with_single_spaces(old));
    if old.text.trim().is_empty() {
        return Vec::new();
    }
    exact(&content.text, &old.text).into_iter().filter_map(|range| content.to_original(range)).collect()
}

fn trimmed_boundary(text: &LineIndex<'_>, pattern: &LineIndex<'_>) -> Vec<Range<usize>> {
    let content: Vec<&str> = text.texts().collect();
    let wanted: Vec<&str> = pattern.texts().collect();
    let height = wanted.len();
    if height > content.len() || wanted.iter().all(|line| line.trim().is_empty()) {
        return Vec::new();
    }
    let matches = |window: &[&str]| {
        window.iter().zip(&wanted).enumerate().all(|(at, (line, wanted))| {
            if at == 0 || at + 1 == height { line.trim() == wanted.trim() } else { line == wanted }
        })
    };
    let found = content.windows(height).enumerate().filter(|(_, window)| matches(window));
    found.filter_map(|(at, _)| text.span(at, height)).collect()
}

fn unicode_normalized(content: &str, old: &str) -> Vec<Range<usize>> {
    let (plain, wanted) =
        (MappedText::with_plain_characters(content), MappedText::with_plain_characters(old));
    if plain.text == content && wanted.text == old {
        return Vec::new();
    }
    let found: Vec<_> =
        exact(&plain.text, &wanted.text).into_iter().filter_map(|range| plain.to_original(range)).collect();
    if !found.is_empty() {
        return found;
    }
    by_lines(&LineIndex::of(&plain.text), &LineIndex::of(&wanted.text), str::trim)
        .into_iter()
        .filter_map(|range| plain.to_original(range))
        .collect()
}

fn block_anchor(content: &str, old: &str) -> Vec<Range<usize>> {
    let original = LineIndex::of(content);
    let (plain, wanted) =
        (MappedText::with_plain_characters(content), MappedText::with_plain_characters(old));
    let content: Vec<&str> = plain.text.split('\n').collect();
    let wanted: Vec<&str> = wanted.text.split('\n').collect();
    let height = wanted.len();
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Vec::new() };
    if height < 2 || height > content.len() || (first.trim().is_empty() && last.trim().is_empty()) {
        return Vec::new();
    }
    let anchored: Vec<(usize, &[&str])> = content
        .windows(height)
        .enumerate()
        .filter(|(_, window)| {
            window.first().map(|line| line.trim()) == Some(first.trim())
                && window.last().map(|line| line.trim()) == Some(last.trim())
        })
        .collect();
    let enough = if anchored.len() == 1 { SINGLE_MATCH_SIMILARITY } else { MULTIPLE_MATCH_SIMILARITY };
    let middle = |lines: &[&str]| lines.get(1..height - 1).unwrap_or_default().join("\n");
    let wanted_middle = middle(&wanted);
    let alike = |window: &[&str]| height == 2 || similarity(&middle(window), &wanted_middle) >= enough;
    let found = anchored.into_iter().filter(|(_, window)| alike(window));
    found.filter_map(|(at, _)| original.span(at, height)).collect()
}

fn context_aware(text: &LineIndex<'_>, pattern: &LineIndex<'_>) -> Vec<Range<usize>> {
    let wanted: Vec<ComparableText> = pattern.texts().map(|line| ComparableText::new(line.trim())).collect();
    let blank: Vec<bool> = pattern.texts().map(|line| line.trim().is_empty()).collect();
    let height = wanted.len();
    let with_words = blank.iter().filter(|blank| !**blank).count();
    let windows = (text.texts().len() + 1).saturating_sub(height);
    // Empty lines are similar everywhere: without words on any line there is no basis for a match.
    if with_words == 0 || windows.saturating_mul(height) > MAX_PAIRS {
        return Vec::new();
    }
    // For each window that begins at a line: how many of its lines are similar, and how many of those have words.
    let mut alike = vec![(0_usize, 0_usize); windows];
    for (at, line) in text.texts().enumerate() {
        let line = ComparableText::new(line.trim());
        for (row, wanted) in wanted.iter().enumerate().take(at + 1) {
            let Some((all, words)) = alike.get_mut(at - row) else { continue };
            let can_still = (*all + height - row) * 2 >= height;
            if can_still && wanted.is_similar(&line, LINE_SIMILARITY) {
                *all += 1;
                *words += usize::from(!blank[row]);
            }
        }
    }
    // Empty lines count, but they alone must not produce a match.
    let enough = |(all, words): &(usize, usize)| all * 2 >= height && words * 2 >= with_words;
    let found = alike.iter().enumerate().filter(|(_, counts)| enough(counts));
    found.filter_map(|(at, _)| text.span(at, height)).collect()
}
