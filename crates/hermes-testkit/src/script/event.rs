//! The events of a reply, in order.
//!
//! Holds the events and their YAML forms. Most events are about meaning (text, a call, usage), so that the same
//! script works on any wire; the others deliberately work below the wire (raw bytes, cuts).

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::short::{ShortForm, short, short_or_map, span};

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyEvent {
    #[serde(deserialize_with = "short_or_map")]
    Text(TextDeltas),
    #[serde(deserialize_with = "short_or_map")]
    Reasoning(Reasoning),
    Tool(ScriptedToolCall),
    Tools(ScriptedToolCalls),
    #[serde(deserialize_with = "short_or_map")]
    Usage(UsageSetting),
    #[serde(deserialize_with = "short")]
    Finish(ScriptedFinish),
    /// Closes the reply here (finish, usage, `[DONE]`); without it that happens after the last event.
    End,
    #[serde(deserialize_with = "span")]
    Delay(Duration),
    /// Sends the status line and headers now; without it they are sent with the first bytes of the body.
    Headers,
    /// Waits at a gate that the test releases.
    Wait(String),
    /// Waits at the gate `stall`: forever, unless released.
    Stall,
    #[serde(deserialize_with = "short_or_map")]
    Cut(ConnectionCut),
    /// Sends an error event inside a stream that began normally. Nothing is closed after it.
    #[serde(deserialize_with = "short_or_map")]
    Error(StreamError),
    /// Sends the wire's keep-alive: `ping` on Anthropic, a comment elsewhere.
    Ping,
    /// Sends an SSE comment line.
    Comment(String),
    /// Sends a custom well-formed event.
    Json(Value),
    Sse(ScriptedSseEvent),
    /// Sends the payload of one event verbatim: the way to send malformed JSON.
    Data(String),
    /// Sends a chunk of truncated JSON.
    Malformed,
    /// Sends body bytes unchanged.
    Raw(String),
    Bytes(Vec<u8>),
}

impl ReplyEvent {
    /// Tells whether it only controls the reply and adds nothing to it.
    pub(crate) fn is_flow(&self) -> bool {
        matches!(self, Self::Headers | Self::Delay(_) | Self::Wait(_) | Self::Stall | Self::Cut(_))
    }
}

/// A text as the deltas it arrives in.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "PartsForm")]
pub struct TextDeltas(pub Vec<String>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartsForm {
    content: String,
    every: Option<usize>,
    every_bytes: Option<usize>,
}

impl TryFrom<PartsForm> for TextDeltas {
    type Error = String;

    fn try_from(form: PartsForm) -> Result<Self, String> {
        match (form.every, form.every_bytes) {
            (Some(0), _) | (_, Some(0)) => Err("`every` must be at least 1".into()),
            (Some(_), Some(_)) => Err("give `every` or `every_bytes`, not both".into()),
            (Some(chars), None) => Ok(Self::every(&form.content, chars)),
            (None, Some(bytes)) => Ok(Self::every_bytes(&form.content, bytes)),
            (None, None) => Ok(Self(vec![form.content])),
        }
    }
}

impl TextDeltas {
    /// Splits after every `count` characters.
    pub fn every(text: &str, count: usize) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self(chars.chunks(count.max(1)).map(|chunk| chunk.iter().collect()).collect())
    }

    /// Splits after at most `count` bytes, but never inside a character: a JSON string could not carry half of one.
    pub fn every_bytes(text: &str, count: usize) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let first = rest.chars().next().map_or(1, char::len_utf8);
            let (part, tail) = rest.split_at(rest.floor_char_boundary(count).max(first));
            parts.push(part.to_owned());
            rest = tail;
        }
        Self(parts)
    }

    pub fn joined(&self) -> String {
        self.0.concat()
    }
}

impl From<&str> for TextDeltas {
    fn from(text: &str) -> Self {
        Self(vec![text.to_owned()])
    }
}

impl From<String> for TextDeltas {
    fn from(text: String) -> Self {
        Self(vec![text])
    }
}

impl<const N: usize> From<[&str; N]> for TextDeltas {
    fn from(parts: [&str; N]) -> Self {
        Self(parts.iter().map(|part| (*part).to_owned()).collect())
    }
}

impl ShortForm for TextDeltas {
    const EXPECTED: &'static str = "text, a list of deltas, or {content, every | every_bytes}";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(text.into())
    }

    fn from_list(items: Vec<String>) -> Result<Self, String> {
        Ok(Self(items))
    }
}

/// Reasoning that precedes or interrupts an answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reasoning {
    #[serde(deserialize_with = "short_or_map")]
    pub text: TextDeltas,
    /// Anthropic's signature; also put into `reasoning_details`.
    pub signature: Option<String>,
    /// The `encrypted_content` of a Responses item, the `reasoning.encrypted` detail, or, without text, Anthropic's
    /// redacted block.
    pub encrypted: Option<String>,
    /// The `reasoning_details` of the chat wire: YAML, or a string of JSON that is sent byte for byte.
    pub details: Option<Value>,
    /// The field of a chat delta that carries the text.
    pub field: ReasoningField,
    pub id: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    #[default]
    ReasoningContent,
    Reasoning,
    /// The text is only inside `reasoning_details`.
    ReasoningDetails,
}

impl ShortForm for Reasoning {
    const EXPECTED: &'static str =
        "text, a list of deltas, or {text, signature, encrypted, details, field, id}";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.into(), ..Self::default() })
    }

    fn from_list(items: Vec<String>) -> Result<Self, String> {
        Ok(Self { text: TextDeltas(items), ..Self::default() })
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedToolCall {
    pub name: String,
    /// The arguments: a map, or a string that is sent unchanged (so it may be broken JSON).
    #[serde(default)]
    pub arguments: Value,
    #[serde(default)]
    pub id: Option<String>,
    /// The item id on the Responses wire, `fc_…`.
    #[serde(default)]
    pub item_id: Option<String>,
    /// An object sent with the call on the chat wire (Gemini's thought signature).
    #[serde(default)]
    pub extra_content: Option<Value>,
    /// The byte positions at which the arguments are split. One inside a character splits the TCP stream there
    /// instead.
    #[serde(default)]
    pub split: Vec<usize>,
    /// The number of characters after which the arguments are split.
    #[serde(default)]
    pub every: Option<usize>,
    /// The `index` on the chat wire, when it should not be the natural one.
    #[serde(default)]
    pub index: Option<u64>,
}

impl ScriptedToolCall {
    pub fn new(name: impl Into<String>, arguments: Value) -> Self {
        Self { name: name.into(), arguments, ..Self::default() }
    }

    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    #[must_use]
    pub fn split(mut self, positions: &[usize]) -> Self {
        self.split = positions.to_vec();
        self
    }

    #[must_use]
    pub fn every(mut self, chars: usize) -> Self {
        self.every = Some(chars);
        self
    }

    #[must_use]
    pub fn extra_content(mut self, extra: Value) -> Self {
        self.extra_content = Some(extra);
        self
    }

    pub(crate) fn arguments_text(&self) -> String {
        match &self.arguments {
            Value::Null => "{}".into(),
            Value::String(raw) => raw.clone(),
            other => other.to_string(),
        }
    }
}

/// Several calls at once; interleaved ones send their argument parts in turn.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedToolCalls {
    pub calls: Vec<ScriptedToolCall>,
    #[serde(default)]
    pub interleave: bool,
}

/// Token counts as on the chat wire: `input` includes tokens read from or written to a cache.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedUsage {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    /// Fields merged into the usage object unchanged (`cost`, for example).
    pub extra: Map<String, Value>,
    pub at: UsagePlace,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePlace {
    /// The provider's usual place; on the chat wire a last chunk without choices, if the client asked for one.
    #[default]
    End,
    /// The same place as `end`, whether or not the client asked.
    Always,
    /// The chunk that carries the finish reason.
    Finish,
    /// A chunk of its own at this point. Chat wire; elsewhere like `end`.
    Here,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "ScriptedUsage")]
pub enum UsageSetting {
    /// A quarter of the bytes in each direction, which is about what a tokenizer would count.
    #[default]
    Auto,
    Absent,
    Exact(ScriptedUsage),
}

impl From<ScriptedUsage> for UsageSetting {
    fn from(usage: ScriptedUsage) -> Self {
        Self::Exact(usage)
    }
}

impl ShortForm for UsageSetting {
    const EXPECTED: &'static str =
        "auto, none, or {input, output, cached, cache_write, reasoning, extra, at}";

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::Absent),
            _ => Err(format!("`{text}` is not {}", Self::EXPECTED)),
        }
    }
}

/// The reason why the model stopped, in the chat wire's terms; unknown ones are passed on unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptedFinish {
    Stop,
    ToolCalls,
    Length,
    ContentFilter,
    Other(String),
    /// The stream ends without a finish reason.
    Missing,
}

impl ShortForm for ScriptedFinish {
    const EXPECTED: &'static str =
        "stop, tool_calls, length, content_filter, none, or a word of the provider's own";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(match text {
            "stop" => Self::Stop,
            "tool_calls" => Self::ToolCalls,
            "length" => Self::Length,
            "content_filter" => Self::ContentFilter,
            "none" => Self::Missing,
            other => Self::Other(other.into()),
        })
    }
}

/// A cut of the connection: at this point, or after this many bytes of the body.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionCut {
    pub how: CutKind,
    pub after_bytes: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutKind {
    /// An orderly end of the TCP stream.
    #[default]
    Fin,
    /// A TCP reset.
    Rst,
}

impl ShortForm for ConnectionCut {
    const EXPECTED: &'static str = "fin, rst, or {how, after_bytes}";

    fn from_text(text: &str) -> Result<Self, String> {
        let how = match text {
            "fin" => CutKind::Fin,
            "rst" => CutKind::Rst,
            _ => return Err(format!("`{text}` is not {}", Self::EXPECTED)),
        };
        Ok(Self { how, after_bytes: None })
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamError {
    pub message: String,
    /// The provider's name of the error kind; by default the wire's own for a server error.
    pub kind: Option<String>,
    pub code: Option<Value>,
}

impl ShortForm for StreamError {
    const EXPECTED: &'static str = "a message, or {message, kind, code}";

    fn from_text(text: &str) -> Result<Self, String> {
        Ok(Self { message: text.into(), ..Self::default() })
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedSseEvent {
    pub event: Option<String>,
    pub data: String,
    pub id: Option<String>,
    pub retry: Option<u64>,
}

/// A complete HTTP response, verbatim.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedHttpResponse {
    pub status: u16,
    #[serde(default)]
    pub headers: Map<String, Value>,
    /// The body: a string is sent unchanged; anything else as JSON.
    #[serde(default)]
    pub body: Value,
}

/// A refusal in the wire's error format.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedFailure {
    pub status: u16,
    #[serde(default)]
    pub message: Option<String>,
    #[serde(default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub code: Option<Value>,
    /// The `retry-after` header, in seconds or as a date.
    #[serde(default)]
    pub retry_after: Option<Value>,
}
