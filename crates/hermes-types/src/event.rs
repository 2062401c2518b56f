//! What a running turn tells its surface, and what it asks.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, SessionId};
use crate::model::Delta;
use crate::tool::{Danger, OutcomeStatus};
use crate::usage::{Cost, Usage};

/// Something that happened in a turn. Surfaces show as much of it as suits them.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEvent {
    TurnStarted {
        session: SessionId,
    },
    Step {
        iteration: u32,
        previous_tools: Vec<String>,
    },
    Delta(Delta),
    /// The text so far is complete; tools come next.
    SegmentEnded,
    ToolStarted {
        id: CallId,
        name: String,
        /// The argument that says most about it.
        preview: String,
        /// All of them, as the model wrote them.
        arguments: String,
    },
    ToolEnded {
        id: CallId,
        name: String,
        status: OutcomeStatus,
        /// What it came to, as far as the model may read it at once.
        result: String,
    },
    Notice {
        kind: TurnNoticeKind,
        text: String,
    },
    Spent {
        usage: Usage,
        cost: Cost,
    },
    TurnEnded {
        session: SessionId,
    },
    /// Something that happened in a subagent's turn.
    Child {
        /// Which one, for people.
        label: String,
        event: Box<TurnEvent>,
    },
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnNoticeKind {
    Lifecycle,
    ContextPressure,
    Retry,
    Sandbox,
    Learning,
}

/// Something only a person can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserQuestion {
    Approve { command: String, danger: Danger },
    Clarify { question: String, choices: Vec<String> },
    Secret { name: String, prompt: String },
}

/// The person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAnswer {
    Approval(ApprovalDecision),
    Text(String),
    Secret(crate::Secret),
    /// The question was put, and nobody answered in time.
    TimedOut,
    /// There is nobody to put it to, or no longer.
    Unavailable,
}

/// How far an approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    Once,
    Session,
    Always,
    Deny,
}
