//! Escapes characters that a terminal or a chat would interpret or hide. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the text with every character escaped that a terminal or a chat would not show as itself: control
/// characters other than newline and tab, and those that change the direction of text or have no width.
pub fn escape_control(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a `String` cannot fail.
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns the text without anything a terminal would interpret: control characters other than newline and tab are
/// escaped. Characters that only join or modify letters stay, because languages and emoji need them.
pub fn escape_terminal(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) {
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn is_hidden(c: char) -> bool {
    let invisible = matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    );
    invisible || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::{escape_control, escape_terminal};

    #[test]
    fn what_would_be_acted_on_or_hidden_is_shown() {
        for (text, shown) in [
            ("rm -rf x\n\tls", "rm -rf x\n\tls"),
            ("ls\u{1b}[2K\rrm", "ls\\u{1b}[2K\\u{d}rm"),
            ("a\u{202e}b\u{200b}c", "a\\u{202e}b\\u{200b}c"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("größe 日本 🎉", "größe 日本 🎉"),
        ] {
            assert_eq!(escape_control(text), shown);
        }
    }

    #[test]
    fn a_terminal_is_told_nothing_and_emoji_stay_whole() {
        assert_eq!(escape_terminal("\u{1b}]52;c;eA==\u{7}x\r\n\ty"), "\\u{1b}]52;c;eA==\\u{7}x\\u{d}\n\ty");
        assert_eq!(escape_terminal("❤️ 👩‍👩‍👧"), "❤️ 👩‍👩‍👧");
    }
}
