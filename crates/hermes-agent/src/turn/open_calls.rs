//! Answers the calls that an ended process left without one, so that the model can continue.
//!
//! The answer to a delegating call includes the state of its subagents, read from their own sessions.

use std::collections::BTreeMap;

use hermes_store::{DelegatedSession, NewMessage, ToolCallRecord};
use hermes_text::{head, single_line};
use hermes_types::{Message, Role, ToolCall, TurnState};

use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::error::Error;

/// The most characters reported of one subagent's text; the rest stays in its session.
const MAX_REPORT_CHARS: usize = 20_000;
const MAX_GOAL_CHARS: usize = 200;

/// Answers every open call at the end of the transcript and stores the answers.
pub(crate) async fn answer_open_calls(
    agent: &Agent,
    conversation: &mut Conversation,
    records: &[ToolCallRecord],
) -> Result<(), Error> {
    let mut missing = Vec::new();
    let known: BTreeMap<&str, &ToolCallRecord> =
        records.iter().map(|record| (record.id.as_str(), record)).collect();
    for call in open_calls(&conversation.messages) {
        let words = match known.get(call.id.as_str()) {
            Some(record) if record.asking => {
                format!("[Not run: Hermes was restarted while {} waited for the user's approval.]", call.name)
            }
            Some(record) if record.status.is_none() => {
                describe_unknown_outcome(agent, conversation, record).await?
            }
            Some(_) => {
                format!("[{} had ended, but its result was lost when Hermes was cut off.]", call.name)
            }
            None => format!("[Not started: Hermes was cut off before {} ran.]", call.name),
        };
        missing.push(Message::tool(&call, words));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let now = agent.clock.now();
    let rows = missing.iter().map(|message| NewMessage::new(message.clone(), now)).collect();
    agent.store.append_all(&conversation.session, rows).await?;
    conversation.messages.extend(missing);
    Ok(())
}

/// Answers calls that wait for a person's answer, because their turn is not resumed.
pub(crate) async fn answer_waiting_calls(
    agent: &Agent,
    conversation: &mut Conversation,
) -> Result<(), Error> {
    if open_calls(&conversation.messages).is_empty() {
        return Ok(());
    }
    answer_open_calls(agent, conversation, &[]).await
}

/// Describes a call that was started and has no recorded outcome.
async fn describe_unknown_outcome(
    agent: &Agent,
    conversation: &Conversation,
    record: &ToolCallRecord,
) -> Result<String, Error> {
    let mut words = format!(
        "[Outcome unknown: Hermes was cut off while {} ran. It may or may not have taken effect; check before you repeat it.]",
        record.name
    );
    let parts = agent.store.delegated_sessions(&conversation.session, record.started_at).await?;
    if !parts.is_empty() {
        words.push_str("\n\nThe subagents it had started:");
    }
    for part in parts {
        words.push_str("\n\n");
        words.push_str(&describe_subagent(agent, &part).await?);
    }
    Ok(words)
}

/// Describes how far a subagent got.
async fn describe_subagent(agent: &Agent, part: &DelegatedSession) -> Result<String, Error> {
    let messages = agent.store.transcript(&part.session).await?;
    let text = |role: Role| {
        let mut found = messages.iter().filter(|stored| stored.message.role == role);
        let chosen = if role == Role::User { found.next() } else { found.next_back() };
        chosen.map(|stored| stored.message.content.text().trim().to_owned()).unwrap_or_default()
    };
    let goal = single_line(&text(Role::User));
    let goal = head(&goal, MAX_GOAL_CHARS);
    let (answer, session) = (text(Role::Assistant), &part.session);
    Ok(match part.state {
        Some(TurnState::Done) if !answer.is_empty() => {
            format!(
                "- \"{goal}\" had finished (session {session}). It said:\n{}",
                head(&answer, MAX_REPORT_CHARS)
            )
        }
        Some(TurnState::Done | TurnState::Failed | TurnState::Interrupted) => {
            format!("- \"{goal}\" had ended without an answer (session {session}).")
        }
        Some(TurnState::Running | TurnState::Parked) | None => {
            format!("- \"{goal}\" was cut off before it finished (session {session}).")
        }
    })
}

/// Tells whether the open calls can run when the turn is resumed: a person was being asked about one of them, and
/// none has done anything.
pub(crate) fn can_ask_again(messages: &[Message], records: &[ToolCallRecord]) -> bool {
    let open = open_calls(messages);
    let record = |call: &ToolCall| records.iter().find(|record| record.id == call.id);
    open.iter().any(|call| record(call).is_some_and(|record| record.asking))
        && open.iter().all(|call| record(call).is_none_or(|record| record.asking))
}

/// Returns the calls of the last answer that have no result.
pub(crate) fn open_calls(messages: &[Message]) -> Vec<ToolCall> {
    let Some(at) = messages.iter().rposition(|message| message.role == Role::Assistant) else {
        return Vec::new();
    };
    let (last, after) = messages.split_at(at + 1);
    let is_open = |call: &&ToolCall| {
        !after
            .iter()
            .any(|message| message.role == Role::Tool && message.tool_call_id.as_ref() == Some(&call.id))
    };
    let calls = last.last().map(|message| message.tool_calls.as_slice()).unwrap_or_default();
    calls.iter().filter(is_open).cloned().collect()
}
