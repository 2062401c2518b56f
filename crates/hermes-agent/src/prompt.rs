//! The fixed beginning of every conversation.

use std::path::Path;

/// The same for the whole of a session, so that a provider's cache stays warm.
pub fn system_prompt(folder: &Path, date: &str) -> String {
    let text = include_str!("texts/system.md").trim_end();
    format!("{text}\n\nWorking folder: {}\nConversation started: {date}\n", folder.display())
}
