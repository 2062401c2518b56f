//! What a memory service must be able to do, whoever runs it.

use std::path::PathBuf;

use hermes_types::{BoxFuture, MemoryWrite, SessionId};
use serde_json::{Map, Value};
use thiserror::Error;

/// The reason why a service did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EngineError {
    /// The service cannot be reached, is too slow, or failed; it may work later.
    #[error("{0}")]
    Failed(String),
    /// The settings or the key are wrong; the user must act.
    #[error("{0}")]
    Refused(String),
    /// The arguments of the call are wrong.
    #[error("{0}")]
    Invalid(String),
}

/// The person whose memories are meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryPerson {
    /// Platform and id of the account, for anybody but the owner of the home.
    pub account: Option<(String, String)>,
}

impl MemoryPerson {
    /// Returns a name for the person, different for each: letters, digits, `-` and `_`. `None` for the owner.
    pub fn key(&self) -> Option<String> {
        let (platform, id) = self.account.as_ref()?;
        Some(safe_name(&format!("{platform}_{id}")))
    }
}

/// Where and by whom something is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryScope {
    pub session: SessionId,
    pub folder: PathBuf,
    pub person: MemoryPerson,
    /// The name of the conversation, if the user gave it one.
    pub title: Option<String>,
}

/// Something that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenMessage {
    pub is_user: bool,
    pub text: String,
}

/// What a service says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineHealth {
    /// The address or program that answered.
    pub place: String,
}

pub type EngineResult<T> = Result<T, EngineError>;

/// A memory service. Every call may take long; [`crate::MemoryService`] limits them.
pub trait MemoryEngine: Send + Sync {
    /// Returns the name in the configuration.
    fn name(&self) -> &'static str;

    /// Returns the name people know.
    fn label(&self) -> &'static str;

    /// Returns a fixed text for the prompt.
    fn prompt_block(&self) -> Option<String> {
        None
    }

    /// Tells whether memories are recalled before turns.
    fn recalls(&self) -> bool {
        true
    }

    /// Tells whether turns are stored.
    fn stores(&self) -> bool {
        true
    }

    /// Tells whether the model gets the tools of the service.
    fn offers_tools(&self) -> bool {
        true
    }

    /// Returns memories about a text, the best first.
    fn recall<'a>(
        &'a self,
        scope: &'a MemoryScope,
        query: &'a str,
    ) -> BoxFuture<'a, EngineResult<Vec<String>>>;

    /// Stores a turn: what the person said and what was answered.
    fn store_turn<'a>(
        &'a self,
        scope: &'a MemoryScope,
        turn: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>>;

    /// Prepares what the next turn of this conversation will ask for, after a turn.
    fn prepare<'a>(&'a self, scope: &'a MemoryScope, query: &'a str) -> BoxFuture<'a, EngineResult<()>> {
        let _ = (scope, query);
        done()
    }

    /// Runs a tool of the service.
    fn call<'a>(
        &'a self,
        scope: &'a MemoryScope,
        tool: &'a str,
        arguments: &'a Map<String, Value>,
    ) -> BoxFuture<'a, EngineResult<String>>;

    /// Takes up a change of the memory files.
    fn mirror<'a>(
        &'a self,
        scope: &'a MemoryScope,
        write: &'a MemoryWrite,
    ) -> BoxFuture<'a, EngineResult<()>> {
        let _ = (scope, write);
        done()
    }

    /// Ends a conversation, with everything said in it.
    fn end_session<'a>(
        &'a self,
        scope: &'a MemoryScope,
        messages: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        let _ = (scope, messages);
        done()
    }

    /// Takes up messages that are about to be summarised.
    fn before_compression<'a>(
        &'a self,
        scope: &'a MemoryScope,
        messages: &'a [SpokenMessage],
    ) -> BoxFuture<'a, EngineResult<()>> {
        let _ = (scope, messages);
        done()
    }

    /// Reports that a session continues another one.
    fn session_continues(&self, from: &SessionId, to: &SessionId) {
        let _ = (from, to);
    }

    /// Asks the service whether it works with these settings.
    fn check(&self) -> BoxFuture<'_, EngineResult<EngineHealth>>;
}

fn done<'a>() -> BoxFuture<'a, EngineResult<()>> {
    Box::pin(std::future::ready(Ok(())))
}

/// Returns a text as an id that every service accepts: letters, digits, `-` and `_`. Texts that lose characters get a
/// sum of the whole text, so that two texts never become one name.
pub(crate) fn safe_name(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !text.is_empty() && text.len() <= 96 && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let kept: String = text.chars().take(64).map(|c| if is_plain(c) { c } else { '-' }).collect();
    format!("{}-{:016x}", kept.trim_matches('-'), fnv(text))
}

/// Returns a 64-bit sum of a text (FNV-1a).
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns a text argument of a call, or what is missing.
pub(crate) fn required<'a>(arguments: &'a Map<String, Value>, name: &str) -> EngineResult<&'a str> {
    optional(arguments, name).ok_or_else(|| EngineError::Invalid(format!("`{name}` is required")))
}

/// Returns a text argument that is not blank.
pub(crate) fn optional<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

/// Returns a number argument within bounds.
pub(crate) fn number(arguments: &Map<String, Value>, name: &str, default: u64, most: u64) -> u64 {
    let given = arguments.get(name).and_then(|value| {
        value.as_u64().or_else(|| value.as_str().and_then(|text| text.trim().parse().ok()))
    });
    given.unwrap_or(default).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_accounts_never_share_a_name() {
        let person = |platform: &str, id: &str| {
            MemoryPerson { account: Some((platform.to_owned(), id.to_owned())) }.key().unwrap()
        };
        assert_eq!(person("telegram", "42"), "telegram_42");
        assert_ne!(person("matrix", "@a:b.org"), person("matrix", "@a.b:org"));
        assert_eq!(MemoryPerson::default().key(), None);
    }
}
