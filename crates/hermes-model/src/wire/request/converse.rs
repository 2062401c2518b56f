//! AWS Bedrock Converse.
//!
//! The conversation begins and ends with the user, no text is blank, and calls appear as such only in a request
//! that offers tools; otherwise they are written as text, so that a summary without tools still contains what
//! happened.

use hermes_types::{ContentPart, Message, MessageContent, ModelRequest, Role};
use serde_json::json;

use super::anthropic::safe_id;
use super::images::DataUrl;
use crate::wire::details;
use crate::wire::node::{JsonNode, JsonObject};
use crate::wire::options::{RequestField, StreamingMode, ToolChoice, WireOptions};

const DEFAULT_MAX_TOKENS: u64 = 4_096;
const EMPTY: &str = "(empty)";
/// The text inserted because the conversation must begin and end with the user.
const OPENING: &str = "(conversation start)";
const CLOSING: &str = "Continue.";

pub(super) fn build<'a>(
    request: &'a ModelRequest,
    options: &'a WireOptions,
    streaming: StreamingMode,
) -> JsonObject<'a> {
    let offered = !request.tools.is_empty()
        && options.sends(RequestField::Tools)
        && options.tool_choice != ToolChoice::None
        && supports_tools(&request.model);
    let blocks = if offered { ToolBlocks::Native } else { ToolBlocks::AsText };
    let mut body = JsonObject::new().with("messages", messages(request, options, blocks));
    if !request.system.trim().is_empty() {
        body.set("system", vec![text_block(request.system.as_str())]);
    }
    let mut inference = JsonObject::new().with("maxTokens", request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS));
    if let Some(value) = request.temperature.filter(|_| options.sends(RequestField::Temperature)) {
        inference.set("temperature", super::temperature(value));
    }
    body.set("inferenceConfig", inference);
    if offered {
        body.set("toolConfig", tool_config(request, options));
    }
    if let Some(guardrail) = &options.guardrail {
        let mut config = JsonObject::new()
            .with("guardrailIdentifier", guardrail.identifier.as_str())
            .with("guardrailVersion", guardrail.version.as_str());
        if let Some(mode) = &guardrail.stream_processing_mode
            && streaming == StreamingMode::Streamed
        {
            config.set("streamProcessingMode", mode.as_str());
        }
        if let Some(trace) = &guardrail.trace {
            config.set("trace", trace.as_str());
        }
        body.set("guardrailConfig", config);
    }
    body
}

fn supports_tools(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    !["deepseek.r1", "stability.", "embed"].into_iter().any(|word| model.contains(word))
}

fn tool_config<'a>(request: &'a ModelRequest, options: &'a WireOptions) -> JsonObject<'a> {
    let tools: Vec<JsonNode<'a>> = request
        .tools
        .iter()
        .map(|tool| {
            // The API refuses an empty description.
            let description =
                if tool.description.is_empty() { tool.name.as_str() } else { tool.description.as_str() };
            let spec = JsonObject::new()
                .with("name", tool.name.as_str())
                .with("description", description)
                .with("inputSchema", JsonObject::new().with("json", &tool.parameters));
            JsonObject::new().with("toolSpec", spec).into()
        })
        .collect();
    let mut config = JsonObject::new().with("tools", tools);
    match &options.tool_choice {
        ToolChoice::Required => config.set("toolChoice", json!({"any": {}})),
        ToolChoice::Named(name) => config.set("toolChoice", json!({"tool": {"name": name}})),
        ToolChoice::Auto | ToolChoice::None => {}
    }
    config
}

/// Tells whether calls and results may appear as such: only in a request that offers tools.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolBlocks {
    Native,
    AsText,
}

fn messages<'a>(request: &'a ModelRequest, options: &'a WireOptions, tools: ToolBlocks) -> Vec<JsonNode<'a>> {
    let mut turns: Vec<(&'static str, Vec<JsonNode<'a>>)> = Vec::new();
    for message in &request.messages {
        let (role, mut blocks) = match message.role {
            Role::Assistant => ("assistant", assistant(message, options, tools)),
            Role::Tool => ("user", vec![result(message, tools)]),
            Role::User | Role::System => ("user", content(&message.content)),
        };
        if blocks.is_empty() {
            blocks.push(text_block(EMPTY));
        }
        match turns.last_mut() {
            Some((last, merged)) if *last == role => merged.append(&mut blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if turns.first().is_none_or(|(role, _)| *role != "user") {
        turns.insert(0, ("user", vec![text_block(OPENING)]));
    }
    if turns.last().is_some_and(|(role, _)| *role != "user") {
        turns.push(("user", vec![text_block(CLOSING)]));
    }
    turns
        .into_iter()
        .map(|(role, blocks)| JsonObject::new().with("role", role).with("content", blocks).into())
        .collect()
}

fn assistant<'a>(message: &'a Message, options: &WireOptions, tools: ToolBlocks) -> Vec<JsonNode<'a>> {
    let mut blocks: Vec<JsonNode<'a>> = Vec::new();
    if let Some(stored) = &message.reasoning_details
        && options.sends(RequestField::ReasoningReplay)
        && tools == ToolBlocks::Native
    {
        blocks.extend(details::converse_blocks(stored).into_iter().map(JsonNode::from));
    }
    let text = message.content.text();
    if !text.trim().is_empty() {
        blocks.push(text_block(text));
    }
    for call in &message.tool_calls {
        blocks.push(match tools {
            ToolBlocks::Native => {
                let block = JsonObject::new()
                    .with("toolUseId", safe_id(call.id.as_str()))
                    .with("name", call.name.as_str())
                    .with("input", super::arguments_object(&call.arguments));
                JsonObject::new().with("toolUse", block).into()
            }
            ToolBlocks::AsText => text_block(format!("[called {} with {}]", call.name, call.arguments)),
        });
    }
    if blocks.iter().all(|block| matches!(block, JsonNode::Raw(_))) {
        blocks.push(text_block(EMPTY));
    }
    blocks
}

fn result(message: &Message, tools: ToolBlocks) -> JsonNode<'_> {
    let mut blocks = content(&message.content);
    if blocks.is_empty() {
        blocks.push(text_block(EMPTY));
    }
    if tools == ToolBlocks::AsText {
        return text_block(format!("[tool result]\n{}", message.content.text()));
    }
    let id = safe_id(message.tool_call_id.as_ref().map_or("", |id| id.as_str()));
    let block = JsonObject::new().with("toolUseId", id).with("content", blocks);
    JsonObject::new().with("toolResult", block).into()
}

/// Returns the blocks that are not blank, because the API refuses a blank text.
fn content(content: &MessageContent) -> Vec<JsonNode<'_>> {
    match content {
        MessageContent::Text(text) if text.trim().is_empty() => Vec::new(),
        MessageContent::Text(text) => vec![text_block(text.as_str())],
        MessageContent::Parts(parts) => parts.iter().filter_map(part).collect(),
    }
}

fn part(part: &ContentPart) -> Option<JsonNode<'_>> {
    match part {
        ContentPart::Text(text) if text.trim().is_empty() => None,
        ContentPart::Text(text) => Some(text_block(text.as_str())),
        ContentPart::Image { url } => Some(match DataUrl::parse(url) {
            Some(data) => {
                let image = JsonObject::new()
                    .with("format", data.format())
                    .with("source", JsonObject::new().with("bytes", data.data));
                JsonObject::new().with("image", image).into()
            }
            // The service does not fetch URLs itself.
            None => text_block(format!("[image: {url}]")),
        }),
        ContentPart::Other(raw) => Some(text_block(raw.as_str())),
    }
}

fn text_block<'a>(text: impl Into<JsonNode<'a>>) -> JsonNode<'a> {
    JsonObject::new().with("text", text).into()
}
