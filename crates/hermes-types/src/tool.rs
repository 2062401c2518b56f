//! The description of a tool for the model, the calls to it, and their outcomes.

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
    /// The JSON schema of the arguments, kept in the order it was written so that the prompt prefix never changes.
    pub parameters: RawJson,
}

/// A call that passed validation: the tool is known and the arguments are an object.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInvocation {
    pub id: CallId,
    pub name: String,
    pub arguments: serde_json::Map<String, serde_json::Value>,
    pub session: SessionId,
    /// The turn the call belongs to.
    pub turn: TurnId,
    /// The task whose state the call works on: the conversation or the subagent. It outlives a turn and a change
    /// of session.
    pub task: TaskId,
}

/// The rules under which a call runs beside others and counts in the turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallPolicy {
    pub concurrency: Concurrency,
    /// The file the call reads or writes, as the model wrote the path. Calls whose paths are equal or contain each
    /// other run one after another.
    pub path: Option<String>,
    pub kind: CallKind,
    pub result_size: ResultSize,
}

/// The treatment of a long result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultSize {
    /// The part beyond the limit is stored on disk, and the model is told where.
    #[default]
    Bounded,
    /// The tool limits the result itself. A copy on disk would be read through the same tool again, so none is
    /// stored.
    SelfBounded,
}

/// The degree to which a call may run at the same time as others of the same answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Concurrency {
    /// All calls of the answer run one after another.
    #[default]
    Sequential,
    /// The call runs in parallel as long as no other call's path conflicts with its own.
    DisjointPaths,
    /// The call always runs in parallel.
    Parallel,
}

/// The kind of work a call does for the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallKind {
    #[default]
    Regular,
    /// Bookkeeping such as notes and lists: an answer given together with it may already be the final one.
    Housekeeping,
    /// A script that makes further calls itself; an answer with no other calls does not count against the
    /// iteration limit.
    Script,
}

/// An event that a tool with state may need to know of.
#[derive(Debug, Clone, Copy)]
pub enum ToolEvent<'a> {
    /// A conversation is resumed: the tool can restore its state from earlier results.
    Resumed(&'a [Message]),
    /// The conversation was started as a subagent by this other task.
    Delegated(&'a TaskId),
    /// Older results are no longer visible to the model.
    Compressed,
    /// A call to the tool of this name is about to run.
    CallStarting(&'a str),
    /// A tool that stores notes is about to run, and the model has read the words of others since the person spoke:
    /// where these came from.
    OthersWordsRead(&'a [String]),
    /// A turn of the conversation ended with an answer.
    TurnCompleted,
    /// The conversation ended.
    Ended,
}

/// The reason why a call is not run without further checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Danger {
    /// A stable key for allow lists.
    pub key: String,
    /// The explanation shown to a person.
    pub reason: String,
}

/// The outcome of a call. A failure is an outcome, too: it goes back to the model and never ends the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    pub content: String,
    pub status: OutcomeStatus,
    pub provenance: Provenance,
}

/// The way a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    Done,
    Failed,
    Cancelled,
    /// The process died while the call ran, so the call may or may not have had an effect.
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

    /// Builds a failure in the format the model knows: `{"error": …}`.
    pub fn failed(reason: impl Into<String>) -> Self {
        let content = serde_json::json!({ "error": reason.into() }).to_string();
        Self { content, status: OutcomeStatus::Failed, provenance: Provenance::Tool }
    }
}
