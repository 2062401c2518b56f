//! What happens during a reply, one thing after the other.
//!
//! Holds the events and their YAML forms. An event is about meaning (text, a call, usage) wherever it can be, so that
//! the same script speaks any wire; the rest reach below the wire on purpose (raw bytes, cuts).

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
    /// The status line and headers leave now; without it they leave with the first bytes of the body.
    Headers,
    /// Waits at a gate that the test releases.
    Wait(String),
    /// Waits at the gate `stall`: for good, unless released.
    Stall,
    #[serde(deserialize_with = "short_or_map")]
    Cut(ConnectionCut),
    /// An error event inside a stream that began well. Nothing is closed after it.
    #[serde(deserialize_with = "short_or_map")]
    Error(StreamError),
    /// The wire's keep-alive: `ping` on Anthropic, a comment elsewhere.
    Ping,
    /// An SSE comment line.
    Comment(String),
    /// A well-formed event of one's own.
    Json(Value),
    Sse(ScriptedSseEvent),
    /// The payload of one event, verbatim: the way to send malformed JSON.
    Data(String),
    /// A chunk of JSON that breaks off.
    Malformed,
    /// Body bytes as they are.
    Raw(String),
    Bytes(Vec<u8>),
}

impl ReplyEvent {
    /// Whether it only directs the reply and puts nothing into it.
    pub(crate) fn is_flow(&self) -> bool {
        matches!(self, Self::Headers | Self::Delay(_) | Self::Wait(_) | Self::Stall | Self::Cut(_))
    }
}

/// Text as the deltas it arrives in.
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
    /// Cuts after every `count` characters.
    pub fn every(text: &str, count: usize) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self(chars.chunks(count.max(1)).map(|chunk| chunk.iter().collect()).collect())
    }

    /// Cuts after at most `count` bytes, but never inside a character: a JSON string could not carry half of one.
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

/// Thinking that precedes or interrupts an answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reasoning {
    #[serde(deserialize_with = "short_or_map")]
    pub text: TextDeltas,
    /// Anthropic's signature; also put into `reasoning_details`.
    pub signature: Option<String>,
    /// `encrypted_content` of a Responses item; `reasoning.encrypted` detail; Anthropic's redacted block if no text.
    pub encrypted: Option<String>,
    /// `reasoning_details` of the chat wire: YAML, or a string of JSON that is sent byte for byte.
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
    /// Only inside `reasoning_details`.
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
    /// A map, or a string that is sent as it is (so it may be broken JSON).
    #[serde(default)]
    pub arguments: Value,
    #[serde(default)]
    pub id: Option<String>,
    /// The item id on the Responses wire, `fc_…`.
    #[serde(default)]
    pub item_id: Option<String>,
    /// Sent with the call on the chat wire (Gemini's thought signature).
    #[serde(default)]
    pub extra_content: Option<Value>,
    /// Byte positions at which the arguments are cut. One inside a character cuts the TCP stream there instead.
    #[serde(default)]
    pub split: Vec<usize>,
    /// Cut after every so many characters.
    #[serde(default)]
    pub every: Option<usize>,
    /// The chat wire's `index`, when it should not be the natural one.
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

/// Several calls at once; interleaved ones send their argument pieces in turn.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedToolCalls {
    pub calls: Vec<ScriptedToolCall>,
    #[serde(default)]
    pub interleave: bool,
}

/// Tokens as the chat wire counts them: `input` includes what was read from or written to a cache.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedUsage {
    pub input: u64,
    pub output: u64,
    pub cached: u64,
    pub cache_write: u64,
    pub reasoning: u64,
    /// Merged into the usage object as it is (`cost`, for one).
    pub extra: Map<String, Value>,
    pub at: UsagePlace,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePlace {
    /// Where the provider puts it; on the chat wire a last chunk without choices, if the client asked for one.
    #[default]
    End,
    /// Like `end`, whether or not the client asked.
    Always,
    /// In the chunk that carries the finish reason.
    Finish,
    /// In a chunk of its own at this very point. Chat wire; elsewhere like `end`.
    Here,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "ScriptedUsage")]
pub enum UsageSetting {
    /// A quarter of the bytes each way, which is about what a tokenizer would count.
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

/// Why the model stopped, in the chat wire's words; unknown words are passed on unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptedFinish {
    Stop,
    ToolCalls,
    Length,
    ContentFilter,
    Other(String),
    /// The stream ends without saying.
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

/// The connection breaks: at this point, or after so many bytes of the body.
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
    /// A reset.
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
    /// The provider's word for the kind of error; by default the wire's own for a server fault.
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

/// A whole HTTP answer, word for word.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedHttpResponse {
    pub status: u16,
    #[serde(default)]
    pub headers: Map<String, Value>,
    /// A string is sent as it is; anything else as JSON.
    #[serde(default)]
    pub body: Value,
}

/// A refusal in the wire's own error format.
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
    /// Sent as the header `retry-after`, in seconds or as a date.
    #[serde(default)]
    pub retry_after: Option<Value>,
}
