//! The similarity of two names, for suggestions.
//!
//! The share of characters that occur in the same order in both: the longest common run, then the same to its left
//! and to its right.

/// The least similarity that counts.
const CUTOFF: f64 = 0.5;
/// The longest name that is compared, because the work grows with the square of the length.
const MAX_NAME_LENGTH: usize = 200;

/// Returns the closest names, the most similar first.
pub(super) fn closest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>, most: usize) -> Vec<String> {
    let wanted: Vec<char> = wanted.to_lowercase().chars().take(MAX_NAME_LENGTH).collect();
    let mut scored: Vec<(f64, &str)> = names
        .map(|name| {
            let chars: Vec<char> = name.to_lowercase().chars().take(MAX_NAME_LENGTH).collect();
            (ratio(&wanted, &chars), name)
        })
        .filter(|(score, _)| *score >= CUTOFF)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.into_iter().take(most).map(|(_, name)| name.to_owned()).collect()
}

#[expect(clippy::cast_precision_loss, reason = "names are short")]
fn ratio(a: &[char], b: &[char]) -> f64 {
    let all = a.len() + b.len();
    if all == 0 { 1.0 } else { 2.0 * common(a, b) as f64 / all as f64 }
}

fn common(a: &[char], b: &[char]) -> usize {
    let (mut best, mut end_a, mut end_b) = (0, 0, 0);
    let mut above = vec![0; b.len() + 1];
    for (at_a, char_a) in a.iter().enumerate() {
        let mut row = vec![0];
        for ((at_b, char_b), before) in b.iter().enumerate().zip(&above) {
            let run = if char_a == char_b { before + 1 } else { 0 };
            if run > best {
                (best, end_a, end_b) = (run, at_a + 1, at_b + 1);
            }
            row.push(run);
        }
        above = row;
    }
    if best == 0 {
        return 0;
    }
    let left = |chars: &[char], end: usize| chars.iter().take(end - best).copied().collect::<Vec<_>>();
    let right = |chars: &[char], end: usize| chars.iter().skip(end).copied().collect::<Vec<_>>();
    best + common(&left(a, end_a), &left(b, end_b)) + common(&right(a, end_a), &right(b, end_b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions() {
        let check = |wanted: &str, names: &[&str], expected: &[&str]| {
            assert_eq!(closest(wanted, names.iter().copied(), 3), expected, "{wanted}");
        };
        check(
            "gpt-5.5",
            &["gpt-5.4", "claude-opus", "gpt-4o", "gpt-5.4-mini"],
            &["gpt-5.4", "gpt-5.4-mini", "gpt-4o"],
        );
        check("Claude-Opus", &["claude-opus-4-6", "glm-5"], &["claude-opus-4-6"]);
        check("zzz", &["a", "b"], &[]);
        check("", &["", "a"], &[""]);
        check("größe", &["grösse"], &["grösse"]);
        check("a", &["a", "a", "a", "a"], &["a", "a", "a"]);
    }
}
