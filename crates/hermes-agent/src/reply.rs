//! What an answer without tool calls amounts to. Pure: it looks at the answer and at how often it has been tried.

use hermes_text::strip_think;
use hermes_types::{FinishReason, Message, Role};

/// An answer, seen for what is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Tools are wanted.
    Calls,
    /// The last word, without its thinking; spaces around it stay, for it may be the end of something longer.
    Final(String),
    /// Cut off by its length while a call was being written.
    CallCutOff,
    /// Cut off by its length in the middle of its words.
    TextCutOff(String),
    /// All of its length went into thinking.
    OnlyThought,
    /// A thinking block that was never closed.
    OpenScratchpad,
    /// The provider says there is more to come.
    Unfinished,
    /// Nothing to read.
    Empty,
}

pub(crate) fn judge(message: &Message) -> Reply {
    let text = message.content.text();
    let stripped = strip_think(&text).into_owned();
    let visible = stripped.trim();
    let length = message.finish_reason == Some(FinishReason::Length);
    if has_open_scratchpad(&text) {
        return if length { Reply::OnlyThought } else { Reply::OpenScratchpad };
    }
    match (message.tool_calls.is_empty(), length) {
        (false, true) => Reply::CallCutOff,
        (false, false) => Reply::Calls,
        (true, true) if visible.is_empty() => Reply::OnlyThought,
        (true, true) => Reply::TextCutOff(stripped),
        (true, false) if message.finish_reason == Some(FinishReason::Incomplete) => Reply::Unfinished,
        (true, false) if visible.is_empty() => Reply::Empty,
        (true, false) => Reply::Final(stripped),
    }
}

/// The answer a message is, as the user reads it. Nothing, when it is not the end of a turn.
pub fn last_words(message: &Message) -> Option<String> {
    match judge(message) {
        Reply::Final(text) if message.role == Role::Assistant => Some(text.trim().to_owned()),
        _ => None,
    }
}

fn has_open_scratchpad(text: &str) -> bool {
    const OPEN: &str = "<REASONING_SCRATCHPAD>";
    const CLOSE: &str = "</REASONING_SCRATCHPAD>";
    text.matches(OPEN).count() > text.matches(CLOSE).count()
}

const PROMISES: [&str; 5] = ["i'll", "i will", "let me", "i can do that", "i can help with that"];
const DEEDS: [&str; 20] = [
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
const PLACES: [&str; 8] = ["directory", "cwd", "repo", "codebase", "project", "folder", "files", "path"];
const LONGEST_PROMISE: usize = 1_200;

/// Whether a text only announces work on the user's files instead of doing it.
pub(crate) fn only_announces(text: &str, asked: &str, since: &[Message]) -> bool {
    if since.iter().any(|message| message.role == Role::Tool) || text.chars().count() > LONGEST_PROMISE {
        return false;
    }
    let (text, asked) = (text.to_lowercase().replace('’', "'"), asked.to_lowercase());
    let has = |text: &str, words: &[&str]| words.iter().any(|word| contains_word(text, word));
    has(&text, &PROMISES)
        && has(&text, &DEEDS)
        && (has(&text, &PLACES) || has(&asked, &PLACES) || asked.contains('/'))
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
