//! `/title`: shows or sets the name of a conversation.

use hermes_store::{Error, NewSession, Store};
use hermes_text::Title;
use hermes_types::{SessionId, Timestamp};

use super::ConversationReply;

/// Shows the name of a session, or gives it one. A session without messages gets its row now.
pub async fn title(
    store: &Store,
    session: &SessionId,
    source: &str,
    name: &str,
    now: Timestamp,
) -> Result<ConversationReply, Error> {
    if name.is_empty() {
        let title = store.session(session).await?.and_then(|row| row.title);
        return Ok(match title {
            Some(title) => ConversationReply::emphasized(format!("📌 Session: **{title}**")),
            None => {
                ConversationReply::plain("This conversation has no name yet. `/title NAME` gives it one.")
            }
        });
    }
    let title = match Title::sanitise(name) {
        Ok(Some(title)) => title,
        Ok(None) => return Ok(ConversationReply::plain("A name needs at least one visible character.")),
        Err(error) => return Ok(ConversationReply::plain(error.to_string())),
    };
    if store.session(session).await?.is_none() {
        store.create_session(NewSession::new(session.clone(), source, now)).await?;
    }
    Ok(match store.set_title(session, Some(title.clone())).await {
        Ok(()) => ConversationReply::emphasized(format!("✏️ Session title set: **{}**", title.as_str())),
        Err(error) => ConversationReply::plain(error.to_string()),
    })
}
