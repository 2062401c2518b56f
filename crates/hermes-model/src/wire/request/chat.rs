//! Chat completions.
//!
//! Many servers speak this and some refuse any field they do not know, so fields beyond the common ones go only to the
//! vendors that are known to take them. What a vendor gave us to bring back goes back byte for byte.

use hermes_types::{Content, Effort, Message, Part, Request, Role, ToolCall, ToolSpec};
use serde_json::{Value, json};

use crate::caching::{ToolMarks, breakpoints, mark_message};
use crate::wire::claude::{is_claude, output_limit};
use crate::wire::details;
use crate::wire::effort::{self, clamp, supports_chat_reasoning};
use crate::wire::node::{Node, Object};
use crate::wire::options::{Field, ParameterSupport, Streaming, ToolChoice, Vendor, WireOptions};

pub(super) fn build<'a>(request: &'a Request, options: &'a WireOptions, streaming: Streaming) -> Object<'a> {
    let mut body = Object::new().with("model", request.model.as_str());
    body.set("messages", messages(request, options));
    if !request.tools.is_empty() && options.sends(Field::Tools) && options.tool_choice != ToolChoice::None {
        body.set("tools", request.tools.iter().map(|tool| function(tool).into()).collect::<Vec<Node<'_>>>());
        if options.sends(Field::ToolChoice) {
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
        let renamed = options.vendor == Vendor::OpenAi || !options.sends(Field::MaxTokensName);
        body.set(if renamed { "max_completion_tokens" } else { "max_tokens" }, limit);
    }
    if let Some(value) = request.temperature
        && options.sends(Field::Temperature)
    {
        body.set("temperature", super::temperature(value));
    }
    if streaming == Streaming::Streamed {
        body.set("stream", true);
        if options.sends(Field::StreamOptions) {
            body.set("stream_options", json!({"include_usage": true}));
        }
    }
    if options.vendor == Vendor::OpenRouter {
        let routing = routing(options);
        if !routing.is_empty() {
            body.set("provider", routing);
        }
    }
    if let Some(reasoning) = reasoning(request, options) {
        body.set("reasoning", reasoning);
    }
    if options.vendor == Vendor::Nous && !options.tags.is_empty() {
        body.set("tags", json!(options.tags));
    }
    if let Some(window) = options.ollama_num_ctx {
        body.set("options", json!({"num_ctx": window}));
    }
    body
}

fn messages<'a>(request: &'a Request, options: &'a WireOptions) -> Vec<Node<'a>> {
    let mut list: Vec<Object<'a>> = Vec::with_capacity(request.messages.len() + 1);
    let offset = usize::from(!request.system.is_empty());
    if offset == 1 {
        let role = if takes_developer_role(options, &request.model) { "developer" } else { "system" };
        list.push(Object::new().with("role", role).with("content", request.system.as_str()));
    }
    list.extend(request.messages.iter().map(|message| convert(message, options)));
    if let Some(marker) = options.cache.marker().filter(|_| options.sends(Field::CacheControl)) {
        let mut marked: Vec<usize> =
            breakpoints(&request.messages, ToolMarks::Refused).into_iter().map(|at| at + offset).collect();
        marked.extend((offset == 1).then_some(0));
        for at in marked {
            if let Some(message) = list.get_mut(at) {
                mark_message(message, marker.clone());
            }
        }
    }
    list.into_iter().map(Node::Object).collect()
}

/// Only what every chat server knows: ids of other wires, finish reasons and unknown fields stay in history.
fn convert<'a>(message: &'a Message, options: &WireOptions) -> Object<'a> {
    let mut object =
        Object::new().with("role", message.role.as_str()).with("content", content(&message.content));
    match message.role {
        Role::Assistant => {
            if !message.tool_calls.is_empty() {
                object.set("tool_calls", message.tool_calls.iter().map(call).collect::<Vec<_>>());
            }
            if options.sends(Field::ReasoningReplay) {
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

fn content(content: &Content) -> Node<'_> {
    match content {
        Content::Text(text) => text.as_str().into(),
        Content::Parts(parts) => parts.iter().map(part).collect::<Vec<_>>().into(),
    }
}

fn part(part: &Part) -> Node<'_> {
    match part {
        Part::Text(text) => Object::new().with("type", "text").with("text", text.as_str()).into(),
        Part::Image { url } => {
            let image = Object::new().with("url", url.as_str());
            Object::new().with("type", "image_url").with("image_url", image).into()
        }
        Part::Other(raw) => raw.into(),
    }
}

fn call(call: &ToolCall) -> Node<'_> {
    let function = Object::new().with("name", call.name.as_str()).with("arguments", call.arguments.as_str());
    let mut object =
        Object::new().with("id", call.id.as_str()).with("type", "function").with("function", function);
    if let Some(extra) = &call.extra_content {
        object.set("extra_content", extra);
    }
    object.into()
}

fn function(tool: &ToolSpec) -> Object<'_> {
    let function = Object::new()
        .with("name", tool.name.as_str())
        .with("description", tool.description.as_str())
        .with("parameters", &tool.parameters);
    Object::new().with("type", "function").with("function", function)
}

/// Only what is configured, except that Claude behind OpenRouter would otherwise be cut off very early.
fn max_tokens(request: &Request, options: &WireOptions) -> Option<u64> {
    if !options.sends(Field::MaxTokens) {
        return None;
    }
    let claude = options.vendor == Vendor::OpenRouter && is_claude(&request.model);
    request.max_tokens.or_else(|| claude.then(|| output_limit(&request.model)))
}

fn takes_developer_role(options: &WireOptions, model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    let reasons = ["gpt-5", "o1", "o3", "o4"].into_iter().any(|family| name.starts_with(family));
    options.vendor == Vendor::OpenAi && reasons
}

fn routing(options: &WireOptions) -> Object<'_> {
    let mut object = Object::new();
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

fn reasoning(request: &Request, options: &WireOptions) -> Option<Value> {
    let levels = options.effort_levels.as_deref();
    if !options.sends(Field::Reasoning) || !supports_chat_reasoning(options.vendor, &request.model, levels) {
        return None;
    }
    match request.effort.unwrap_or(effort::DEFAULT) {
        // Nous refuses a request that turns thinking off.
        Effort::None if options.vendor == Vendor::Nous => None,
        Effort::None => Some(json!({"enabled": false})),
        effort => Some(json!({"enabled": true, "effort": clamp(effort, levels).as_str()})),
    }
}
