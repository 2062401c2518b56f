//! What a compression would do, told before it is done.

use super::cut;
use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::turn::gauge::message_tokens;

/// What a compression of a conversation would do. The numbers are estimates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompressionPreview {
    pub messages: usize,
    pub tokens: u64,
    /// The messages that a summary would replace, and their tokens.
    pub summarized: usize,
    pub summarized_tokens: u64,
}

impl Agent {
    /// Describes what compressing a conversation would do. Asks no model and changes nothing.
    pub fn preview_compression(&self, conversation: &Conversation) -> CompressionPreview {
        let settings = self.compression;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "token counts are far below 2^52, the shares are between 0 and 1"
        )]
        let tail = (self.window(conversation) as f64 * settings.threshold * settings.target_ratio) as u64;
        let messages = &conversation.messages;
        let (first, last) = (settings.protect_first, settings.protect_last);
        let middle = cut::range_to_summarize(messages, first, last, tail).unwrap_or_default();
        let count = |range: &[hermes_types::Message]| range.iter().map(message_tokens).sum();
        CompressionPreview {
            messages: messages.len(),
            tokens: count(messages),
            summarized: middle.len(),
            summarized_tokens: count(messages.get(middle).unwrap_or_default()),
        }
    }
}
