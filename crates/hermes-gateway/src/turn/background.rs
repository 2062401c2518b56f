//! Background work in a session of its own: `/background`.
//!
//! The work is a message like any other: a row of the inbox under its own key, stored with the answer to the
//! command. If the process ends, the row stays, and the next process continues with it.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::{
    Error as AgentError, NO_RESPONSE, TurnEnding, TurnInput, TurnOutcome, TurnRequest, TurnResult, TurnWork,
};
use hermes_store::{FollowUpWork, InboxCloseReason, Store, WaitingMessage};
use hermes_text::{head, single_line};
use hermes_types::{
    Cancel, ChatPart, Clock, Envelope, SessionId, SessionKind, TaskId, Timestamp, TurnId, TurnState,
};

use super::run::{parked_message, undelivered_reply};
use crate::chat_agents::ChatAgents;
use crate::deliver::{Outbox, ReplyTarget};
use crate::inbox::Inbox;
use crate::silent_frontend::SilentFrontend;

const PREFIX: &str = "background:";
const PAUSE: Duration = Duration::from_secs(5);

/// Tells whether a conversation is background work.
pub(crate) fn is_background(conversation: &str) -> bool {
    conversation.starts_with(PREFIX)
}

/// Creates the message that represents the work.
pub(crate) fn background_message(from: &Envelope, prompt: &str, id: &str, now: Timestamp) -> FollowUpWork {
    let envelope = Envelope {
        platform_key: format!("{PREFIX}{id}"),
        parts: vec![ChatPart::Text { text: prompt.to_owned() }],
        quiet_ms: 0,
        received_at: now,
        ..from.clone()
    };
    FollowUpWork { conversation: format!("{PREFIX}{id}"), envelope }
}

/// Shortens a prompt for a line that mentions it.
pub(crate) fn shortened(prompt: &str) -> String {
    let line = single_line(prompt);
    let more = if line.chars().count() > 60 { "..." } else { "" };
    format!("{}{more}", head(&line, 60))
}

/// Runs background work.
pub(super) struct BackgroundTurns {
    store: Store,
    clock: Arc<dyn Clock>,
    agents: ChatAgents,
    inbox: Inbox,
    outbox: Outbox,
}

impl BackgroundTurns {
    pub(super) fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        agents: ChatAgents,
        inbox: Inbox,
        outbox: Outbox,
    ) -> Self {
        Self { store, clock, agents, inbox, outbox }
    }

    /// Runs or resumes the work and reports its result.
    pub(super) async fn run(&self, row: &WaitingMessage) {
        let prompt = row.envelope.text();
        let id = row.conversation.trim_start_matches(PREFIX);
        let text = loop {
            match self.try_run(row, &prompt, id).await {
                Ok(Ok(answer)) => {
                    break format!(
                        "✅ Background task complete\nPrompt: \"{}\"\n\n{answer}",
                        shortened(&prompt)
                    );
                }
                Ok(Err(error)) => break format!("❌ Background task {id} failed: {error}"),
                Err(error) => {
                    tracing::error!(%error, id, "a background task could not be worked on; trying again");
                    self.clock.sleep(PAUSE).await;
                }
            }
        };
        let replies = self.outbox.plan(ReplyTarget::of(&row.envelope), &text, id);
        let rows = std::slice::from_ref(row);
        if let Err(error) = self.inbox.close(rows, InboxCloseReason::Done, replies).await {
            tracing::error!(%error, id, "the answer of a background task could not be written down; it will be made again");
        }
    }

    /// Returns the answer, or why there is none. The outer error is worth a retry.
    async fn try_run(
        &self,
        row: &WaitingMessage,
        prompt: &str,
        id: &str,
    ) -> Result<Result<String, String>, AgentError> {
        let envelope = &row.envelope;
        let agent = match self.agents.background_agent(envelope) {
            Ok(agent) => agent,
            Err(reason) => return Ok(Err(reason)),
        };
        let task = TaskId::new(row.conversation.clone());
        let begun = match &row.turn {
            Some(turn) => self.store.turn(turn).await?,
            None => None,
        };
        let (mut conversation, work) = match begun {
            Some(turn) if turn.state == TurnState::Running => {
                let taken = agent.load_conversation_as(&turn.session, task).await?;
                let Some(cut_off) = taken.unfinished_turn else {
                    return Ok(Err("it was ended by another process".to_owned()));
                };
                (taken.conversation, TurnWork::Resume(cut_off))
            }
            Some(turn) => {
                let reply = undelivered_reply(&agent, &turn).await?;
                return Ok(reply.ok_or_else(|| "it was stopped".to_owned()));
            }
            None => {
                let begun = agent
                    .new_conversation_with_id(
                        SessionId::new(id),
                        envelope.platform.clone(),
                        SessionKind::Gateway,
                    )
                    .with_task(task)
                    .with_user(envelope.sender.user_id.clone());
                let input = Box::new(TurnInput { inbox_rows: vec![row.id], ..TurnInput::text(prompt) });
                (begun, TurnWork::Begin { id: TurnId::generate(), input })
            }
        };
        let cancel = Cancel::new();
        let request = TurnRequest { work, frontend: &SilentFrontend, cancel: &cancel, grace: None };
        Ok(match agent.drive(&mut conversation, request).await? {
            TurnOutcome::Ended(result) => answer(&result),
            TurnOutcome::Abandoned => Err("it did not stop when told to".to_owned()),
            TurnOutcome::Parked(cut_off) => Err(parked_message(&cut_off)),
        })
    }
}

fn answer(result: &TurnResult) -> Result<String, String> {
    match result.ending() {
        TurnEnding::Answered(text)
        | TurnEnding::CutShort(text)
        | TurnEnding::Interrupted { text: Some(text) } => Ok(text.to_owned()),
        TurnEnding::Failed { text: Some(text), reason, .. } => {
            Err(format!("{}\n\n{text}", reason.unwrap_or(NO_RESPONSE)))
        }
        TurnEnding::Silent { reason } | TurnEnding::Failed { reason, .. } => {
            reason.map_or_else(|| Ok(NO_RESPONSE.to_owned()), |reason| Err(reason.to_owned()))
        }
        TurnEnding::Interrupted { text: None } => Err("it was stopped".to_owned()),
    }
}
