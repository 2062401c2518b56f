//! Scripts: the replies of the model server, in order.
//!
//! Holds the structure of scripts, their YAML parser and the builder; `wire` encodes replies, and `player` chooses
//! the reply to a request. A script is plain data: playing it twice gives the same bytes twice.

mod event;
mod player;
mod reply;
mod short;
mod when;

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use event::{
    ConnectionCut, CutKind, Reasoning, ReasoningField, ReplyEvent, ScriptedFailure, ScriptedFinish,
    ScriptedHttpResponse, ScriptedSseEvent, ScriptedToolCall, ScriptedToolCalls, ScriptedUsage, StreamError,
    TextDeltas, UsagePlace, UsageSetting,
};
pub(crate) use player::{Player, ReplyChoice};
pub use reply::{Chunking, Framing, Quirk, ReplyRepeat, ScriptedReply, Transport};
pub use when::ReplyCondition;

use crate::Error;

/// The replies in order, and the fallback when none matches.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelScript {
    pub(crate) models: Vec<ModelEntry>,
    pub(crate) default: ScriptFallback,
    pub(crate) order: ReplyOrder,
    /// True when delays take real time, even inside a test.
    pub(crate) real_time: bool,
    /// The bytes per TCP write, for replies that do not set it.
    pub(crate) write_size: Option<usize>,
    pub(crate) replies: Vec<ScriptedReply>,
}

/// The response to a request that no reply matches.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptFallback {
    /// HTTP 500 with a body that says which reply was expected.
    #[default]
    Error,
    /// The text of the last user message.
    Echo,
    Reply(Box<ScriptedReply>),
}

/// Says which of the unfinished replies may answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyOrder {
    /// The first reply whose conditions hold.
    #[default]
    FirstMatch,
    /// The first unfinished reply, and no other.
    Strict,
}

/// An entry of `GET /v1/models`; fields other than the id are passed on unchanged.
#[derive(Debug, Clone, Deserialize)]
pub struct ModelEntry {
    pub id: String,
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl ModelScript {
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses a script; `name` is the file name in error messages.
    pub fn from_yaml(name: &str, text: &str) -> Result<Self, Error> {
        serde_saphyr::from_str(text).map_err(|error| {
            let said = error.to_string().replace("<input>", name);
            Error::Script(format!("{name}: {}", said.strip_prefix("error: ").unwrap_or(&said)))
        })
    }

    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::io(format!("read {}", path.display())))?;
        Self::from_yaml(&path.display().to_string(), &text)
    }

    /// Creates a script of any number of identical text replies: the usual choice for load tests.
    pub fn always(text: impl Into<String>) -> Self {
        Self::new().reply(ScriptedReply::text(text).forever())
    }

    #[must_use]
    pub fn reply(mut self, reply: ScriptedReply) -> Self {
        self.replies.push(reply);
        self
    }

    #[must_use]
    pub fn fallback(mut self, fallback: ScriptFallback) -> Self {
        self.default = fallback;
        self
    }

    #[must_use]
    pub fn echo(self) -> Self {
        self.fallback(ScriptFallback::Echo)
    }

    #[must_use]
    pub fn strict(mut self) -> Self {
        self.order = ReplyOrder::Strict;
        self
    }

    #[must_use]
    pub fn real_time(mut self) -> Self {
        self.real_time = true;
        self
    }

    #[must_use]
    pub fn write_size(mut self, bytes: usize) -> Self {
        self.write_size = Some(bytes);
        self
    }

    /// Adds a model to `GET /v1/models`; `fields` is an object such as `{"context_length": 8192}`.
    #[must_use]
    pub fn model(mut self, id: impl Into<String>, fields: Value) -> Self {
        let fields = if let Value::Object(fields) = fields { fields } else { Map::new() };
        self.models.push(ModelEntry { id: id.into(), fields });
        self
    }
}
