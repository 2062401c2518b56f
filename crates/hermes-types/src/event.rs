//! What a running turn tells its surface, and what it asks.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, SessionId};
use crate::model::Delta;
use crate::tool::{Danger, OutcomeStatus};
use crate::usage::{Cost, Usage};

/// Something that happened in a turn. Surfaces show as much of it as suits them.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
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
        kind: NoticeKind,
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
        event: Box<Event>,
    },
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    Lifecycle,
    ContextPressure,
    Retry,
    Sandbox,
    Learning,
}

/// Something only a person can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    Approve { command: String, danger: Danger },
    Clarify { question: String, choices: Vec<String> },
    Secret { name: String, prompt: String },
}

/// The person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Approval(Approval),
    Text(String),
    Secret(crate::Secret),
    /// The question was put, and nobody answered in time.
    Silence,
    /// There is nobody to put it to, or no longer.
    Unavailable,
}

/// How far an approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    Once,
    Session,
    Always,
    Deny,
}
