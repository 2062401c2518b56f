//! How long a text from a file may be, and what is left of one that is longer or tries to give orders.

use hermes_guard::{TextOrigin, find_injections};
use hermes_text::{head, tail};

/// The most characters of one source.
const MOST: usize = 20_000;
const KEPT_HEAD: usize = 14_000;
const KEPT_TAIL: usize = 4_000;

/// The text as it may be shown: a suspicious one is replaced as a whole.
pub(crate) fn block_if_suspicious(text: &str, name: &str) -> String {
    let found = find_injections(text, TextOrigin::ContextFile);
    if found.is_empty() {
        return text.to_owned();
    }
    let ids = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    tracing::warn!(file = name, findings = ids, "a context file was not loaded");
    format!("[BLOCKED: {name} contained potential prompt injection ({ids}). Content not loaded.]")
}

/// The text within its bound, with a word about what is missing.
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
