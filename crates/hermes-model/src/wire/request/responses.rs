//! OpenAI Responses.
//!
//! The server stores nothing (`store: false`), so reasoning is sent with the conversation: encrypted items precede
//! the text they led to, never last and never twice. The list of fields is closed; the server refuses a field not
//! named here.

use std::collections::{HashMap, HashSet};

use hermes_types::{
    CallIds, ContentPart, JsonFields, Message, MessageContent, ModelRequest, RawJson, ReasoningEffort, Role,
    ToolCall,
};
use serde_json::json;

use crate::wire::effort::{self, clamp};
use crate::wire::fields::JsonFieldsExt as _;
use crate::wire::node::{JsonNode, JsonObject};
use crate::wire::options::{EndpointVendor, RequestField, StreamingMode, ToolChoice, WireOptions};

/// The instructions sent when there are none, because the wire requires them.
const DEFAULT_INSTRUCTIONS: &str = "You are Hermes, a capable and concise assistant.";

pub(super) fn build<'a>(
    request: &'a ModelRequest,
    options: &'a WireOptions,
    streaming: StreamingMode,
) -> JsonObject<'a> {
    let instructions =
        if request.system.trim().is_empty() { DEFAULT_INSTRUCTIONS } else { request.system.as_str() };
    let mut body = JsonObject::new().with("model", request.model.as_str()).with("instructions", instructions);
    body.set("input", Input::new(options).convert(&request.messages));
    if !request.tools.is_empty()
        && options.sends(RequestField::Tools)
        && options.tool_choice != ToolChoice::None
    {
        let tools: Vec<JsonNode<'_>> = request
            .tools
            .iter()
            .map(|tool| {
                JsonObject::new()
                    .with("type", "function")
                    .with("name", tool.name.as_str())
                    .with("description", tool.description.as_str())
                    .with("strict", false)
                    .with("parameters", &tool.parameters)
                    .into()
            })
            .collect();
        body.set("tools", tools);
        if options.sends(RequestField::ToolChoice) {
            match &options.tool_choice {
                ToolChoice::Required => body.set("tool_choice", "required"),
                ToolChoice::Named(name) => body.set("tool_choice", json!({"type": "function", "name": name})),
                ToolChoice::Auto | ToolChoice::None => body.set("tool_choice", "auto"),
            }
        }
        if options.sends(RequestField::ParallelToolCalls) {
            body.set("parallel_tool_calls", true);
        }
    }
    body.set("store", false);
    if let Some(tier) = options.tier() {
        body.set("service_tier", tier);
    }
    // Copilot refuses both the cache key and encrypted reasoning.
    let copilot = matches!(options.vendor, EndpointVendor::Copilot | EndpointVendor::GithubModels);
    if let Some(session) = request.session.as_deref().filter(|_| !copilot) {
        body.set("prompt_cache_key", session);
    }
    match request.effort.unwrap_or(effort::DEFAULT) {
        _ if !options.sends(RequestField::Reasoning) => {}
        ReasoningEffort::None if copilot => {}
        ReasoningEffort::None => body.set("include", json!([])),
        effort => {
            let effort = clamp(effort, options.effort_levels.as_deref());
            body.set("reasoning", json!({"effort": effort.as_str(), "summary": "auto"}));
            if !copilot {
                body.set("include", json!(["reasoning.encrypted_content"]));
            }
        }
    }
    // The subscription endpoint accepts neither an output limit nor a temperature.
    if options.vendor != EndpointVendor::Codex {
        if let Some(limit) = request.max_tokens.filter(|_| options.sends(RequestField::MaxTokens)) {
            body.set("max_output_tokens", limit);
        }
        if let Some(value) = request.temperature.filter(|_| options.sends(RequestField::Temperature)) {
            body.set("temperature", super::temperature(value));
        }
    }
    if streaming == StreamingMode::Streamed {
        body.set("stream", true);
    }
    body
}

/// The conversation as items.
struct Input<'a> {
    items: Vec<JsonNode<'a>>,
    /// The id of each call in history, and its id on this wire.
    call_ids: HashMap<&'a str, String>,
    /// The ids of items sent so far, because the server refuses a duplicate.
    seen: HashSet<String>,
    replay: bool,
}

impl<'a> Input<'a> {
    fn new(options: &WireOptions) -> Self {
        Self {
            items: Vec::new(),
            call_ids: HashMap::new(),
            seen: HashSet::new(),
            replay: options.sends(RequestField::ReasoningReplay),
        }
    }

    fn convert(mut self, messages: &'a [Message]) -> Vec<JsonNode<'a>> {
        for message in messages {
            match message.role {
                Role::System | Role::User => {
                    let item = JsonObject::new()
                        .with("role", message.role.as_str())
                        .with("content", user_content(&message.content));
                    self.items.push(item.into());
                }
                Role::Assistant => self.assistant(message),
                Role::Tool => self.result(message),
            }
        }
        self.items
    }

    fn assistant(&mut self, message: &'a Message) {
        let replayed = self.reasoning(message);
        let text = message.content.text();
        // A reasoning item must be followed by another item, even by an empty text.
        if !text.is_empty() || (replayed && message.tool_calls.is_empty()) {
            self.items.push(JsonObject::new().with("role", "assistant").with("content", text).into());
        }
        for call in &message.tool_calls {
            let call_id = wire_id(call);
            self.call_ids.insert(call.id.as_str(), call_id.clone());
            let item = JsonObject::new()
                .with("type", "function_call")
                .with("call_id", call_id)
                .with("name", call.name.as_str())
                .with("arguments", call.arguments.as_str());
            self.items.push(item.into());
        }
    }

    /// Adds stored reasoning; each value keeps its bytes.
    fn reasoning(&mut self, message: &Message) -> bool {
        let stored = message.codex_reasoning_items.as_ref().filter(|_| self.replay);
        let items: Vec<JsonFields> = stored.and_then(|raw| raw.read().ok()).unwrap_or_default();
        let mut replayed = false;
        for mut item in items {
            let Some(encrypted) = item.take("encrypted_content").filter(|raw| raw.as_str() != "\"\"") else {
                continue;
            };
            let id = item.take("id");
            if let Some(id) = &id
                && !self.seen.insert(id.as_str().to_owned())
            {
                continue;
            }
            let mut object = JsonObject::new().with("type", "reasoning");
            if let Some(id) = id {
                object.set("id", id);
            }
            object.set("encrypted_content", encrypted);
            match item.take("summary") {
                Some(summary) => object.set("summary", summary),
                None => object.set("summary", json!([])),
            }
            self.items.push(object.into());
            replayed = true;
        }
        replayed
    }

    fn result(&mut self, message: &'a Message) {
        let Some(id) =
            message.tool_call_id.as_ref().map(hermes_types::CallId::as_str).filter(|id| !id.is_empty())
        else {
            return;
        };
        let call_id = match self.call_ids.get(id) {
            Some(call_id) => call_id.clone(),
            None => CallIds::derive(Some(id), None).call_id,
        };
        let item = JsonObject::new()
            .with("type", "function_call_output")
            .with("call_id", call_id)
            .with("output", result_content(&message.content));
        self.items.push(item.into());
    }
}

fn wire_id(call: &ToolCall) -> String {
    match call.call_id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => id.to_owned(),
        None => CallIds::derive(Some(call.id.as_str()), call.response_item_id.as_deref()).call_id,
    }
}

fn user_content(content: &MessageContent) -> JsonNode<'_> {
    match content {
        MessageContent::Text(text) => text.as_str().into(),
        MessageContent::Parts(parts) => parts.iter().map(part).collect::<Vec<_>>().into(),
    }
}

/// Converts a result; images in it become items, text alone stays a string.
fn result_content(content: &MessageContent) -> JsonNode<'_> {
    match content {
        MessageContent::Parts(parts)
            if parts.iter().any(|part| matches!(part, ContentPart::Image { .. })) =>
        {
            user_content(content)
        }
        _ => content.text().into(),
    }
}

fn part(part: &ContentPart) -> JsonNode<'_> {
    match part {
        ContentPart::Text(text) => {
            JsonObject::new().with("type", "input_text").with("text", text.as_str()).into()
        }
        ContentPart::Image { url } => {
            JsonObject::new().with("type", "input_image").with("image_url", url.as_str()).into()
        }
        ContentPart::Other(raw) => foreign_part(raw),
    }
}

/// Converts a part with unknown fields to this wire's format where it is text or an image.
fn foreign_part(raw: &RawJson) -> JsonNode<'_> {
    let fields: JsonFields = raw.read().unwrap_or_default();
    match fields.text("type").as_deref() {
        Some("text") => JsonObject::new()
            .with("type", "input_text")
            .with("text", fields.text("text").unwrap_or_default())
            .into(),
        Some("image_url") => {
            let image = fields.object("image_url").unwrap_or_default();
            let mut object = JsonObject::new()
                .with("type", "input_image")
                .with("image_url", image.text("url").unwrap_or_default());
            if let Some(detail) = image.text("detail") {
                object.set("detail", detail);
            }
            object.into()
        }
        _ => raw.into(),
    }
}
