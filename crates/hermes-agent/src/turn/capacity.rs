//! Measures how full the conversation of a turn is.
//!
//! Compresses nothing: the loop of the turn decides when, `compress/` does it.

use std::sync::Arc;

use hermes_types::{ModelError, ToolSpec};

use super::gauge::prefix_tokens;
use super::scope::TurnScope;
use crate::conversation::Conversation;

/// The room a turn has for its requests.
pub(crate) struct TurnCapacity<'a> {
    scope: &'a TurnScope<'a>,
    /// The size of a request the provider rejected as too large in this turn.
    rejected_size: Option<u64>,
}

impl<'a> TurnCapacity<'a> {
    pub(super) fn new(scope: &'a TurnScope<'a>) -> Self {
        Self { scope, rejected_size: None }
    }

    /// Returns the tools of a request, which take a part of the window.
    pub(super) fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.scope.agent.specs)
    }

    /// Returns the context window of the model, as far as it is known in this turn.
    pub(crate) fn window(&self, conversation: &Conversation) -> u64 {
        let known = self.scope.agent.window(conversation);
        self.rejected_size.map_or(known, |ceiling| ceiling.min(known))
    }

    /// Returns the size from which the conversation is compressed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "token counts are far below 2^52, the share is between 0 and 1"
    )]
    pub(crate) fn threshold(&self, conversation: &Conversation) -> u64 {
        (self.window(conversation) as f64 * self.scope.agent.compression.threshold) as u64
    }

    /// Estimates the size of the next request.
    pub(crate) fn size(&self, conversation: &Conversation) -> u64 {
        conversation.gauge.estimate(self.prefix_size(conversation), &conversation.messages)
    }

    /// Estimates the size of the part that is the same in every request.
    pub(crate) fn prefix_size(&self, conversation: &Conversation) -> u64 {
        prefix_tokens(conversation.system.as_deref().unwrap_or_default(), &self.scope.agent.specs)
    }

    /// Records what a refusal says about the context window. A number from the provider is kept; without one, the
    /// size of the refused request is the limit for this turn.
    pub(super) fn note_refusal(&mut self, conversation: &mut Conversation, error: &ModelError) {
        let window = self.window(conversation);
        match error {
            ModelError::Compress { limit: Some(limit) } => conversation.window = Some((*limit).min(window)),
            _ => self.rejected_size = Some(self.size(conversation).min(window)),
        }
    }
}
