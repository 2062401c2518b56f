//! The events a running turn sends to its frontend, and the questions it asks there.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, SessionId};
use crate::model::Delta;
use crate::tool::{Danger, OutcomeStatus};
use crate::tool_descriptor::ToolDisplay;
use crate::usage::{Cost, Usage};

/// An event in a turn. Each frontend shows as much of it as suits it.
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
    /// The text so far is complete; tool calls follow.
    SegmentEnded,
    ToolStarted {
        id: CallId,
        name: String,
        /// The most informative argument, for display.
        preview: String,
        /// All arguments, as the model wrote them.
        arguments: String,
        display: ToolDisplay,
    },
    ToolEnded {
        id: CallId,
        name: String,
        status: OutcomeStatus,
        /// The result, up to the length the model reads directly.
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
    /// An event in a subagent's turn.
    Child {
        /// The subagent's label for display.
        label: String,
        event: Box<TurnEvent>,
    },
}

/// The subject of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnNoticeKind {
    Lifecycle,
    ContextPressure,
    Retry,
    Sandbox,
    Learning,
    /// How far a long call has come.
    Progress,
}

/// A question only a person can answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserQuestion {
    Approve { command: String, danger: Danger },
    Clarify { question: String, choices: Vec<String> },
    Secret { name: String, prompt: String },
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserAnswer {
    Approval(ApprovalDecision),
    Text(String),
    Secret(crate::Secret),
    /// The question was shown, and no one answered in time.
    TimedOut,
    /// There is no person to ask, or no longer one.
    Unavailable,
}

/// The scope of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    Once,
    Session,
    Always,
    Deny,
}
