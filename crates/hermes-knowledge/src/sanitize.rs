//! Limits the length of text from files and blocks text that looks like a prompt injection.

use hermes_guard::{TextOrigin, find_injections};
use hermes_text::{head, tail};

/// The maximum number of characters from one source.
const MOST: usize = 20_000;
const KEPT_HEAD: usize = 14_000;
const KEPT_TAIL: usize = 4_000;

/// Returns the text, or a notice in its place if it looks like a prompt injection.
pub(crate) fn block_if_suspicious(text: &str, name: &str) -> String {
    let found = find_injections(text, TextOrigin::ContextFile);
    if found.is_empty() {
        return text.to_owned();
    }
    let ids = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    tracing::warn!(file = name, findings = ids, "a context file was not loaded");
    format!("[BLOCKED: {name} contained potential prompt injection ({ids}). Content not loaded.]")
}

/// Truncates a text to the limit and inserts a notice where characters were removed.
pub(crate) fn truncate_with_notice(text: String, name: &str) -> String {
    let total = text.chars().count();
    if total <= MOST {
        return text;
    }
    format!(
        "{}\n\n[...truncated {name}: kept {KEPT_HEAD}+{KEPT_TAIL} of {total} chars. Use file tools to read the full file.]\n\n{}",
        head(&text, KEPT_HEAD),
        tail(&text, KEPT_TAIL)
    )
}
