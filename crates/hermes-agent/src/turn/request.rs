//! Builds the copy of a conversation that is sent to the model.
//!
//! Stored messages are never changed here: notices, recalled memories and repairs exist only in the copy.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use hermes_types::{CallId, ContentPart, FinishReason, Message, MessageContent, Role};
use serde_json::Value;

const UNAVAILABLE: &str = "[Result unavailable — see context summary above]";

/// The note added to an answer that a person interrupted.
const INTERRUPTED: &str = "[Interrupted here by the user.]";

/// Returns the finish reason that marks an interrupted answer in the transcript.
pub(crate) fn interrupted_mark() -> FinishReason {
    FinishReason::Other("interrupted".to_owned())
}

/// The additions to the copy.
pub(crate) struct RequestAdditions<'a> {
    /// Messages sent before the conversation's own, and never stored.
    pub(crate) prefill: &'a [Message],
    /// Texts for the end of a message, by its index in the conversation.
    pub(crate) notices: &'a BTreeMap<usize, String>,
    /// The input of the running turn as the model should read it, and its index.
    pub(crate) current_input: Option<(usize, &'a MessageContent)>,
    /// The memories an external memory recalled for the message at this index.
    pub(crate) recall: Option<(usize, &'a str)>,
    /// What hooks of the user added to the message at this index.
    pub(crate) hook_context: Option<(usize, &'a str)>,
}

/// Builds the messages of a request.
pub(crate) fn build_messages(messages: &[Message], additions: &RequestAdditions<'_>) -> Vec<Message> {
    let mut copies = Vec::with_capacity(messages.len() + additions.prefill.len());
    copies.extend_from_slice(additions.prefill);
    for (at, message) in messages.iter().enumerate() {
        let mut copy = message.clone();
        if let Some((_, asked)) = additions.current_input.filter(|(place, _)| *place == at)
            && message.role == Role::User
        {
            copy.content = asked.clone();
        }
        if copy.finish_reason.as_ref() == Some(&interrupted_mark()) {
            append(&mut copy.content, INTERRUPTED);
        }
        if let Some(notice) = additions.notices.get(&at) {
            copy.content = super::iteration_notice::with_notice(&copy.content, notice);
        }
        if let Some((_, text)) = additions.recall.filter(|(place, _)| *place == at) {
            append(&mut copy.content, &memory_note(text));
        }
        if let Some((_, text)) = additions.hook_context.filter(|(place, _)| *place == at) {
            append(&mut copy.content, &hook_note(text));
        }
        copies.push(copy);
    }
    repair_pairs(copies, UNAVAILABLE)
}

/// Removes the marks of a note from a text that goes into one, so that the text cannot end the note.
pub(crate) fn without_marks(text: &str) -> Cow<'_, str> {
    const MARKS: [&str; 2] = ["<memory-context>", "</memory-context>"];
    if !MARKS.iter().any(|mark| contains_ignoring_case(text, mark)) {
        return Cow::Borrowed(text);
    }
    let mut kept = text.to_owned();
    for mark in MARKS {
        while let Some(at) = position_ignoring_case(&kept, mark) {
            kept.replace_range(at..at + mark.len(), "");
        }
    }
    // What was left may form a mark again.
    Cow::Owned(without_marks(&kept).into_owned())
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    position_ignoring_case(text, part).is_some()
}

/// Finds a part made of ASCII characters.
fn position_ignoring_case(text: &str, part: &str) -> Option<usize> {
    text.as_bytes().windows(part.len()).position(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

/// Wraps a recalled memory in a note that the model cannot take for the user's words.
fn memory_note(text: &str) -> String {
    format!(
        "<memory-context>\n[System note: recalled from memory, not new words of the user.]\n{text}\n</memory-context>"
    )
}

/// Wraps what hooks added in a note that the model cannot take for the user's words.
fn hook_note(text: &str) -> String {
    format!(
        "<hook-context>\n[System note: added by a hook that the user set up, not new words of the user.]\n{text}\n\
         </hook-context>"
    )
}

fn append(content: &mut MessageContent, text: &str) {
    match content {
        MessageContent::Text(so_far) => {
            so_far.push_str("\n\n");
            so_far.push_str(text);
        }
        MessageContent::Parts(parts) => parts.push(ContentPart::Text(text.to_owned())),
    }
}

/// Ensures that every call has one answer right after it and every answer has its call.
pub(crate) fn repair_pairs(messages: Vec<Message>, missing: &str) -> Vec<Message> {
    if is_paired(&messages) {
        return messages;
    }
    let mut answers: BTreeMap<String, Message> = BTreeMap::new();
    for message in messages.iter().filter(|message| message.role == Role::Tool) {
        if let Some(id) = &message.tool_call_id {
            answers.entry(id.as_str().to_owned()).or_insert_with(|| message.clone());
        }
    }
    let mut repaired = Vec::with_capacity(messages.len());
    for message in messages.into_iter().filter(|message| message.role != Role::Tool) {
        let calls = message.tool_calls.clone();
        repaired.push(message);
        for call in calls {
            let answer = answers.remove(call.id.as_str());
            repaired.push(answer.unwrap_or_else(|| Message::tool(&call, missing)));
        }
    }
    repaired
}

/// Tells whether nothing needs repair; this usual case copies nothing.
fn is_paired(messages: &[Message]) -> bool {
    let mut open: HashSet<&CallId> = HashSet::new();
    for message in messages {
        match message.role {
            Role::Tool => {
                if !message.tool_call_id.as_ref().is_some_and(|id| open.remove(id)) {
                    return false;
                }
            }
            _ if !open.is_empty() => return false,
            _ => open.extend(message.tool_calls.iter().map(|call| &call.id)),
        }
    }
    open.is_empty()
}

/// Parses a text as a JSON object, if it is one.
pub(crate) fn parse_object(text: &str) -> Option<serde_json::Map<String, Value>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Some(map),
        _ => None,
    }
}
