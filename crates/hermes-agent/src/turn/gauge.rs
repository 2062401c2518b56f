//! Tracks how full the context window is: as measured by the provider where it reports usage, estimated for later
//! messages.

use hermes_text::estimate_tokens;
use hermes_types::{ContentPart, Message, MessageContent, ToolSpec, Usage};

/// The tokens every message costs beside its text.
const PER_MESSAGE: u64 = 10;
/// The approximate tokens of an image, whatever its size in bytes.
const PER_PICTURE: u64 = 1_500;

/// Tracks a conversation's size.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gauge {
    /// The tokens of the last request and its answer, and the number of messages they covered.
    measured: Option<(u64, usize)>,
}

impl Gauge {
    /// Records the usage of a request with this many messages; the reply will be the next message.
    pub(crate) fn measure(&mut self, usage: Usage, messages: usize) {
        if usage.total() > 0 {
            self.measured = Some((usage.total(), messages + 1));
        }
    }

    /// Estimates the size of the next request.
    pub(crate) fn estimate(&self, prefix: u64, messages: &[Message]) -> u64 {
        match self.measured {
            Some((tokens, covered)) => {
                tokens.saturating_add(messages.iter().skip(covered).map(message_tokens).sum())
            }
            None => prefix.saturating_add(messages.iter().map(message_tokens).sum()),
        }
    }
}

/// Estimates the tokens of the part that is the same in every request.
pub(crate) fn prefix_tokens(system: &str, tools: &[ToolSpec]) -> u64 {
    let tools: u64 = tools.iter().map(tool_tokens).sum();
    estimate_tokens(system).saturating_add(tools)
}

pub fn tool_tokens(tool: &ToolSpec) -> u64 {
    let words = estimate_tokens(&tool.name) + estimate_tokens(&tool.description);
    words.saturating_add(estimate_tokens(tool.parameters.as_str())).saturating_add(PER_MESSAGE)
}

pub fn message_tokens(message: &Message) -> u64 {
    let content = match &message.content {
        MessageContent::Text(text) => estimate_tokens(text),
        MessageContent::Parts(parts) => parts.iter().map(part_tokens).sum(),
    };
    let calls: u64 = message
        .tool_calls
        .iter()
        .map(|call| estimate_tokens(&call.arguments) + estimate_tokens(&call.name) + PER_MESSAGE)
        .sum();
    let thought = message.reasoning.as_deref().map_or(0, estimate_tokens);
    content.saturating_add(calls).saturating_add(thought).saturating_add(PER_MESSAGE)
}

fn part_tokens(part: &ContentPart) -> u64 {
    match part {
        ContentPart::Text(text) => estimate_tokens(text),
        ContentPart::Image { .. } => PER_PICTURE,
        ContentPart::Other(raw) => estimate_tokens(raw.as_str()).min(PER_PICTURE),
    }
}
