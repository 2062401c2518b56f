//! Truncates text without splitting a character.

use std::borrow::Cow;

/// Returns the first `chars` characters.
pub fn head(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// Returns the last `chars` characters.
pub fn tail(text: &str, chars: usize) -> &str {
    if chars == 0 {
        return "";
    }
    match text.char_indices().rev().nth(chars - 1) {
        Some((start, _)) => text.get(start..).unwrap_or(text),
        None => text,
    }
}

/// Returns at most `chars` characters, then `...` if anything was left out.
pub fn ellipsize(text: &str, chars: usize) -> Cow<'_, str> {
    let kept = head(text, chars);
    if kept.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(format!("{kept}...")) }
}

/// Returns the beginning and the end with a marker between them that says how much is missing.
///
/// `marker` gets the number of omitted characters. A text within `head_chars + tail_chars` is returned whole.
pub fn head_and_tail(
    text: &str,
    head_chars: usize,
    tail_chars: usize,
    marker: impl FnOnce(usize) -> String,
) -> Cow<'_, str> {
    let total = text.chars().count();
    let Some(left_out) = total.checked_sub(head_chars.saturating_add(tail_chars)).filter(|n| *n > 0) else {
        return Cow::Borrowed(text);
    };
    Cow::Owned(format!("{}{}{}", head(text, head_chars), marker(left_out), tail(text, tail_chars)))
}

/// Replaces line breaks by spaces, for a preview on one line.
pub fn single_line(text: &str) -> String {
    text.replace("\r\n", " ").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cuts_fall_between_characters() {
        assert_eq!((head("añb", 2), tail("añb", 2)), ("añ", "ñb"));
        assert_eq!((head("ab", 9), tail("ab", 9), tail("ab", 0)), ("ab", "ab", ""));
        assert_eq!(ellipsize("hello", 3), "hel...");
        assert_eq!(ellipsize("hello", 5), "hello");
        assert_eq!(single_line("a\r\nb\nc\rd"), "a b c d");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_unsaid(text in "\\PC{0,80}", front in 0usize..40, back in 0usize..40) {
            let cut = head_and_tail(&text, front, back, |n| format!("<{n}>"));
            let total = text.chars().count();
            if total <= front + back {
                prop_assert_eq!(cut.as_ref(), text.as_str());
            } else {
                let marker = format!("<{}>", total - front - back);
                prop_assert_eq!(cut.chars().count(), front + back + marker.chars().count());
                prop_assert!(cut.contains(&marker));
                prop_assert!(cut.starts_with(head(&text, front)) && cut.ends_with(tail(&text, back)));
            }
        }
    }
}
