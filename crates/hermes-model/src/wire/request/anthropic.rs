//! Anthropic Messages, at its own address, at compatible servers, and inside AWS.
//!
//! Turns alternate, no block is empty, every call has its result and every result its call: the API refuses
//! anything else, so placeholders that say so replace what is missing. Thinking is sent back only to the endpoint
//! that signed it.

use std::collections::HashSet;

use hermes_types::{
    ContentPart, JsonFields, Message, MessageContent, ModelRequest, RawJson, ReasoningEffort, Role,
};
use serde_json::json;

use super::images::DataUrl;
use crate::caching::{ToolResultMarkers, breakpoints, mark_block};
use crate::wire::claude::{ThinkingMode, output_limit, thinking};
use crate::wire::details;
use crate::wire::fields::JsonFieldsExt as _;
use crate::wire::node::{JsonNode, JsonObject};
use crate::wire::options::{EndpointVendor, RequestField, StreamingMode, ToolChoice, WireOptions};

const EMPTY: &str = "(empty)";
const EMPTY_USER: &str = "(empty message)";
const NO_OUTPUT: &str = "(no output)";
const CALL_REMOVED: &str = "(tool call removed)";
const RESULT_REMOVED: &str = "(tool result removed)";

/// The tokens reserved for the answer itself beside a thinking budget.
const ANSWER_RESERVE: u64 = 4_096;

pub(super) fn build<'a>(
    request: &'a ModelRequest,
    options: &'a WireOptions,
    streaming: StreamingMode,
) -> JsonObject<'a> {
    let mut body = JsonObject::new();
    if options.is_bedrock_messages() {
        body.set("anthropic_version", "bedrock-2023-05-31");
    } else {
        body.set("model", model_id(&request.model, options));
    }
    let mut limit = request.max_tokens.unwrap_or_else(|| output_limit(&request.model));
    if let Some(window) = options.context_length
        && limit > window
    {
        limit = window.saturating_sub(1).max(1);
    }
    body.set("max_tokens", limit);
    let marker = options.cache.marker().filter(|_| options.sends(RequestField::CacheControl));
    if !request.system.is_empty() {
        match &marker {
            Some(marker) => {
                let block = text_block(request.system.as_str()).with("cache_control", marker.clone());
                body.set("system", vec![JsonNode::Object(block)]);
            }
            None => body.set("system", request.system.as_str()),
        }
    }
    let marked = match &marker {
        Some(_) => breakpoints(&request.messages, ToolResultMarkers::Allowed),
        None => Vec::new(),
    };
    body.set("messages", Turns::new(request, options, marked, marker).convert());
    let offers_tools = !request.tools.is_empty()
        && options.sends(RequestField::Tools)
        && options.tool_choice != ToolChoice::None;
    if offers_tools {
        body.set("tools", request.tools.iter().map(tool).collect::<Vec<_>>());
        match &options.tool_choice {
            _ if !options.sends(RequestField::ToolChoice) => {}
            ToolChoice::Required => body.set("tool_choice", json!({"type": "any"})),
            ToolChoice::Named(name) => body.set("tool_choice", json!({"type": "tool", "name": name})),
            ToolChoice::Auto | ToolChoice::None => body.set("tool_choice", json!({"type": "auto"})),
        }
    }
    set_thinking(&mut body, request, options, limit);
    if streaming == StreamingMode::Streamed && !options.is_bedrock_messages() {
        body.set("stream", true);
    }
    body
}

fn model_id(model: &str, options: &WireOptions) -> String {
    let name = model.strip_prefix("anthropic/").unwrap_or(model);
    // DashScope serves other models here, whose names contain dots.
    if options.vendor == EndpointVendor::Dashscope { name.to_owned() } else { name.replace('.', "-") }
}

/// Sets thinking, or the temperature, which thinking forbids.
fn set_thinking(body: &mut JsonObject<'_>, request: &ModelRequest, options: &WireOptions, limit: u64) {
    let forced = matches!(options.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
    let wanted = match request.effort {
        // A forced tool and thinking exclude each other.
        Some(effort)
            if effort != ReasoningEffort::None && options.sends(RequestField::Reasoning) && !forced =>
        {
            Some(effort)
        }
        _ => None,
    };
    match (wanted, thinking(&request.model)) {
        (Some(effort), ThinkingMode::Adaptive) => {
            let word = match effort {
                ReasoningEffort::Xhigh => "max",
                ReasoningEffort::Minimal => "low",
                other => other.as_str(),
            };
            body.set("thinking", json!({"type": "adaptive"}));
            body.set("output_config", json!({"effort": word}));
        }
        (Some(effort), ThinkingMode::Budgeted) => {
            let budget = match effort {
                ReasoningEffort::Xhigh => 32_000,
                ReasoningEffort::High => 16_000,
                ReasoningEffort::Low => 4_000,
                _ => 8_000,
            };
            body.set("thinking", json!({"type": "enabled", "budget_tokens": budget}));
            body.set("temperature", 1_u64);
            body.set("max_tokens", limit.max(budget + ANSWER_RESERVE));
        }
        _ => {
            if let Some(value) = request.temperature.filter(|_| options.sends(RequestField::Temperature)) {
                body.set("temperature", super::temperature(value));
            }
        }
    }
}

fn tool(tool: &hermes_types::ToolSpec) -> JsonNode<'_> {
    JsonObject::new()
        .with("name", tool.name.as_str())
        .with("description", tool.description.as_str())
        .with("input_schema", &tool.parameters)
        .into()
}

/// The conversation as turns of blocks, with adjacent messages of one role merged.
struct Turns<'a> {
    request: &'a ModelRequest,
    options: &'a WireOptions,
    marked: Vec<usize>,
    marker: Option<JsonNode<'static>>,
    /// The calls that have a result, and the results that have a call.
    answered: HashSet<String>,
    asked: HashSet<String>,
    merged: Vec<(&'static str, Vec<JsonNode<'a>>)>,
}

impl<'a> Turns<'a> {
    fn new(
        request: &'a ModelRequest,
        options: &'a WireOptions,
        marked: Vec<usize>,
        marker: Option<JsonNode<'static>>,
    ) -> Self {
        let results = request.messages.iter().filter(|message| message.role == Role::Tool);
        let answered = results.map(|message| safe_id(result_id(message))).collect();
        let calls = request.messages.iter().flat_map(|message| &message.tool_calls);
        let asked = calls.map(|call| safe_id(call.id.as_str())).collect();
        Self { request, options, marked, marker, answered, asked, merged: Vec::new() }
    }

    fn convert(mut self) -> Vec<JsonNode<'a>> {
        let request = self.request;
        for (at, message) in request.messages.iter().enumerate() {
            let (role, mut blocks) = match message.role {
                Role::Assistant => ("assistant", self.assistant(message)),
                Role::Tool => ("user", self.result(message)),
                Role::User | Role::System => ("user", user(message)),
            };
            if self.marked.contains(&at)
                && let Some(marker) = self.marker.clone()
            {
                // Thinking blocks cannot be marked; they are raw here, and `mark_block` skips them.
                let _ = blocks.iter_mut().rev().any(|block| mark_block(block, marker.clone()));
            }
            match self.merged.last_mut() {
                Some((last, merged)) if *last == role => merged.append(&mut blocks),
                _ => self.merged.push((role, blocks)),
            }
        }
        self.merged
            .into_iter()
            .map(|(role, blocks)| JsonObject::new().with("role", role).with("content", blocks).into())
            .collect()
    }

    fn assistant(&self, message: &'a Message) -> Vec<JsonNode<'a>> {
        let mut blocks: Vec<JsonNode<'a>> = Vec::new();
        let is_answered = |id: &str| self.answered.contains(&safe_id(id));
        let whole = message.tool_calls.iter().all(|call| is_answered(call.id.as_str()));
        // The signature of a thinking block covers what followed it, so the block is dropped when a call was
        // dropped.
        if let Some(stored) = &message.reasoning_details
            && whole
            && self.options.sends(RequestField::ReasoningReplay)
        {
            let replayed = details::thinking_blocks(stored, self.options.signature_family());
            blocks.extend(replayed.into_iter().map(JsonNode::from));
        }
        let text = message.content.text();
        if !text.trim().is_empty() {
            blocks.push(text_block(text).into());
        }
        for call in message.tool_calls.iter().filter(|call| is_answered(call.id.as_str())) {
            let block = JsonObject::new()
                .with("type", "tool_use")
                .with("id", safe_id(call.id.as_str()))
                .with("name", call.name.as_str())
                .with("input", super::arguments_object(&call.arguments));
            blocks.push(block.into());
        }
        if blocks.iter().all(|block| matches!(block, JsonNode::Raw(_))) {
            let stand_in = if message.tool_calls.is_empty() { EMPTY } else { CALL_REMOVED };
            blocks.push(text_block(stand_in).into());
        }
        blocks
    }

    fn result(&self, message: &'a Message) -> Vec<JsonNode<'a>> {
        let id = safe_id(result_id(message));
        if !self.asked.contains(&id) {
            return vec![text_block(RESULT_REMOVED).into()];
        }
        let content: JsonNode<'a> = match &message.content {
            MessageContent::Text(text) if text.trim().is_empty() => NO_OUTPUT.into(),
            MessageContent::Text(text) => text.as_str().into(),
            MessageContent::Parts(parts) if parts.is_empty() => NO_OUTPUT.into(),
            MessageContent::Parts(parts) => parts.iter().map(part).collect::<Vec<_>>().into(),
        };
        let block =
            JsonObject::new().with("type", "tool_result").with("tool_use_id", id).with("content", content);
        vec![block.into()]
    }
}

fn user(message: &Message) -> Vec<JsonNode<'_>> {
    let blocks: Vec<JsonNode<'_>> = match &message.content {
        MessageContent::Text(text) if text.trim().is_empty() => Vec::new(),
        MessageContent::Text(text) => vec![text_block(text.as_str()).into()],
        MessageContent::Parts(parts) => {
            let says = |part: &&ContentPart| part.text().is_none_or(|text| !text.trim().is_empty());
            parts.iter().filter(says).map(part).collect()
        }
    };
    if blocks.is_empty() { vec![text_block(EMPTY_USER).into()] } else { blocks }
}

fn part(part: &ContentPart) -> JsonNode<'_> {
    match part {
        ContentPart::Text(text) => text_block(text.as_str()).into(),
        ContentPart::Image { url } => image(url),
        ContentPart::Other(raw) => foreign_part(raw),
    }
}

/// Converts a part with unknown fields: text and images to this wire's format, the rest unchanged.
fn foreign_part(raw: &RawJson) -> JsonNode<'_> {
    let fields: JsonFields = raw.read().unwrap_or_default();
    match fields.text("type").as_deref() {
        Some("text" | "input_text") => text_block(fields.text("text").unwrap_or_default()).into(),
        Some("image_url") => {
            let url = fields.object("image_url").and_then(|image| image.text("url")).unwrap_or_default();
            image_owned(&url)
        }
        _ => raw.into(),
    }
}

fn image(url: &str) -> JsonNode<'_> {
    let source = match DataUrl::parse(url) {
        Some(data) => JsonObject::new()
            .with("type", "base64")
            .with("media_type", data.media_type)
            .with("data", data.data),
        None => JsonObject::new().with("type", "url").with("url", url),
    };
    JsonObject::new().with("type", "image").with("source", source).into()
}

fn image_owned(url: &str) -> JsonNode<'static> {
    let source = match DataUrl::parse(url) {
        Some(data) => json!({"type": "base64", "media_type": data.media_type, "data": data.data}),
        None => json!({"type": "url", "url": url}),
    };
    JsonObject::new().with("type", "image").with("source", source).into()
}

fn text_block<'a>(text: impl Into<JsonNode<'a>>) -> JsonObject<'a> {
    JsonObject::new().with("type", "text").with("text", text)
}

fn result_id(message: &Message) -> &str {
    message.tool_call_id.as_ref().map_or("", |id| id.as_str())
}

/// Returns a valid id, the same for a call and its result, so that they still match.
pub(super) fn safe_id(id: &str) -> String {
    if id.is_empty() {
        return "tool_0".to_owned();
    }
    let keep = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    id.chars().map(keep).collect()
}
