//! Patterns of file names.

/// Matches `*`, `?` and `[abc]`, for short names.
pub(crate) fn matches_glob(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    // Row by row: the prefixes of the text that the pattern so far can match.
    let mut reached = vec![false; text.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    let mut at = 0;
    while let Some(&c) = pattern.get(at) {
        let mut next = vec![false; text.len() + 1];
        let class_end = (c == '[').then(|| pattern.iter().skip(at + 1).position(|c| *c == ']')).flatten();
        for (i, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
            let mut set = |i: usize| {
                if let Some(cell) = next.get_mut(i) {
                    *cell = true;
                }
            };
            match (c, class_end, text.get(i)) {
                ('*', ..) => (i..=text.len()).for_each(set),
                ('[', Some(length), Some(found))
                    if pattern.iter().skip(at + 1).take(length).any(|c| c == found) =>
                {
                    set(i + 1);
                }
                ('?', _, Some(_)) => set(i + 1),
                (c, _, Some(found)) if c == *found => set(i + 1),
                _ => {}
            }
        }
        reached = next;
        at += class_end.map_or(1, |length| length + 2);
    }
    reached.last().copied().unwrap_or(false)
}
