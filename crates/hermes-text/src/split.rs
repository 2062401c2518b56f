//! Splits a text into parts that a platform accepts.
//!
//! Pure. Invariants: no part is longer than the limit; a fenced block that is split is closed in one part and
//! opened again in the next; apart from fences, spaces at the cuts and the counter at the end, nothing is added or
//! lost.

use hermes_types::LengthUnit;

/// The space for the counter at the end of a part, as in ` (12/34)`.
const COUNTER: usize = 10;
/// The space for closing a fenced block.
const FENCE: usize = 4;
/// The smallest limit; shorter parts could not hold what splitting adds.
const MIN_LIMIT: usize = 64;

/// Returns the length of a text as a platform counts it.
pub fn length(text: &str, unit: LengthUnit) -> usize {
    match unit {
        LengthUnit::Scalars => text.chars().count(),
        LengthUnit::Utf16 => text.encode_utf16().count(),
    }
}

/// Splits the text into parts of at most `limit`, each with a counter when there are several.
pub fn split(text: &str, limit: usize, unit: LengthUnit) -> Vec<String> {
    if length(text, unit) <= limit {
        return vec![text.to_owned()];
    }
    let limit = limit.max(MIN_LIMIT);
    let mut parts = Vec::new();
    let mut rest = text;
    let mut open: Option<String> = None;
    loop {
        let opening = open.as_ref().map(|language| format!("```{language}\n")).unwrap_or_default();
        let room = limit.saturating_sub(COUNTER + FENCE + length(&opening, unit)).max(MIN_LIMIT / 4);
        if length(rest, unit) <= room {
            parts.push(format!("{opening}{rest}"));
            break;
        }
        let window = head_of(rest, room, unit);
        let at = cut(window, open.is_some());
        let (body, after) = rest.split_at(at);
        open = fence_at_end(body, open.as_deref());
        let closing = match &open {
            Some(_) if body.ends_with('\n') => "```",
            Some(_) => "\n```",
            None => "",
        };
        parts.push(format!("{opening}{}{closing}", if open.is_some() { body } else { body.trim_end() }));
        // Inside a block the spaces at the beginning of a line are significant.
        rest = if open.is_some() { after.strip_prefix('\n').unwrap_or(after) } else { after.trim_start() };
        if rest.is_empty() {
            break;
        }
    }
    let count = parts.len();
    if count == 1 {
        return parts;
    }
    parts.iter().enumerate().map(|(at, part)| format!("{part} ({}/{count})", at + 1)).collect()
}

/// Returns the longest beginning that fits.
fn head_of(text: &str, room: usize, unit: LengthUnit) -> &str {
    let mut used = 0;
    let mut end = 0;
    for (at, c) in text.char_indices() {
        used += match unit {
            LengthUnit::Scalars => 1,
            LengthUnit::Utf16 => c.len_utf16(),
        };
        if used > room {
            break;
        }
        end = at + c.len_utf8();
    }
    text.get(..end).unwrap_or(text)
}

/// Returns where to cut a window: after a line, else after a word, else at its end. Never at zero.
fn cut(window: &str, in_block: bool) -> usize {
    let half = window.len() / 2;
    let line = window.rfind('\n').map(|at| at + 1).filter(|at| *at > half);
    let word = || window.rfind(' ').map(|at| at + 1).filter(|at| *at > 1);
    let at = line.or_else(word).unwrap_or(window.len());
    if in_block {
        return at;
    }
    before_open_code(window, at)
}

/// Moves a cut inside `inline code` in front of it, when enough text is left before it.
fn before_open_code(window: &str, at: usize) -> usize {
    let body = window.get(..at).unwrap_or(window);
    if body.contains("```") || count_ticks(body).is_multiple_of(2) {
        return at;
    }
    match body.rfind('`') {
        Some(tick) if tick >= window.len() / 4 && tick > 0 => tick,
        _ => at,
    }
}

fn count_ticks(text: &str) -> usize {
    let mut escaped = false;
    let mut count = 0;
    for c in text.chars() {
        if c == '`' && !escaped {
            count += 1;
        }
        escaped = c == '\\' && !escaped;
    }
    count
}

/// Returns the language of the block that is open at the end, given the one that was open at the beginning.
fn fence_at_end(body: &str, open: Option<&str>) -> Option<String> {
    let mut open = open.map(str::to_owned);
    for line in body.lines() {
        if let Some(after) = line.trim_start().strip_prefix("```") {
            open = match open {
                Some(_) => None,
                None => Some(after.split_whitespace().next().unwrap_or_default().to_owned()),
            };
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the text without everything that splitting may add or remove.
    fn essence(text: &str) -> String {
        text.lines()
            .filter(|line| !line.trim_start().starts_with("```"))
            .flat_map(str::chars)
            .filter(|c| !c.is_whitespace())
            .collect()
    }

    fn without_counter(part: &str, at: usize, count: usize) -> &str {
        part.strip_suffix(&format!(" ({}/{count})", at + 1)).unwrap_or(part)
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_limits_hold(
            text in "([a-zé𝄞 ]{0,40}(\n|`x`|\n```rust\nlet a = 1;\n    let b = 22;\n```\n)?){0,40}",
            limit in 64_usize..300,
            utf16: bool,
        ) {
            let unit = if utf16 { LengthUnit::Utf16 } else { LengthUnit::Scalars };
            let parts = split(&text, limit, unit);
            let count = parts.len();
            let mut whole = String::new();
            for (at, part) in parts.iter().enumerate() {
                prop_assert!(length(part, unit) <= limit, "{} > {limit}: {part:?}", length(part, unit));
                let bare = without_counter(part, at, count);
                prop_assert_eq!(bare.lines().filter(|l| l.trim_start().starts_with("```")).count() % 2, 0, "{:?}", bare);
                whole.push_str(bare);
                whole.push('\n');
            }
            if count > 1 {
                prop_assert_eq!(essence(&whole), essence(&text));
            }
        }
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        assert_eq!(split("short", 100, LengthUnit::Scalars), ["short"]);
        assert_eq!(length("𝄞", LengthUnit::Utf16), 2);
    }

    #[test]
    fn a_cut_block_is_closed_and_opened_again() {
        let text = format!("```python\n{}```\nend", "print('hello')\n".repeat(20));
        let parts = split(&text, 120, LengthUnit::Scalars);
        assert!(parts.len() > 2);
        assert!(
            parts.iter().skip(1).take(parts.len() - 2).all(|part| part.starts_with("```python\n")),
            "{parts:?}"
        );
        assert!(parts.first().is_some_and(|part| part.ends_with("``` (1/4)") || part.contains("```")));
    }

    #[test]
    fn code_in_a_line_is_not_torn() {
        let text = format!("{} `some code here` {}", "word ".repeat(14), "more ".repeat(20));
        for (at, part) in split(&text, 100, LengthUnit::Scalars).iter().enumerate() {
            assert_eq!(count_ticks(part) % 2, 0, "part {at}: {part:?}");
        }
    }
}
