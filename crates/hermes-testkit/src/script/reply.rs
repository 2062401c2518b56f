//! A reply: its conditions, its number of uses, its events, and its transport.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::event::{
    ConnectionCut, CutKind, Reasoning, ReplyEvent, ScriptedFailure, ScriptedFinish, ScriptedHttpResponse,
    ScriptedToolCall, ScriptedToolCalls, ScriptedUsage, StreamError, TextDeltas, UsageSetting,
};
use super::short::{ShortForm, optional_short_or_map, short};
use super::when::ReplyCondition;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "ReplyForm")]
pub struct ScriptedReply {
    pub(crate) name: Option<String>,
    pub(crate) when: ReplyCondition,
    pub(crate) repeat: ReplyRepeat,
    pub(crate) events: Vec<ReplyEvent>,
    pub(crate) http: Option<ScriptedHttpResponse>,
    pub(crate) fail: Option<ScriptedFailure>,
    pub(crate) model: Option<String>,
    pub(crate) stream: Option<bool>,
    pub(crate) quirks: BTreeSet<Quirk>,
    pub(crate) transport: Transport,
}

/// The YAML form, in which the common cases need no `events`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReplyForm {
    name: Option<String>,
    when: ReplyCondition,
    #[serde(deserialize_with = "short")]
    repeat: ReplyRepeat,
    #[serde(deserialize_with = "optional_short_or_map")]
    reasoning: Option<Reasoning>,
    #[serde(deserialize_with = "optional_short_or_map")]
    text: Option<TextDeltas>,
    tool: Option<ScriptedToolCall>,
    tools: Option<Vec<ScriptedToolCall>>,
    #[serde(deserialize_with = "optional_short_or_map")]
    usage: Option<UsageSetting>,
    events: Vec<ReplyEvent>,
    http: Option<ScriptedHttpResponse>,
    fail: Option<ScriptedFailure>,
    model: Option<String>,
    stream: Option<bool>,
    quirks: BTreeSet<Quirk>,
    transport: Transport,
}

impl TryFrom<ReplyForm> for ScriptedReply {
    type Error = String;

    fn try_from(form: ReplyForm) -> Result<Self, String> {
        let mut events = Vec::new();
        events.extend(form.reasoning.map(ReplyEvent::Reasoning));
        events.extend(form.text.map(ReplyEvent::Text));
        events.extend(form.tool.map(ReplyEvent::Tool));
        events.extend(
            form.tools.map(|calls| ReplyEvent::Tools(ScriptedToolCalls { calls, interleave: false })),
        );
        events.extend(form.usage.map(ReplyEvent::Usage));
        events.extend(form.events);
        let answers = usize::from(form.http.is_some()) + usize::from(form.fail.is_some());
        if answers > 1 {
            return Err("a reply has `http` or `fail`, not both".into());
        }
        if answers == 1 && !events.iter().all(ReplyEvent::is_flow) {
            return Err("beside `http` or `fail` only headers, delay, wait, stall and cut make sense".into());
        }
        if answers == 0 && events.is_empty() {
            return Err("a reply needs one of text, reasoning, tool, tools, events, http, fail".into());
        }
        let named = [&form.http.as_ref().map(|it| it.status), &form.fail.as_ref().map(|it| it.status)];
        if let Some(status) = named.into_iter().flatten().find(|status| !(200..=599).contains(*status)) {
            return Err(format!("`status` {status} is not between 200 and 599"));
        }
        Ok(Self {
            name: form.name,
            when: form.when,
            repeat: form.repeat,
            events,
            http: form.http,
            fail: form.fail,
            model: form.model,
            stream: form.stream,
            quirks: form.quirks,
            transport: form.transport,
        })
    }
}

/// Says how many requests a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyRepeat {
    Times(usize),
    Forever,
}

impl Default for ReplyRepeat {
    fn default() -> Self {
        Self::Times(1)
    }
}

impl ShortForm for ReplyRepeat {
    const EXPECTED: &'static str = "a number of times, or `forever`";

    fn from_text(text: &str) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self::Forever);
        }
        text.parse().map(Self::Times).map_err(|_| format!("`{text}` is not {}", Self::EXPECTED))
    }
}

/// Deviations of real servers that a client has to handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quirk {
    /// The first chat delta has no role.
    NoRole,
    /// The chat stream ends without `[DONE]`.
    NoDone,
    /// The stream ends without any closing event.
    NoEnd,
    /// Lines end in CR LF.
    Crlf,
    /// `data:{…}` without the space.
    NoSpace,
    /// The last event lacks its blank line.
    NoFinalBlank,
    /// Every call has index 0 and comes whole, as Ollama sends them.
    IndexZero,
    /// Calls come without ids.
    NoToolId,
    /// Every piece of a call repeats id and name.
    RepeatToolHead,
    /// No `ping` on the Anthropic wire.
    NoPing,
    /// Responses events without the `event:` line.
    NoEventName,
}

/// The transport settings of a reply.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transport {
    /// The bytes per TCP write.
    pub write_size: Option<usize>,
    pub framing: Framing,
    pub status: Option<u16>,
    pub content_type: Option<String>,
    pub headers: Map<String, Value>,
}

/// Says how the end of a body is marked.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// Chunked for streams, `content-length` for the rest.
    #[default]
    Auto,
    Length,
    /// The connection closes after the body.
    Close,
    Chunked(Chunking),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Chunking {
    /// The bytes per chunk; without it each event is a chunk.
    pub size: Option<usize>,
    /// The extension after the length of every chunk, such as `;name=value`.
    pub extension: String,
    /// The number of digits a length is padded to with zeros.
    pub pad: usize,
    pub uppercase: bool,
    pub trailers: Map<String, Value>,
    /// True when the last chunk is sent; without it the connection closes in the middle of the message.
    pub terminate: bool,
}

impl Default for Chunking {
    fn default() -> Self {
        Self {
            size: None,
            extension: String::new(),
            pad: 0,
            uppercase: false,
            trailers: Map::new(),
            terminate: true,
        }
    }
}

impl ScriptedReply {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::new().then_text(TextDeltas::from(text.into()))
    }

    /// Creates a text reply with the given deltas.
    pub fn deltas<const N: usize>(parts: [&str; N]) -> Self {
        Self::new().then_text(TextDeltas::from(parts))
    }

    pub fn tool(name: impl Into<String>, arguments: Value) -> Self {
        Self::new().then_tool(ScriptedToolCall::new(name, arguments))
    }

    /// Creates a reply with several calls in one turn.
    pub fn tools(calls: impl IntoIterator<Item = ScriptedToolCall>) -> Self {
        Self::new().event(ReplyEvent::Tools(ScriptedToolCalls {
            calls: calls.into_iter().collect(),
            interleave: false,
        }))
    }

    /// Creates a verbatim HTTP response.
    pub fn http(status: u16, body: impl Into<Value>) -> Self {
        Self {
            http: Some(ScriptedHttpResponse { status, headers: Map::new(), body: body.into() }),
            ..Self::default()
        }
    }

    /// Creates a refusal in the wire's error format.
    pub fn fail(status: u16, message: impl Into<String>) -> Self {
        let failure = ScriptedFailure {
            status,
            message: Some(message.into()),
            kind: None,
            code: None,
            retry_after: None,
        };
        Self { fail: Some(failure), ..Self::default() }
    }

    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    #[must_use]
    pub fn event(mut self, event: ReplyEvent) -> Self {
        self.events.push(event);
        self
    }

    #[must_use]
    pub fn then_text(self, text: impl Into<TextDeltas>) -> Self {
        self.event(ReplyEvent::Text(text.into()))
    }

    #[must_use]
    pub fn then_tool(self, call: ScriptedToolCall) -> Self {
        self.event(ReplyEvent::Tool(call))
    }

    #[must_use]
    pub fn reasoning(self, text: impl Into<TextDeltas>) -> Self {
        self.event(ReplyEvent::Reasoning(Reasoning { text: text.into(), ..Reasoning::default() }))
    }

    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.event(ReplyEvent::Usage(UsageSetting::Exact(ScriptedUsage {
            input,
            output,
            ..ScriptedUsage::default()
        })))
    }

    #[must_use]
    pub fn no_usage(self) -> Self {
        self.event(ReplyEvent::Usage(UsageSetting::Absent))
    }

    #[must_use]
    pub fn finish(self, finish: ScriptedFinish) -> Self {
        self.event(ReplyEvent::Finish(finish))
    }

    #[must_use]
    pub fn delay(self, span: Duration) -> Self {
        self.event(ReplyEvent::Delay(span))
    }

    #[must_use]
    pub fn wait(self, gate: impl Into<String>) -> Self {
        self.event(ReplyEvent::Wait(gate.into()))
    }

    #[must_use]
    pub fn stall(self) -> Self {
        self.event(ReplyEvent::Stall)
    }

    #[must_use]
    pub fn cut(self, how: CutKind) -> Self {
        self.event(ReplyEvent::Cut(ConnectionCut { how, after_bytes: None }))
    }

    #[must_use]
    pub fn cut_after(self, how: CutKind, bytes: usize) -> Self {
        self.event(ReplyEvent::Cut(ConnectionCut { how, after_bytes: Some(bytes) }))
    }

    #[must_use]
    pub fn stream_error(self, message: impl Into<String>) -> Self {
        self.event(ReplyEvent::Error(StreamError { message: message.into(), ..StreamError::default() }))
    }

    /// Sets the `retry-after` header of a refusal.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        if let Some(failure) = &mut self.fail {
            failure.retry_after = Some(seconds.into());
            return self;
        }
        self.header("retry-after", seconds.to_string())
    }

    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.transport.headers.insert(name.into(), Value::String(value.into()));
        self
    }

    #[must_use]
    pub fn when(mut self, when: ReplyCondition) -> Self {
        self.when = when;
        self
    }

    #[must_use]
    pub fn when_user_contains(mut self, text: impl Into<String>) -> Self {
        self.when.user_contains = Some(text.into());
        self
    }

    /// Restricts the reply to a request that carries the result of this call.
    #[must_use]
    pub fn when_tool_result(mut self, call_id: impl Into<String>) -> Self {
        self.when.tool_result = Some(call_id.into());
        self
    }

    #[must_use]
    pub fn when_model(mut self, model: impl Into<String>) -> Self {
        self.when.model = Some(model.into());
        self
    }

    #[must_use]
    pub fn when_path(mut self, path: impl Into<String>) -> Self {
        self.when.path = Some(path.into());
        self
    }

    #[must_use]
    pub fn repeat(mut self, times: usize) -> Self {
        self.repeat = ReplyRepeat::Times(times);
        self
    }

    #[must_use]
    pub fn forever(mut self) -> Self {
        self.repeat = ReplyRepeat::Forever;
        self
    }

    /// Sets the model name the reply claims, instead of the requested one.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    #[must_use]
    pub fn quirk(mut self, quirk: Quirk) -> Self {
        self.quirks.insert(quirk);
        self
    }

    #[must_use]
    pub fn write_size(mut self, bytes: usize) -> Self {
        self.transport.write_size = Some(bytes);
        self
    }

    #[must_use]
    pub fn framing(mut self, framing: Framing) -> Self {
        self.transport.framing = framing;
        self
    }

    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.transport.content_type = Some(content_type.into());
        self
    }

    pub(crate) fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }
}
