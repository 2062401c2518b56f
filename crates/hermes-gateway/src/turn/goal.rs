//! The goal of a conversation between two of its turns.
//!
//! What is due is a row of the inbox, stored in the same step as the answer of the turn before. If the process ends, the row
//! stays, and the next process goes on with the goal. A waiting message of a person comes first.

use std::sync::Arc;

use hermes_agent::{Agent, GoalStep, Goals, TurnEnding, TurnResult};
use hermes_store::{Error as StoreError, FollowUpWork, WaitingMessage};
use hermes_types::{Cancel, ChatPart, Envelope, Timestamp};

use crate::active_conversations::{ActiveConversations, StopReason};
use crate::chat_agents::ChatAgents;
use crate::chat_sessions::ChatSessions;

const PREFIX: &str = "goal:";

/// Tells whether a row stands for the next step of a goal, and not for a message of a person.
pub(crate) fn is_goal_step(row: &WaitingMessage) -> bool {
    row.envelope.platform_key.starts_with(PREFIX)
}

/// Creates the row that stands for the next step of a goal. `id` is unique for the step.
pub(crate) fn goal_step(from: &Envelope, conversation: &str, id: &str, now: Timestamp) -> FollowUpWork {
    let envelope = Envelope {
        platform_key: format!("{PREFIX}{id}"),
        parts: vec![ChatPart::Text { text: String::new() }],
        message_id: None,
        reply_to: None,
        reply_to_text: None,
        quiet_ms: 0,
        received_at: now,
        ..from.clone()
    };
    FollowUpWork { conversation: conversation.to_owned(), envelope }
}

/// What a turn came to for the goal of its conversation.
pub(super) enum GoalOutcome {
    /// No goal is active, or a message of a person comes first.
    Nothing,
    /// The next step is due.
    GoesOn,
    /// The goal is paused; the text is for the user.
    Paused(String),
}

/// Decides what the end of a turn means for the goal of its conversation.
pub(super) async fn after_turn(
    agent: &Agent,
    result: &TurnResult,
    stopped: Option<StopReason>,
) -> Result<GoalOutcome, StoreError> {
    let goals = Goals::new(agent);
    if !goals.is_active(&result.session).await? {
        return Ok(GoalOutcome::Nothing);
    }
    let reason = match result.ending() {
        TurnEnding::Answered(_) | TurnEnding::CutShort(_) => return Ok(GoalOutcome::GoesOn),
        TurnEnding::Interrupted { .. } if stopped == Some(StopReason::NewMessage) => {
            return Ok(GoalOutcome::Nothing);
        }
        TurnEnding::Interrupted { .. } => "it was stopped",
        TurnEnding::Silent { .. } | TurnEnding::Failed { .. } => "the last turn failed",
    };
    Ok(goals.pause(&result.session, reason).await?.map_or(GoalOutcome::Nothing, GoalOutcome::Paused))
}

/// Finds out what the next step of a chat's goal is.
pub(super) struct GoalSteps {
    pub(super) agents: ChatAgents,
    pub(super) sessions: Arc<ChatSessions>,
    pub(super) conversations: Arc<ActiveConversations>,
}

impl GoalSteps {
    /// Returns the next step, or why there is none. While the goal is checked, `/stop` ends the check.
    pub(super) async fn next(
        &self,
        key: &str,
        row: &WaitingMessage,
    ) -> Result<GoalStep, hermes_agent::Error> {
        let agent = match self.agents.agent_for(&row.envelope) {
            Ok(agent) => agent,
            Err(reason) => return Ok(GoalStep::Ended(reason)),
        };
        let opened = self.sessions.open(&agent, key, &row.envelope).await?;
        let cancel = Cancel::new();
        self.conversations.start_turn(key, cancel.clone(), None);
        let goals = Goals::new(&agent);
        let step = goals.next_step(&opened.conversation, &cancel).await;
        match self.conversations.end_turn(key) {
            Some(StopReason::UserRequest) => {
                let paused = goals.pause(opened.conversation.session(), "it was stopped").await?;
                Ok(paused.map_or(GoalStep::Nothing, GoalStep::Ended))
            }
            // The turn of that message has the goal looked at again.
            Some(StopReason::NewMessage) => Ok(GoalStep::Nothing),
            None => Ok(step?),
        }
    }
}
