//! Passages a model may have meant when none matched.

use std::fmt::Write as _;

use super::lines::Lines;
use crate::similarity::Comparable;

const MOST: usize = 3;
const ALIKE: f64 = 0.3;
const AROUND: usize = 2;
/// Comparing costs; a line further down than this is not looked at.
const MOST_LINES: usize = 10_000;

/// Up to three places whose line is most like the first line of `old`, each with two lines around it and numbered.
pub fn similar_passages(content: &str, old: &str) -> Vec<String> {
    let Some(anchor) = old.split('\n').map(str::trim).find(|line| !line.is_empty()) else {
        return Vec::new();
    };
    let anchor = Comparable::new(anchor);
    let lines = Lines::of(content);
    let mut scored: Vec<(f64, usize)> = lines
        .texts()
        .take(MOST_LINES)
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(at, line)| (Comparable::new(line.trim()).similarity(&anchor), at))
        .filter(|(score, _)| *score > ALIKE)
        .collect();
    scored.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.cmp(second)));
    let mut taken: Vec<usize> = Vec::new();
    for (_, at) in scored {
        if taken.iter().all(|other| other.abs_diff(at) > AROUND) {
            taken.push(at);
        }
        if taken.len() == MOST {
            break;
        }
    }
    taken.into_iter().map(|at| numbered(&lines, at)).collect()
}

fn numbered(lines: &Lines<'_>, at: usize) -> String {
    let from = at.saturating_sub(AROUND);
    let mut text = String::new();
    for (number, line) in lines.texts().enumerate().skip(from).take(at + AROUND + 1 - from) {
        let _ = writeln!(text, "{:>4}| {line}", number + 1);
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}
