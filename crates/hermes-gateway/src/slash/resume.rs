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
    let found = match owner {
        SessionOwner::Anybody => store.resolve(name).await?,
        SessionOwner::Person { platform, user } => store.resolve_of(name, platform, user).await?,
    };
    Ok(found.ok_or_else(|| format!("No session named '{name}' was found. /resume lists them.")))
}
