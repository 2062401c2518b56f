//! Ids as newtypes, in the formats that existing databases and logs contain.

use std::fmt::{self, Write as _};
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::civil_time::CivilTime;

macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
    )*};
}

macro_rules! row_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    )*};
}

text_ids! {
    /// The id of a session: `YYYYMMDD_HHMMSS_` plus 6 hex digits (CLI, library) or 8 (gateway); cron ids start
    /// with `cron_`.
    SessionId;
    /// The id of a tool call, unique within its conversation.
    CallId;
    /// The id that isolates terminal and browser state between concurrent pieces of work.
    TaskId;
    /// The id of a turn, which has one lease, one deadline and one budget.
    TurnId;
    /// The id of the holder of a lease, which is one running process.
    HolderId;
}

row_ids! {
    /// The id of a stored message; ids increase in the order of the messages.
    MessageId;
    /// The id of a message received from outside and not yet answered.
    InboxId;
    /// The id of a reply to be sent.
    OutboxId;
    /// The id of a run of a job at one scheduled time.
    JobRunId;
}

/// The kind of program a new session id is for; it decides the length of the random suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    Local,
    Gateway,
}

impl SessionId {
    pub fn generate(kind: SessionKind, at: CivilTime) -> Self {
        let CivilTime { year, month, day, hour, minute, second } = at;
        let tail = random_hex(match kind {
            SessionKind::Local => 6,
            SessionKind::Gateway => 8,
        });
        Self(format!("{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}_{tail}"))
    }
}

impl CallId {
    /// Generates an id for a call whose provider gave none.
    pub fn generate() -> Self {
        Self(format!("call_{}", random_hex(12)))
    }
}

impl TaskId {
    pub fn generate() -> Self {
        Self(random_uuid())
    }
}

impl TurnId {
    pub fn generate() -> Self {
        Self(random_uuid())
    }
}

impl HolderId {
    pub fn generate() -> Self {
        Self(format!("{}{}", Self::process_prefix(), random_hex(12)))
    }

    /// Returns the prefix of the ids of every holder in this process. A later process with the same process id
    /// gets another prefix.
    pub fn process_prefix() -> &'static str {
        static PREFIX: OnceLock<String> = OnceLock::new();
        PREFIX.get_or_init(|| format!("{}-{}-", std::process::id(), random_hex(8)))
    }
}

/// Returns hex digits that are unlikely to repeat. They are good for ids, not for secrets: the source is the
/// standard library's hash seed.
pub fn random_hex(digits: usize) -> String {
    let mut text = String::with_capacity(digits + 16);
    while text.len() < digits {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{:016x}", RandomState::new().hash_one(0_u8));
    }
    text.truncate(digits);
    text
}

fn random_uuid() -> String {
    let hex = random_hex(32);
    let mut text = String::with_capacity(36);
    for (at, digit) in hex.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(match at {
            12 => '4',
            16 => '8',
            _ => digit,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: CivilTime = CivilTime { year: 2026, month: 3, day: 5, hour: 9, minute: 15, second: 7 };

    #[test]
    fn session_ids_have_the_shape_of_their_surface() {
        let local = SessionId::generate(SessionKind::Local, NOON);
        let gateway = SessionId::generate(SessionKind::Gateway, NOON);
        assert!(local.as_str().starts_with("20260305_091507_"));
        assert_eq!(local.as_str().len(), "20260305_091507_".len() + 6);
        assert_eq!(gateway.as_str().len(), "20260305_091507_".len() + 8);
    }

    #[test]
    fn generated_ids_do_not_repeat() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| CallId::generate()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.as_str().len() == "call_".len() + 12));
    }

    #[test]
    fn task_ids_are_uuids() {
        let id = TaskId::generate();
        let lengths: Vec<_> = id.as_str().split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }
}
