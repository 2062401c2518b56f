//! Patterns of file names.

/// Matches `*`, `?`, `[abc]`, `[a-c]` and `[!abc]`, for short names.
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
        let class = (c == '[').then(|| class_at(&pattern, at + 1)).flatten();
        for (i, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
            let mut set = |i: usize| {
                if let Some(cell) = next.get_mut(i) {
                    *cell = true;
                }
            };
            match (c, class, text.get(i)) {
                ('*', ..) => (i..=text.len()).for_each(set),
                ('[', Some(class), Some(found)) if is_in_class(class, *found) => set(i + 1),
                // A bracket that opens a class stands for one of its characters only.
                ('[', Some(_), _) => {}
                ('?', _, Some(_)) => set(i + 1),
                (c, _, Some(found)) if c == *found => set(i + 1),
                _ => {}
            }
        }
        reached = next;
        at += class.map_or(1, |class| class.len() + 2);
    }
    reached.last().copied().unwrap_or(false)
}

/// Tells whether a text contains a pattern at all.
pub(crate) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Returns what stands between the brackets of a class. A bracket right at the beginning belongs to the class.
fn class_at(pattern: &[char], start: usize) -> Option<&[char]> {
    let negation = usize::from(matches!(pattern.get(start), Some('!' | '^')));
    let end = pattern.iter().skip(start + negation + 1).position(|c| *c == ']')?;
    pattern.get(start..start + negation + 1 + end)
}

fn is_in_class(class: &[char], c: char) -> bool {
    let (negated, class) = match class {
        ['!' | '^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut rest = class;
    let mut found = false;
    while let [first, tail @ ..] = rest {
        rest = if let ['-', last, after @ ..] = tail {
            found |= (*first..=*last).contains(&c);
            after
        } else {
            found |= *first == c;
            tail
        };
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_a_shell_matches_them() {
        for (pattern, text) in [
            ("r?", "rm"),
            ("mk[f]s*", "mkfs.ext4"),
            ("[a-f]d", "dd"),
            ("[!x]m", "rm"),
            ("[]x]", "]"),
            ("*", ""),
            ("a[", "a["),
        ] {
            assert!(matches_glob(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("r?", "r"), ("[!r]m", "rm"), ("[a-c]d", "dd"), ("a[b]", "a[b]")] {
            assert!(!matches_glob(pattern, text), "{pattern} {text}");
        }
    }
}
