//! Chat completions.
//!
//! Many servers implement this format and some refuse any unknown field, so fields beyond the common ones go only
//! to the vendors that are known to accept them. Opaque values from a vendor are sent back byte for byte.

use hermes_types::{
    ContentPart, Message, MessageContent, ModelRequest, ReasoningEffort, Role, ToolCall, ToolSpec,
};
use serde_json::{Value, json};

use crate::caching::{ToolResultMarkers, breakpoints, mark_message};
use crate::wire::claude::{is_claude, output_limit};
use crate::wire::details;
use crate::wire::effort::{self, clamp, supports_chat_reasoning};
use crate::wire::node::{JsonNode, JsonObject};
use crate::wire::options::{
    EndpointVendor, ParameterSupport, RequestField, StreamingMode, ToolChoice, WireOptions,
};

pub(super) fn build<'a>(
    request: &'a ModelRequest,
    options: &'a WireOptions,
    streaming: StreamingMode,
) -> JsonObject<'a> {
    let mut body = JsonObject::new().with("model", request.model.as_str());
    body.set("messages", messages(request, options));
    if !request.tools.is_empty()
        && options.sends(RequestField::Tools)
        && options.tool_choice != ToolChoice::None
    {
        body.set(
            "tools",
            request.tools.iter().map(|tool| function(tool).into()).collect::<Vec<JsonNode<'_>>>(),
        );
        if options.sends(RequestField::ToolChoice) {
            match &options.tool_choice {
                ToolChoice::Required => body.set("tool_choice", "required"),
                ToolChoice::Named(name) => {
                    body.set("tool_choice", json!({"type": "function", "function": {"name": name}}));
                }
                ToolChoice::Auto | ToolChoice::None => {}
            }
        }
    }
    if let Some(limit) = max_tokens(request, options) {
        let renamed = options.vendor == EndpointVendor::OpenAi || !options.sends(RequestField::MaxTokensName);
        body.set(if renamed { "max_completion_tokens" } else { "max_tokens" }, limit);
    }
    if let Some(value) = request.temperature
        && options.sends(RequestField::Temperature)
    {
        body.set("temperature", super::temperature(value));
    }
    if streaming == StreamingMode::Streamed {
        body.set("stream", true);
        if options.sends(RequestField::StreamOptions) {
            body.set("stream_options", json!({"include_usage": true}));
        }
    }
    if let Some(tier) = options.tier() {
        body.set("service_tier", tier);
    }
    if options.vendor == EndpointVendor::OpenRouter {
        let routing = routing(options);
        if !routing.is_empty() {
            body.set("provider", routing);
        }
    }
    if let Some(reasoning) = reasoning(request, options) {
        body.set("reasoning", reasoning);
    }
    if options.vendor == EndpointVendor::Nous && !options.tags.is_empty() {
        body.set("tags", json!(options.tags));
    }
    if let Some(window) = options.ollama_num_ctx {
        body.set("options", json!({"num_ctx": window}));
    }
    body
}

fn messages<'a>(request: &'a ModelRequest, options: &'a WireOptions) -> Vec<JsonNode<'a>> {
    let mut list: Vec<JsonObject<'a>> = Vec::with_capacity(request.messages.len() + 1);
    let offset = usize::from(!request.system.is_empty());
    if offset == 1 {
        let role = if takes_developer_role(options, &request.model) { "developer" } else { "system" };
        list.push(JsonObject::new().with("role", role).with("content", request.system.as_str()));
    }
    list.extend(request.messages.iter().map(|message| convert(message, options)));
    if let Some(marker) = options.cache.marker().filter(|_| options.sends(RequestField::CacheControl)) {
        let mut marked: Vec<usize> = breakpoints(&request.messages, ToolResultMarkers::Refused)
            .into_iter()
            .map(|at| at + offset)
            .collect();
        marked.extend((offset == 1).then_some(0));
        for at in marked {
            if let Some(message) = list.get_mut(at) {
                mark_message(message, marker.clone());
            }
        }
    }
    list.into_iter().map(JsonNode::Object).collect()
}

/// Converts the fields that every chat server knows: ids of other wires, finish reasons and unknown fields stay in
/// history.
fn convert<'a>(message: &'a Message, options: &WireOptions) -> JsonObject<'a> {
    let mut object =
        JsonObject::new().with("role", message.role.as_str()).with("content", content(&message.content));
    match message.role {
        Role::Assistant => {
            if !message.tool_calls.is_empty() {
                object.set("tool_calls", message.tool_calls.iter().map(call).collect::<Vec<_>>());
            }
            if options.sends(RequestField::ReasoningReplay) {
                if let Some(reasoning) = &message.reasoning {
                    object.set("reasoning_content", reasoning.as_str());
                }
                if let Some(details) = message.reasoning_details.as_ref().and_then(details::for_chat) {
                    object.set("reasoning_details", details);
                }
            }
        }
        Role::Tool => {
            let id = message.tool_call_id.as_ref().map_or("", |id| id.as_str());
            object.set("tool_call_id", id);
        }
        Role::System | Role::User => {}
    }
    object
}

fn content(content: &MessageContent) -> JsonNode<'_> {
    match content {
        MessageContent::Text(text) => text.as_str().into(),
        MessageContent::Parts(parts) => parts.iter().map(part).collect::<Vec<_>>().into(),
    }
}

fn part(part: &ContentPart) -> JsonNode<'_> {
    match part {
        ContentPart::Text(text) => JsonObject::new().with("type", "text").with("text", text.as_str()).into(),
        ContentPart::Image { url } => {
            let image = JsonObject::new().with("url", url.as_str());
            JsonObject::new().with("type", "image_url").with("image_url", image).into()
        }
        ContentPart::Other(raw) => raw.into(),
    }
}

fn call(call: &ToolCall) -> JsonNode<'_> {
    let function =
        JsonObject::new().with("name", call.name.as_str()).with("arguments", call.arguments.as_str());
    let mut object =
        JsonObject::new().with("id", call.id.as_str()).with("type", "function").with("function", function);
    if let Some(extra) = &call.extra_content {
        object.set("extra_content", extra);
    }
    object.into()
}

fn function(tool: &ToolSpec) -> JsonObject<'_> {
    let function = JsonObject::new()
        .with("name", tool.name.as_str())
        .with("description", tool.description.as_str())
        .with("parameters", &tool.parameters);
    JsonObject::new().with("type", "function").with("function", function)
}

/// Returns the configured limit only, except that Claude behind OpenRouter would otherwise be cut off very early.
fn max_tokens(request: &ModelRequest, options: &WireOptions) -> Option<u64> {
    if !options.sends(RequestField::MaxTokens) {
        return None;
    }
    let claude = options.vendor == EndpointVendor::OpenRouter && is_claude(&request.model);
    request.max_tokens.or_else(|| claude.then(|| output_limit(&request.model)))
}

fn takes_developer_role(options: &WireOptions, model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    let reasons = ["gpt-5", "o1", "o3", "o4"].into_iter().any(|family| name.starts_with(family));
    options.vendor == EndpointVendor::OpenAi && reasons
}

fn routing(options: &WireOptions) -> JsonObject<'_> {
    let mut object = JsonObject::new();
    let routing = &options.routing;
    for (name, list) in [("only", &routing.only), ("ignore", &routing.ignore), ("order", &routing.order)] {
        if !list.is_empty() {
            object.set(name, json!(list));
        }
    }
    if let Some(sort) = &routing.sort {
        object.set("sort", sort.as_str());
    }
    if routing.parameters == ParameterSupport::Required {
        object.set("require_parameters", true);
    }
    if let Some(policy) = &routing.data_collection {
        object.set("data_collection", policy.as_str());
    }
    object
}

fn reasoning(request: &ModelRequest, options: &WireOptions) -> Option<Value> {
    let levels = options.effort_levels.as_deref();
    if !options.sends(RequestField::Reasoning)
        || !supports_chat_reasoning(options.vendor, &request.model, levels)
    {
        return None;
    }
    match request.effort.unwrap_or(effort::DEFAULT) {
        // Nous refuses a request that disables reasoning.
        ReasoningEffort::None if options.vendor == EndpointVendor::Nous => None,
        ReasoningEffort::None => Some(json!({"enabled": false})),
        effort => Some(json!({"enabled": true, "effort": clamp(effort, levels).as_str()})),
    }
}
