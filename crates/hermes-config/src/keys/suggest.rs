//! Suggestions of the documented key a mistyped one was probably meant to be.

use super::all;

/// Returns the nearest documented path, when it is near enough to be a typing mistake.
pub(super) fn suggest(dotted: &str) -> Option<&'static str> {
    let limit = (dotted.len() / 4).clamp(1, 4);
    let typed: Vec<char> = dotted.to_lowercase().chars().collect();
    if typed.len() > 80 {
        return None;
    }
    let near = all()
        .filter(|spec| !spec.path.contains('*'))
        .map(|spec| (distance(&typed, &spec.path.chars().collect::<Vec<_>>()), spec.path))
        .filter(|(steps, _)| (1..=limit).contains(steps))
        .min()
        .map(|(_, path)| path);
    near.or_else(|| find_in_other_section(dotted))
}

/// Finds a key whose name is right but whose section is not, when only one section has it.
fn find_in_other_section(dotted: &str) -> Option<&'static str> {
    let leaf = dotted.rsplit('.').next()?;
    let mut found = all()
        .map(|spec| spec.path)
        .filter(|path| !path.contains('*') && *path != dotted && path.rsplit('.').next() == Some(leaf));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Returns the number of insertions, deletions and replacements between two words.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(b) {
            let above = *cell;
            let best = (diagonal + usize::from(from != to)).min(above + 1).min(left + 1);
            diagonal = above;
            left = best;
            *cell = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
