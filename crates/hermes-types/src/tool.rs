//! What a tool looks like to the model, what it is asked, and what it answers.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, SessionId, TaskId, TurnId};
use crate::message::Message;
use crate::provenance::Provenance;
use crate::raw_json::RawJson;

/// A tool as it is described to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// A JSON schema, kept in the order it was written so that the prompt prefix never changes.
    pub parameters: RawJson,
}

/// A call that passed validation: the name is known, the arguments are an object.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInvocation {
    pub id: CallId,
    pub name: String,
    pub arguments: serde_json::Map<String, serde_json::Value>,
    pub session: SessionId,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// Whose state it works on: the conversation, or the subagent. Outlives a turn and a change of session.
    pub task: TaskId,
}

/// How a call behaves towards others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallPolicy {
    pub concurrency: Concurrency,
    /// The file it reads or writes, as the model wrote it; calls on the same path or one inside the other take turns.
    pub path: Option<String>,
    pub kind: CallKind,
    pub result_size: ResultSize,
}

/// What is done about a long result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultSize {
    /// Beyond its bound the rest is kept on disk and the model is told where.
    #[default]
    Bounded,
    /// The tool bounds it itself; keeping it on disk would only be read the same way again.
    SelfBounded,
}

/// Whether a call may run while others of the same answer run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Concurrency {
    /// The whole answer is worked off one by one.
    #[default]
    Sequential,
    /// As long as no other call has a path in its way.
    DisjointPaths,
    /// Always.
    Parallel,
}

/// What kind of work a call is to the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallKind {
    #[default]
    Regular,
    /// Keeping house (notes, lists): an answer given beside it may already be the final one.
    Housekeeping,
    /// A script that makes further calls itself; an answer with nothing else does not count against the limit.
    Script,
}

/// Something a tool with a state may want to know.
#[derive(Debug, Clone, Copy)]
pub enum ToolEvent<'a> {
    /// A conversation is taken up: state kept in earlier results can be read back.
    Resumed(&'a [Message]),
    /// The conversation was begun by another one, which it works for.
    Delegated(&'a TaskId),
    /// Older results are no longer before the model.
    Compressed,
    /// A call to this tool is about to run.
    CallStarting(&'a str),
    /// The conversation is over.
    Ended,
}

/// What the guard decided about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallVerdict {
    Allow,
    /// A person has to agree first.
    Ask(Danger),
    Deny(Danger),
}

/// Why a call is not simply run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Danger {
    /// A stable key, for allow lists.
    pub key: String,
    /// What a person reads.
    pub reason: String,
}

/// What a call came to. Failure is an answer too: it goes back to the model and never ends the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    pub content: String,
    pub status: OutcomeStatus,
    pub provenance: Provenance,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    Done,
    Failed,
    Cancelled,
    /// The process died while it ran: it may or may not have happened.
    Unknown,
}

impl OutcomeStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Done, Self::Failed, Self::Cancelled, Self::Unknown]
            .into_iter()
            .find(|status| status.as_str() == text)
    }
}

impl ToolOutcome {
    pub fn done(content: impl Into<String>) -> Self {
        Self { content: content.into(), status: OutcomeStatus::Done, provenance: Provenance::Tool }
    }

    /// A failure in the shape the model knows: `{"error": …}`.
    pub fn failed(reason: impl Into<String>) -> Self {
        let content = serde_json::json!({ "error": reason.into() }).to_string();
        Self { content, status: OutcomeStatus::Failed, provenance: Provenance::Tool }
    }
}
