//! A message of a conversation, in the form that is stored, exported and passed to library callers.

use std::borrow::Cow;

use serde::de::{self, Deserializer};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::ToolCall;
use crate::id::CallId;
use crate::raw_json::{JsonFields, RawJson};

/// The author of a message. System text is prepended to each request and never stored as a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::System, Self::User, Self::Assistant, Self::Tool].into_iter().find(|role| role.as_str() == text)
    }
}

/// The reason why the model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    Stop,
    ToolCalls,
    Length,
    Incomplete,
    ContentFilter,
    #[serde(untagged)]
    Other(String),
}

impl FinishReason {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::Incomplete => "incomplete",
            Self::ContentFilter => "content_filter",
            Self::Other(text) => text,
        }
    }

    pub fn parse(text: &str) -> Self {
        [Self::Stop, Self::ToolCalls, Self::Length, Self::Incomplete, Self::ContentFilter]
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

/// The content of a message: plain text, or parts when it includes a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

impl Default for MessageContent {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for MessageContent {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for MessageContent {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl MessageContent {
    /// Returns the text alone; parts are joined by newlines.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(parts) => {
                let texts: Vec<_> = parts.iter().filter_map(ContentPart::text).collect();
                Cow::Owned(texts.join("\n"))
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Parts(parts) => parts.is_empty(),
        }
    }

    /// Reads content that is neither text nor parts: some local servers answer with an object or another scalar,
    /// of which only the text is used.
    fn from_foreign(raw: &RawJson) -> Self {
        match raw.to_value() {
            Value::Null => Self::default(),
            Value::String(text) => Self::Text(text),
            Value::Object(map) => {
                match map.get("text").or_else(|| map.get("content")).and_then(Value::as_str) {
                    Some(text) => Self::Text(text.to_owned()),
                    None => Self::Text(raw.as_str().to_owned()),
                }
            }
            other => Self::Text(other.to_string()),
        }
    }
}

impl Serialize for MessageContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Parts(parts) => parts.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MessageContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        if raw.as_str().starts_with('[') {
            return raw.read().map(Self::Parts).map_err(de::Error::custom);
        }
        Ok(Self::from_foreign(&raw))
    }
}

/// One part of a multimodal message. Kinds this version does not know are passed on unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentPart {
    Text(String),
    Image { url: String },
    Other(RawJson),
}

impl ContentPart {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Serialize for ContentPart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serde_json::json!({"type": "text", "text": text}).serialize(serializer),
            Self::Image { url } => {
                serde_json::json!({"type": "image_url", "image_url": {"url": url}}).serialize(serializer)
            }
            Self::Other(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ContentPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        let value = raw.to_value();
        // A part becomes a typed variant only when that loses none of its fields.
        let part = match value.as_object() {
            Some(map) if map.len() == 2 => match (map.get("type").and_then(Value::as_str), map) {
                (Some("text"), map) => {
                    map.get("text").and_then(Value::as_str).map(|t| Self::Text(t.to_owned()))
                }
                (Some("image_url"), map) => match map.get("image_url").and_then(Value::as_object) {
                    Some(image) if image.len() == 1 => image
                        .get("url")
                        .and_then(Value::as_str)
                        .map(|url| Self::Image { url: url.to_owned() }),
                    _ => None,
                },
                _ => None,
            },
            None => value.as_str().map(|text| Self::Text(text.to_owned())),
            Some(_) => None,
        };
        Ok(part.unwrap_or(Self::Other(raw)))
    }
}

/// One entry of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    pub content: MessageContent,
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    pub tool_call_id: Option<CallId>,
    pub tool_name: Option<String>,
    /// The reasoning as plain text, for people to read.
    pub reasoning: Option<String>,
    /// The provider's own reasoning data, kept byte for byte.
    pub reasoning_details: Option<RawJson>,
    /// The reasoning items of the Responses API with their encrypted content, kept byte for byte.
    pub codex_reasoning_items: Option<RawJson>,
    pub finish_reason: Option<FinishReason>,
    /// The fields this version does not know.
    pub extra: JsonFields,
}

impl Message {
    fn new(role: Role, content: impl Into<MessageContent>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            tool_name: None,
            reasoning: None,
            reasoning_details: None,
            codex_reasoning_items: None,
            finish_reason: None,
            extra: JsonFields::default(),
        }
    }

    pub fn system(content: impl Into<MessageContent>) -> Self {
        Self::new(Role::System, content)
    }

    pub fn user(content: impl Into<MessageContent>) -> Self {
        Self::new(Role::User, content)
    }

    pub fn assistant(content: impl Into<MessageContent>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// Builds the message that answers a call.
    pub fn tool(call: &ToolCall, content: impl Into<MessageContent>) -> Self {
        let mut message = Self::new(Role::Tool, content);
        message.tool_call_id = Some(call.id.clone());
        message.tool_name = Some(call.name.clone());
        message
    }

    #[must_use]
    pub fn with_calls(mut self, calls: Vec<ToolCall>) -> Self {
        self.tool_calls = calls;
        self
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role)?;
        map.serialize_entry("content", &self.content)?;
        if !self.tool_calls.is_empty() {
            map.serialize_entry("tool_calls", &self.tool_calls)?;
        }
        if let Some(id) = &self.tool_call_id {
            map.serialize_entry("tool_call_id", id)?;
        }
        if let Some(name) = &self.tool_name {
            map.serialize_entry("tool_name", name)?;
        }
        if let Some(reasoning) = &self.reasoning {
            map.serialize_entry("reasoning", reasoning)?;
        }
        if let Some(details) = &self.reasoning_details {
            map.serialize_entry("reasoning_details", details)?;
        }
        if let Some(items) = &self.codex_reasoning_items {
            map.serialize_entry("codex_reasoning_items", items)?;
        }
        if let Some(reason) = &self.finish_reason {
            map.serialize_entry("finish_reason", reason)?;
        }
        for (key, raw) in self.extra.iter() {
            map.serialize_entry(key, raw)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = JsonFields::deserialize(deserializer)?;
        let role = fields.take_as("role")?.ok_or_else(|| de::Error::missing_field("role"))?;
        Ok(Self {
            role,
            content: fields.take_as("content")?.unwrap_or_default(),
            tool_calls: fields.take_as("tool_calls")?.unwrap_or_default(),
            tool_call_id: fields.take_as("tool_call_id")?,
            tool_name: fields.take_as("tool_name")?,
            reasoning: fields.take_as("reasoning")?,
            reasoning_details: fields.take("reasoning_details"),
            codex_reasoning_items: fields.take("codex_reasoning_items"),
            finish_reason: fields.take_as("finish_reason")?,
            extra: fields,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a text is unchanged after it is parsed and written again.
    fn check_round_trip(text: &str) {
        let message: Message = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), text);
    }

    #[test]
    fn every_shape_round_trips() {
        check_round_trip(r#"{"role":"user","content":"hi"}"#);
        check_round_trip(
            r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:x"}}]}"#,
        );
        check_round_trip(
            r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"low"}},{"type":"input_audio","n":1.0}]}"#,
        );
        check_round_trip(r#"{"role":"tool","content":"ok","tool_call_id":"call_1","tool_name":"terminal"}"#);
        check_round_trip(
            r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","call_id":"c","response_item_id":"fc_c","type":"function","function":{"name":"t","arguments":"{}"}}],"finish_reason":"tool_calls"}"#,
        );
    }

    #[test]
    fn reasoning_comes_back_byte_for_byte() {
        check_round_trip(
            r#"{"role":"assistant","content":"x","reasoning":"why","reasoning_details":[ {"signature":"a\/b==",  "n": 1.10e0, "index":0} ],"codex_reasoning_items":[{"encrypted_content":"gAAA\u0041"}],"finish_reason":"stop"}"#,
        );
    }

    #[test]
    fn unknown_fields_and_reasons_are_kept() {
        check_round_trip(
            r#"{"role":"assistant","content":"x","finish_reason":"tool_use","annotations":[{"b":2, "a":1}],"seq":12345678901234567890123}"#,
        );
    }

    #[test]
    fn absent_assistant_content_is_an_empty_string() {
        let message: Message = serde_json::from_str(r#"{"role":"assistant","content":null}"#).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), r#"{"role":"assistant","content":""}"#);
    }

    #[test]
    fn content_of_local_servers_is_read() {
        let read = |json: &str| serde_json::from_str::<MessageContent>(json).unwrap().text().into_owned();
        assert_eq!(read(r#"{"text":"a"}"#), "a");
        assert_eq!(read(r#"{"content":"b"}"#), "b");
        assert_eq!(read(r#"{"z":1}"#), r#"{"z":1}"#);
        assert_eq!(read(r#"["a",{"type":"text","text":"b"}]"#), "a\nb");
        assert_eq!(read("7"), "7");
    }

    #[test]
    fn a_bad_field_is_named() {
        let error =
            serde_json::from_str::<Message>(r#"{"role":"user","content":"x","tool_calls":3}"#).unwrap_err();
        assert!(error.to_string().contains("tool_calls"), "{error}");
    }
}
