//! The content of an answer so far, and which of it has been emitted as deltas.

use hermes_text::{ScrubbedText, ThinkScrubber, extract_inline_reasoning};
use hermes_types::{Delta, Message};

/// The content of an answer as it grows. Inline reasoning stays in the content but is not emitted; after a tool
/// call has begun no more text is emitted.
#[derive(Debug, Default)]
pub(super) struct AnswerText {
    content: String,
    scrubber: ThinkScrubber,
    calling: bool,
}

impl AnswerText {
    pub(super) fn push(&mut self, text: &str, out: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        self.content.push_str(text);
        if !self.calling {
            emit(self.scrubber.feed(text), out);
        }
    }

    /// Separates two pieces of text that arrived as separate blocks.
    pub(super) fn break_line(&mut self, out: &mut Vec<Delta>) {
        if !self.content.is_empty() {
            self.push("\n", out);
        }
    }

    pub(super) fn start_call(&mut self, name: &str, out: &mut Vec<Delta>) {
        self.flush(out);
        self.calling = true;
        out.push(Delta::ToolStarted { name: name.to_owned() });
    }

    /// Emits the text that was held back, at the end of the answer.
    pub(super) fn flush(&mut self, out: &mut Vec<Delta>) {
        if !self.calling {
            emit(self.scrubber.finish(), out);
        }
    }

    pub(super) fn content(&self) -> &str {
        &self.content
    }

    /// Returns the message; inline reasoning is used only when there was no other.
    pub(super) fn into_message(self, reasoning: Option<String>) -> Message {
        message(self.content, reasoning)
    }
}

pub(super) fn message(content: String, reasoning: Option<String>) -> Message {
    let reasoning = reasoning.filter(|text| !text.is_empty()).or_else(|| extract_inline_reasoning(&content));
    let mut message = Message::assistant(content);
    message.reasoning = reasoning;
    message
}

fn emit(scrubbed: ScrubbedText, out: &mut Vec<Delta>) {
    if !scrubbed.reasoning.is_empty() {
        out.push(Delta::Reasoning(scrubbed.reasoning));
    }
    if !scrubbed.visible.is_empty() {
        out.push(Delta::Text(scrubbed.visible));
    }
}
