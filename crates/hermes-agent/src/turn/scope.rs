//! The scope of a turn: the agent that runs it, its ids, and how it is shown, limited and stopped.
//!
//! Holds nothing that changes while the turn runs; the parts of a running turn share it.

use hermes_types::{Cancel, Deadline, Frontend, TurnEvent, TurnId, TurnNoticeKind};

use crate::agent::Agent;
use crate::conversation::Conversation;

/// What stays the same during a turn.
pub(crate) struct TurnScope<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) turn: TurnId,
    /// The turn a person started: this one, or the one it is a part of.
    pub(crate) root: TurnId,
    pub(crate) deadline: Deadline,
    pub(crate) cancel: &'a Cancel,
    pub(crate) frontend: &'a dyn Frontend,
}

impl<'a> TurnScope<'a> {
    /// Begins a turn's time limit.
    pub(super) fn new(
        agent: &'a Agent,
        conversation: &Conversation,
        turn: TurnId,
        frontend: &'a dyn Frontend,
        cancel: &'a Cancel,
    ) -> Self {
        Self {
            agent,
            root: conversation.root.clone().unwrap_or_else(|| turn.clone()),
            turn,
            deadline: Deadline::after(&*agent.clock, agent.limits.time),
            cancel,
            frontend,
        }
    }

    /// Shows the user a notice about the turn itself.
    pub(crate) fn show_notice(&self, text: String) {
        self.frontend.show(TurnEvent::Notice { kind: TurnNoticeKind::Lifecycle, text });
    }
}
