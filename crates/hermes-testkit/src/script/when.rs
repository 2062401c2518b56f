//! Conditions under which a reply is given. All that are set must hold.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::request_log::RecordedRequest;
use crate::wire::{Wire, plain_text};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplyCondition {
    /// A text the last user message must contain.
    pub user_contains: Option<String>,
    /// A text the system prompt must contain.
    pub system_contains: Option<String>,
    /// The id of a call whose result the request must carry; `any` for a result of any call.
    pub tool_result: Option<String>,
    /// A text a tool result must contain.
    pub tool_result_contains: Option<String>,
    pub model: Option<String>,
    /// Header names with the value they must have, or `true` where presence is enough.
    pub headers: Map<String, Value>,
    /// The path without its query; a final `*` stands for any rest.
    pub path: Option<String>,
    pub method: Option<String>,
    pub wire: Option<Wire>,
    pub stream: Option<bool>,
    /// A text the raw body must contain.
    pub body_contains: Option<String>,
    /// JSON pointers into the body with the value they must have.
    pub json: Map<String, Value>,
}

impl ReplyCondition {
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn holds(&self, request: &RecordedRequest) -> bool {
        self.holds_for_envelope(request) && self.holds_for_body(request)
    }

    fn holds_for_envelope(&self, request: &RecordedRequest) -> bool {
        let path = self.path.as_deref().is_none_or(|pattern| match pattern.strip_suffix('*') {
            Some(start) => request.path().starts_with(start),
            None => request.path() == pattern,
        });
        let method =
            self.method.as_deref().is_none_or(|method| method.eq_ignore_ascii_case(request.method()));
        let headers = self.headers.iter().all(|(name, wanted)| match (request.header(name), wanted) {
            (None, wanted) => *wanted == Value::Bool(false),
            (Some(_), Value::Bool(presence)) => *presence,
            (Some(value), wanted) => value == plain_text(wanted),
        });
        let wire = self.wire.is_none_or(|wire| request.wire() == Some(wire));
        path && method && headers && wire
    }

    fn holds_for_body(&self, request: &RecordedRequest) -> bool {
        let contains = |wanted: &Option<String>, text: fn(&RecordedRequest) -> String| {
            wanted.as_deref().is_none_or(|wanted| text(request).contains(wanted))
        };
        let results = || request.tool_results();
        self.model.as_deref().is_none_or(|model| request.model() == model)
            && self.stream.is_none_or(|stream| request.wants_stream() == stream)
            && contains(&self.user_contains, |request| request.last_user_text().unwrap_or_default())
            && contains(&self.system_contains, RecordedRequest::system_text)
            && contains(&self.body_contains, |request| request.body_text().into_owned())
            && self.tool_result.as_deref().is_none_or(|id| match id {
                "any" => !results().is_empty(),
                id => results().iter().any(|(call, _)| call == id),
            })
            && self
                .tool_result_contains
                .as_deref()
                .is_none_or(|wanted| results().iter().any(|(_, text)| text.contains(wanted)))
            && self.json.iter().all(|(pointer, wanted)| {
                request.try_json().and_then(|body| body.pointer(pointer)) == Some(wanted)
            })
    }
}

impl fmt::Display for ReplyCondition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = Vec::new();
        let named = [
            ("user_contains", &self.user_contains),
            ("system_contains", &self.system_contains),
            ("tool_result", &self.tool_result),
            ("tool_result_contains", &self.tool_result_contains),
            ("model", &self.model),
            ("path", &self.path),
            ("method", &self.method),
            ("body_contains", &self.body_contains),
        ];
        said.extend(named.iter().filter_map(|(name, value)| Some(format!("{name} {:?}", value.as_ref()?))));
        said.extend(self.headers.iter().map(|(name, value)| format!("header {name}: {value}")));
        said.extend(self.json.iter().map(|(pointer, value)| format!("json {pointer}: {value}")));
        said.extend(self.wire.map(|wire| format!("wire {wire:?}")));
        said.extend(self.stream.map(|stream| format!("stream {stream}")));
        formatter.write_str(&if said.is_empty() { "any request".to_owned() } else { said.join(", ") })
    }
}
