//! Suggests passages that a model may have meant when none matched.

use std::fmt::Write as _;

use super::lines::LineIndex;
use crate::similarity::ComparableText;

const MAX_SUGGESTIONS: usize = 3;
const MIN_SIMILARITY: f64 = 0.3;
const CONTEXT_LINES: usize = 2;
/// The most lines that are compared, because a comparison is expensive.
const MAX_LINES: usize = 10_000;

/// Returns up to three places whose line is most similar to the first line of `old`, each with two lines around it
/// and numbered.
pub fn similar_passages(content: &str, old: &str) -> Vec<String> {
    let Some(anchor) = old.split('\n').map(str::trim).find(|line| !line.is_empty()) else {
        return Vec::new();
    };
    let anchor = ComparableText::new(anchor);
    let lines = LineIndex::of(content);
    let mut scored: Vec<(f64, usize)> = lines
        .texts()
        .take(MAX_LINES)
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| (ComparableText::new(line.trim()).similarity(&anchor), at))
        .filter(|(score, _)| *score > MIN_SIMILARITY)
        .collect();
    scored.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.cmp(second)));
    let mut taken: Vec<usize> = Vec::new();
    for (_, at) in scored {
        if taken.iter().all(|other| other.abs_diff(at) > CONTEXT_LINES) {
            taken.push(at);
        }
        if taken.len() == MAX_SUGGESTIONS {
            break;
        }
    }
    taken.into_iter().map(|at| numbered(&lines, at)).collect()
}

fn numbered(lines: &LineIndex<'_>, at: usize) -> String {
    let from = at.saturating_sub(CONTEXT_LINES);
    let mut text = String::new();
    for (number, line) in lines.texts().enumerate().skip(from).take(at + CONTEXT_LINES + 1 - from) {
        let _ = writeln!(text, "{:>4}| {line}", number + 1);
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}
