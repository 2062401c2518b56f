//! `/undo` and `/retry`: take back the last exchanges.

use hermes_agent::{Agent, Conversation, Error};
use hermes_text::{head, single_line};

use super::ConversationReply;

pub(super) const NOTHING_TO_UNDO: &str = "Nothing to undo.";
pub(super) const NOTHING_TO_RETRY: &str = "No previous message to retry.";
/// The most characters of a message that are shown.
const MAX_SHOWN: usize = 40;

/// Takes back the last exchange, or as many as the argument says.
pub async fn undo(
    agent: &Agent,
    conversation: &mut Conversation,
    arguments: &str,
) -> Result<ConversationReply, Error> {
    let count = if arguments.is_empty() { Some(1) } else { arguments.parse::<usize>().ok() };
    let Some(count) = count else { return Ok(ConversationReply::plain("Usage: /undo [N]")) };
    let before = conversation.messages().len();
    let mut first = None;
    for _ in 0..count {
        match agent.undo_last_exchange(conversation).await? {
            Some(text) => first = Some(text),
            None => break,
        }
    }
    let Some(first) = first else { return Ok(ConversationReply::plain(NOTHING_TO_UNDO)) };
    let removed = before - conversation.messages().len();
    let line = single_line(&first);
    let more = if line.chars().count() > MAX_SHOWN { "..." } else { "" };
    let shown = head(&line, MAX_SHOWN);
    Ok(ConversationReply::plain(format!("↩️ Undid {removed} message(s).\nRemoved: \"{shown}{more}\"")))
}

/// Takes back the last exchange and asks again.
pub async fn retry(agent: &Agent, conversation: &mut Conversation) -> Result<ConversationReply, Error> {
    Ok(match agent.undo_last_exchange(conversation).await? {
        Some(question) => ConversationReply::Ask(question),
        None => ConversationReply::plain(NOTHING_TO_RETRY),
    })
}
