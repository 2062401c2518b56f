//! Renders a conversation as text for a reader who does not know it.

use std::borrow::Cow;
use std::fmt::Write as _;

use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};
use hermes_store::StoredMessage;
use hermes_text::{head, head_and_tail};
use hermes_types::{Message, Role};

pub(super) const MOST_CHARS: usize = 100_000;
const MOST_TOOL_CHARS: usize = 500;
const PREVIEW_CHARS: usize = 500;

/// Renders the messages in order, each with its role.
pub(super) fn render(messages: &[StoredMessage]) -> String {
    let mut text = String::new();
    for stored in messages {
        let line = message(&stored.message);
        if !line.is_empty() {
            let _ = write!(text, "{line}\n\n");
        }
    }
    masked(text.trim_end()).into_owned()
}

fn message(message: &Message) -> String {
    let said = message.content.text();
    match message.role {
        Role::User => format!("[USER]: {said}"),
        Role::System => String::new(),
        Role::Tool => {
            let name = message.tool_name.as_deref().unwrap_or("unknown");
            let half = MOST_TOOL_CHARS / 2;
            let said =
                head_and_tail(&said, half, half, |left_out| format!("\n[… {left_out} characters …]\n"));
            format!("[TOOL:{name}]: {said}")
        }
        Role::Assistant => {
            let calls: Vec<&str> = message.tool_calls.iter().map(|call| call.name.as_str()).collect();
            let mut lines = Vec::new();
            if !calls.is_empty() {
                lines.push(format!("[ASSISTANT]: [Called: {}]", calls.join(", ")));
            }
            if !said.trim().is_empty() {
                lines.push(format!("[ASSISTANT]: {said}"));
            }
            lines.join("\n\n")
        }
    }
}

/// Truncates a text to `most` characters around the first occurrence of any of the words.
pub(super) fn around<'a>(text: &'a str, words: &[String], most: usize) -> Cow<'a, str> {
    let total = text.chars().count();
    if total <= most {
        return Cow::Borrowed(text);
    }
    let small =
        |text: &str| text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect::<Vec<char>>();
    let whole = small(text);
    let first = words
        .iter()
        .filter(|word| !word.is_empty())
        .filter_map(|word| {
            let word = small(word);
            whole.windows(word.len()).position(|window| window == word)
        })
        .min()
        .unwrap_or(0);
    let start = first.saturating_sub(most / 2).min(total - most);
    let kept: String = text.chars().skip(start).take(most).collect();
    let before = if start > 0 { "[… earlier part left out …]\n\n" } else { "" };
    let after = if start + most < total { "\n\n[… later part left out …]" } else { "" };
    Cow::Owned(format!("{before}{kept}{after}"))
}

/// Returns a preview for a conversation without a summary.
pub(super) fn raw_preview(text: &str) -> String {
    format!("[Raw preview — summarization unavailable]\n{}", head(text, PREVIEW_CHARS))
}

/// Masks secrets, because a user may have pasted a key that another model should not get.
pub(super) fn masked(text: &str) -> Cow<'_, str> {
    redact(text, Redaction { assignments: Assignments::ConfigStyle, phone_numbers: PhoneNumbers::Keep })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_holds_the_word() {
        let text = format!("{}Needle{}", "a".repeat(500), "é".repeat(500));
        let cut = around(&text, &["needle".to_owned()], 100);
        assert!(cut.contains("Needle") && cut.starts_with("[… earlier") && cut.ends_with("left out …]"));
        assert_eq!(around("short", &["x".to_owned()], 100), "short");
        let cut = around(&text, &["absent".to_owned()], 100);
        assert!(cut.starts_with('a') && cut.chars().filter(|c| *c == 'a').count() >= 100);
    }
}
