//! A turn: one lease, one deadline, one budget, from the message that opened it to the reply that closes it.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::id::{InboxId, SessionId, TurnId};
use crate::usage::SpendingCap;

/// A turn as it is written down before its first model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub id: TurnId,
    pub session: SessionId,
    /// The message that opened it, when it came through the inbox.
    pub inbox: Option<InboxId>,
    pub state: TurnState,
    pub started_at: Timestamp,
    /// The wall-clock form of the deadline, for a reader after a restart.
    pub deadline_at: Option<Timestamp>,
    pub cap: SpendingCap,
    /// How often a process died while running it.
    pub cut_offs: u32,
    /// Identifies the prompt prefix this turn was built on.
    pub prefix_hash: Option<String>,
}

/// Where a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    Running,
    Done,
    Failed,
    Interrupted,
    /// Cut off too often to be tried again by itself; the user has been, or must be, told.
    Parked,
}

impl TurnState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Parked => "parked",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Done, Self::Failed, Self::Interrupted, Self::Parked]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}
