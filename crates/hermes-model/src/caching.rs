//! The breakpoints of a provider's prompt cache.
//!
//! At most four: the system text and the last three messages that can carry one. Markers are set on a copy made for
//! one request; history never contains a marker, and earlier bytes of the prompt never change.

use std::borrow::Cow;

use hermes_types::{Message, Role};
use serde_json::json;

use crate::wire::{ApiMode, EndpointVendor, JsonNode, JsonObject};

/// Tells whether to set breakpoints, and how long the provider is asked to keep the cached prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CachePolicy {
    #[default]
    Off,
    FiveMinutes,
    OneHour,
}

impl CachePolicy {
    /// Returns the policy for a route: breakpoints for Claude on OpenRouter and for every endpoint of the Messages
    /// API.
    pub fn for_route(mode: ApiMode, vendor: EndpointVendor, model: &str, wanted: Self) -> Self {
        let claude = model.to_ascii_lowercase().contains("claude");
        match mode {
            ApiMode::Anthropic => wanted,
            ApiMode::Chat if vendor == EndpointVendor::OpenRouter && claude => wanted,
            _ => Self::Off,
        }
    }

    pub(crate) fn marker(self) -> Option<JsonNode<'static>> {
        match self {
            Self::Off => None,
            Self::FiveMinutes => Some(json!({"type": "ephemeral"}).into()),
            Self::OneHour => Some(json!({"type": "ephemeral", "ttl": "1h"}).into()),
        }
    }
}

/// Tells whether tool results can carry a marker on a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolResultMarkers {
    Allowed,
    Refused,
}

/// Returns the indices of the messages that carry a breakpoint, newest first.
pub(crate) fn breakpoints(messages: &[Message], tools: ToolResultMarkers) -> Vec<usize> {
    messages
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, message)| match message.role {
            Role::System => false,
            Role::Tool => tools == ToolResultMarkers::Allowed,
            Role::User | Role::Assistant => true,
        })
        .map(|(at, _)| at)
        .take(3)
        .collect()
}

/// Marks a message of the chat wire.
pub(crate) fn mark_message(message: &mut JsonObject<'_>, marker: JsonNode<'static>) {
    match message.get_mut("content") {
        Some(JsonNode::Text(text)) if !text.is_empty() => {
            let text = std::mem::replace(text, Cow::Borrowed(""));
            let block =
                JsonObject::new().with("type", "text").with("text", text).with("cache_control", marker);
            message.set("content", vec![JsonNode::Object(block)]);
        }
        Some(JsonNode::List(parts)) => {
            if !parts.last_mut().is_some_and(|last| mark_block(last, marker.clone())) {
                message.set("cache_control", marker);
            }
        }
        _ => message.set("cache_control", marker),
    }
}

/// Marks one block. A raw part is not changed, because its bytes must stay as they came.
pub(crate) fn mark_block(block: &mut JsonNode<'_>, marker: JsonNode<'static>) -> bool {
    match block {
        JsonNode::Object(object) => {
            object.set("cache_control", marker);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use hermes_types::ToolCall;

    use super::*;

    #[test]
    fn at_most_three_besides_the_system_text() {
        let call = ToolCall::new(Some("c"), "t", "{}");
        let messages = [
            Message::user("a"),
            Message::assistant("b"),
            Message::user("c"),
            Message::assistant("").with_calls(vec![call.clone()]),
            Message::tool(&call, "r"),
        ];
        assert_eq!(breakpoints(&messages, ToolResultMarkers::Allowed), [4, 3, 2]);
        assert_eq!(breakpoints(&messages, ToolResultMarkers::Refused), [3, 2, 1]);
        assert!(breakpoints(&[], ToolResultMarkers::Allowed).is_empty());
    }

    #[test]
    fn a_marker_finds_its_place() {
        let marker = || CachePolicy::OneHour.marker().unwrap();
        let mark = |content: JsonNode<'static>| {
            let mut message = JsonObject::new().with("content", content);
            mark_message(&mut message, marker());
            message.to_value()
        };
        let expected = json!({"type": "ephemeral", "ttl": "1h"});
        assert_eq!(
            mark("x".into()),
            json!({"content": [{"type": "text", "text": "x", "cache_control": expected}]})
        );
        assert_eq!(mark("".into()), json!({"content": "", "cache_control": expected}));
        assert_eq!(mark(Vec::new().into()), json!({"content": [], "cache_control": expected}));
        let two = vec![
            JsonNode::Object(JsonObject::new()),
            JsonNode::Object(JsonObject::new().with("type", "text")),
        ];
        assert_eq!(mark(two.into()), json!({"content": [{}, {"type": "text", "cache_control": expected}]}));
    }

    #[test]
    fn only_claude_is_cached() {
        let on = CachePolicy::FiveMinutes;
        let policy = |mode, vendor, model| CachePolicy::for_route(mode, vendor, model, on);
        assert_eq!(policy(ApiMode::Chat, EndpointVendor::OpenRouter, "anthropic/claude-sonnet-4"), on);
        assert_eq!(policy(ApiMode::Chat, EndpointVendor::OpenRouter, "openai/gpt-5"), CachePolicy::Off);
        assert_eq!(policy(ApiMode::Chat, EndpointVendor::Other, "claude"), CachePolicy::Off);
        assert_eq!(policy(ApiMode::Anthropic, EndpointVendor::Other, "MiniMax-M2"), on);
    }
}
