//! Texts of servers: what is removed from them, what is found in them, and how long they may be.

use std::borrow::Cow;

use hermes_guard::{Assignments, PhoneNumbers, Redaction, TextOrigin, find_injections, redact};
use hermes_text::ellipsize;

use crate::options::SecretsInResults;

/// The longest description of a tool, in characters.
pub(crate) const LONGEST_DESCRIPTION: usize = 4_000;
/// The longest message of a server in a notice or an error, in characters.
pub(crate) const LONGEST_MESSAGE: usize = 2_000;

/// The names whose values are secrets in error texts, whatever their case.
const SECRET_NAMES: [&str; 6] = ["api_key=", "token=", "key=", "password=", "secret=", "bearer "];
/// The beginnings of well-known keys.
const KEY_PREFIXES: [&str; 2] = ["ghp_", "sk-"];

/// Returns a text without invisible and control characters, of at most `longest` characters.
pub(crate) fn clean(text: &str, longest: usize) -> String {
    let shown: String =
        text.chars().filter(|c| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(*c))).collect();
    ellipsize(shown.trim(), longest).into_owned()
}

/// Returns the names of the passages that try to instruct the reader.
pub(crate) fn suspicious_passages(text: &str) -> Vec<String> {
    find_injections(text, TextOrigin::ContextFile).iter().map(ToString::to_string).collect()
}

/// Masks the secrets of a result.
pub(crate) fn mask(text: &str, secrets: SecretsInResults) -> Cow<'_, str> {
    match secrets {
        SecretsInResults::Show => Cow::Borrowed(text),
        SecretsInResults::Mask => {
            let what = Redaction { assignments: Assignments::ConfigStyle, phone_numbers: PhoneNumbers::Keep };
            redact(text, what)
        }
    }
}

/// Removes the values of secrets from an error text.
pub(crate) fn scrub_error(text: &str) -> String {
    let mut scrubbed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, keep)) = first_secret(rest) {
        let (before, from) = rest.split_at(at);
        let (kept, value) = from.split_at(keep);
        let is_end =
            |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&' | ')' | '}' | ']');
        let end = value.find(is_end).unwrap_or(value.len());
        scrubbed.push_str(before);
        scrubbed.push_str(kept);
        scrubbed.push_str("[REDACTED]");
        rest = value.get(end..).unwrap_or_default();
    }
    scrubbed.push_str(rest);
    clean(&scrubbed, LONGEST_MESSAGE)
}

/// Returns where the first secret begins, and how much of it is its name.
fn first_secret(text: &str) -> Option<(usize, usize)> {
    // Lower case of ASCII only, so that the positions stay those of the text.
    let lower = text.to_ascii_lowercase();
    let has_value = |end: usize| {
        text.get(end..).and_then(|rest| rest.chars().next()).is_some_and(|c| {
            !c.is_whitespace() && !matches!(c, '"' | '\'' | ',' | ';' | '&' | ')' | '}' | ']' | '[')
        })
    };
    let named = SECRET_NAMES.iter().flat_map(|name| lower.match_indices(name)).filter_map(|(at, name)| {
        let end = at + name.len();
        has_value(end).then_some((at, name.len()))
    });
    let prefixed =
        KEY_PREFIXES.iter().flat_map(|prefix| text.match_indices(prefix)).filter_map(|(at, prefix)| {
            let starts_word = text.get(..at)?.chars().next_back().is_none_or(|c| !c.is_alphanumeric());
            (starts_word && has_value(at + prefix.len())).then_some((at, 0))
        });
    named.chain(prefixed).min()
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_disappear_from_errors() {
        for (text, wanted) in [
            ("cannot use ghp_abc123, sorry", "cannot use [REDACTED], sorry"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer [REDACTED]"),
            ("url?token=x1&a=2", "url?token=[REDACTED]&a=2"),
            ("API_KEY=z PASSWORD=\"\" secret=s", "API_KEY=[REDACTED] PASSWORD=\"\" secret=[REDACTED]"),
            ("key=sk-live", "key=[REDACTED]"),
            ("nothing é here: a task-1", "nothing é here: a task-1"),
        ] {
            assert_eq!(scrub_error(text), wanted, "{text}");
            assert_eq!(scrub_error(wanted), wanted, "twice: {text}");
        }
    }

    #[test]
    fn invisible_characters_are_removed() {
        assert_eq!(clean(" a\u{200b}b\u{1b}[31m\nc\u{e0041} ", 100), "ab[31m\nc");
        assert_eq!(clean("abcdef", 3), "abc...");
    }
}
