//! `/branch`: continues in a copy of the conversation.

use hermes_agent::{Agent, Conversation, Error};
use hermes_text::Title;

use super::ConversationReply;

pub(super) const NOTHING_TO_BRANCH: &str = "There is nothing to branch from yet.";

/// Puts a copy in the place of the conversation, with a title if one is given. Returns nothing but the reply if there is nothing
/// to copy; the original stays under its own name.
pub async fn branch(
    agent: &Agent,
    conversation: &mut Conversation,
    name: &str,
) -> Result<ConversationReply, Error> {
    if conversation.messages().is_empty() {
        return Ok(ConversationReply::plain(NOTHING_TO_BRANCH));
    }
    let title = match Title::sanitise(name) {
        Ok(title) => title,
        Err(error) => return Ok(ConversationReply::plain(error.to_string())),
    };
    let copy = agent.branch_conversation(conversation, None).await?;
    let original = std::mem::replace(conversation, copy);
    let unnamed = match title {
        Some(title) => agent.store().set_title(conversation.session(), Some(title)).await.err(),
        None => None,
    };
    let more = unnamed.map_or_else(String::new, |error| format!("\nIt has no title: {error}"));
    Ok(ConversationReply::plain(format!(
        "⑂ Branched: this is session {} now. `/resume {}` goes back.{more}",
        conversation.session(),
        original.session()
    )))
}
