//! Classifies a model's answer. Pure: the result depends only on the messages passed in.

use hermes_text::strip_think;
use hermes_types::{FinishReason, Message, Role};

/// The kind of an answer; it decides what the turn does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// The answer calls tools.
    Calls,
    /// The final text without its reasoning; spaces around it stay, because it may be the end of a longer answer.
    Final(String),
    /// The output limit cut the answer off inside a call.
    TruncatedCall,
    /// The output limit cut the answer off inside its text.
    TruncatedText(String),
    /// The reasoning used up the whole output limit.
    OnlyReasoning,
    /// A reasoning block was never closed.
    OpenScratchpad,
    /// The provider reports that more will follow.
    Unfinished,
    /// The answer has no text.
    Empty,
}

pub(crate) fn classify(message: &Message) -> ReplyKind {
    let text = message.content.text();
    let stripped = strip_think(&text).into_owned();
    let visible = stripped.trim();
    let length = message.finish_reason == Some(FinishReason::Length);
    if has_open_scratchpad(&text) {
        return if length { ReplyKind::OnlyReasoning } else { ReplyKind::OpenScratchpad };
    }
    match (message.tool_calls.is_empty(), length) {
        (false, true) => ReplyKind::TruncatedCall,
        (false, false) => ReplyKind::Calls,
        (true, true) if visible.is_empty() => ReplyKind::OnlyReasoning,
        (true, true) => ReplyKind::TruncatedText(stripped),
        (true, false) if message.finish_reason == Some(FinishReason::Incomplete) => ReplyKind::Unfinished,
        (true, false) if visible.is_empty() => ReplyKind::Empty,
        (true, false) => ReplyKind::Final(stripped),
    }
}

/// Returns the answer a message holds, as the user reads it, or `None` when it does not end a turn.
pub fn final_text(message: &Message) -> Option<String> {
    match classify(message) {
        ReplyKind::Final(text) if message.role == Role::Assistant => Some(text.trim().to_owned()),
        _ => None,
    }
}

fn has_open_scratchpad(text: &str) -> bool {
    const OPEN: &str = "<REASONING_SCRATCHPAD>";
    const CLOSE: &str = "</REASONING_SCRATCHPAD>";
    text.matches(OPEN).count() > text.matches(CLOSE).count()
}

const PROMISE_PHRASES: [&str; 5] = ["i'll", "i will", "let me", "i can do that", "i can help with that"];
const ACTION_WORDS: [&str; 20] = [
    "look",
    "inspect",
    "scan",
    "check",
    "analyze",
    "review",
    "explore",
    "read",
    "open",
    "run",
    "test",
    "fix",
    "debug",
    "search",
    "find",
    "walkthrough",
    "report back",
    "summarize",
    "analyse",
    "summarise",
];
const LOCATION_WORDS: [&str; 8] =
    ["directory", "cwd", "repo", "codebase", "project", "folder", "files", "path"];
const LONGEST_PROMISE: usize = 1_200;

/// Tells whether a text only announces work on the user's files instead of doing it.
pub(crate) fn only_announces(text: &str, asked: &str, since: &[Message]) -> bool {
    if since.iter().any(|message| message.role == Role::Tool) || text.chars().count() > LONGEST_PROMISE {
        return false;
    }
    let (text, asked) = (text.to_lowercase().replace('’', "'"), asked.to_lowercase());
    let has = |text: &str, words: &[&str]| words.iter().any(|word| contains_word(text, word));
    has(&text, &PROMISE_PHRASES)
        && has(&text, &ACTION_WORDS)
        && (has(&text, &LOCATION_WORDS) || has(&asked, &LOCATION_WORDS) || asked.contains('/'))
}

/// Tells whether the text contains a whole word, so that `spread` does not match `read`.
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, found)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + found.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_told_from_an_answer() {
        let asked = "what is in this repo?";
        assert!(only_announces("I’ll look through the files now.", asked, &[]));
        assert!(!only_announces("It holds a parser.", asked, &[]));
        assert!(!only_announces("I'll spread the word.", "hello", &[]));
        let call = hermes_types::ToolCall::new(None, "t", "{}");
        assert!(!only_announces("I'll look through the files.", asked, &[Message::tool(&call, "x")]));
    }
}
