//! `/resume`: finds the session that a name or an id means.

use hermes_store::{Error, Store};
use hermes_types::SessionId;

/// Says whose sessions may be resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionOwner<'a> {
    Anybody,
    /// A person on a platform, who must not read another person's conversation.
    Person {
        platform: &'a str,
        user: Option<&'a str>,
    },
}

/// Returns the session, or a message for the user that says that there is none.
pub async fn find_session(
    store: &Store,
    name: &str,
    owner: SessionOwner<'_>,
) -> Result<Result<SessionId, String>, Error> {
    let none = || Err(format!("No session named '{name}' was found. /resume lists them."));
    let Some(session) = store.resolve(name).await? else { return Ok(none()) };
    let is_allowed = match owner {
        SessionOwner::Anybody => true,
        SessionOwner::Person { platform, user } => store
            .session(&session)
            .await?
            .is_some_and(|stored| stored.source == platform && stored.user_id.as_deref() == user),
    };
    Ok(if is_allowed { Ok(session) } else { none() })
}
