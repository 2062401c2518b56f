//! What an answer without tool calls amounts to. Pure: it looks at the answer and at how often it has been tried.

use hermes_text::strip_think;
use hermes_types::{FinishReason, Message, Role};

/// An answer, seen for what is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// Tools are wanted.
    Calls,
    /// The last word, without its thinking; spaces around it stay, for it may be the end of something longer.
    Final(String),
    /// Cut off by its length while a call was being written.
    TruncatedCall,
    /// Cut off by its length in the middle of its words.
    TruncatedText(String),
    /// All of its length went into thinking.
    OnlyReasoning,
    /// A thinking block that was never closed.
    OpenScratchpad,
    /// The provider says there is more to come.
    Unfinished,
    /// Nothing to read.
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

/// The answer a message is, as the user reads it. Nothing, when it is not the end of a turn.
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

/// Whether a text only announces work on the user's files instead of doing it.
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

/// As whole words, so that `spread` is not `read`.
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
