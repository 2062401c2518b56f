//! A turn: one lease, one deadline and one budget, from the message that opens it to the reply that closes it.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::id::{InboxId, SessionId, TurnId};
use crate::usage::SpendingCap;

/// A turn as it is recorded before its first model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub id: TurnId,
    pub session: SessionId,
    /// The message that opened the turn, when it came through the inbox.
    pub inbox: Option<InboxId>,
    pub state: TurnState,
    pub started_at: Timestamp,
    /// The deadline on the wall clock, for the process that reads it after a restart.
    pub deadline_at: Option<Timestamp>,
    pub cap: SpendingCap,
    /// The number of times a process died while running the turn.
    pub cut_offs: u32,
}

/// The state of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    Running,
    Done,
    Failed,
    Interrupted,
    /// The turn was cut off too often to be retried automatically; the user has been notified or must be.
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
