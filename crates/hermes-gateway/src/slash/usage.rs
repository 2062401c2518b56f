//! `/usage`: shows what a conversation has used.

use hermes_store::{Error, Store};
use hermes_text::with_commas;
use hermes_types::SessionId;

use super::ConversationReply;

pub(super) const NOTHING_USED: &str = "Nothing was used yet in this conversation.";

/// Shows the tokens and the cost of a session.
pub async fn usage(store: &Store, session: &SessionId) -> Result<ConversationReply, Error> {
    let Some(stored) = store.session(session).await? else {
        return Ok(ConversationReply::plain(NOTHING_USED));
    };
    let usage = stored.usage;
    let cost = match (stored.estimated_cost_usd, stored.cost_status.as_deref()) {
        (Some(dollars), Some("unknown")) => {
            format!("${dollars:.4} and more: the price of some calls is not known")
        }
        (Some(dollars), status) => format!("${dollars:.4} ({})", status.unwrap_or("estimated")),
        (None, _) => "not known: there is no price for this model".to_owned(),
    };
    Ok(ConversationReply::emphasized(format!(
        "📊 **Session Token Usage**\nInput: {}\nOutput: {}\nCache read: {}\nTotal: {}\nMessages: {}\nCost: {cost}",
        with_commas(usage.input),
        with_commas(usage.output),
        with_commas(usage.cache_read),
        with_commas(usage.total()),
        stored.message_count
    )))
}
