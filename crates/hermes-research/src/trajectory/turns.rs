//! The conversion of messages to turns.

use std::fmt::Write as _;

use hermes_text::JsonTree;
use hermes_types::{ContentPart, Message, MessageContent, Role, ToolCall, ToolSpec};

use super::system::system_text;

/// What stands in the place of a picture in a tool's result.
const PICTURE: &str = "[screenshot]";

/// One turn of a trajectory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrajectoryTurn {
    /// `system`, `human`, `gpt` or `tool`.
    pub from: String,
    pub value: String,
}

impl TrajectoryTurn {
    fn new(from: &str, value: String) -> Self {
        Self { from: from.to_owned(), value }
    }

    pub fn to_json(&self) -> JsonTree {
        JsonTree::object([("from", self.from.as_str().into()), ("value", self.value.as_str().into())])
    }

    /// Reads a turn. `None` when it is not an object with both texts.
    pub fn from_json(value: &JsonTree) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(JsonTree::as_str).map(str::to_owned);
        Some(Self { from: text("from")?, value: text("value")? })
    }
}

/// How reasoning is written into the turns of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReasoningForm {
    /// In tags on lines of their own, which every turn has.
    OwnLines,
    /// In tags around the text alone, where there is reasoning.
    Inline,
}

/// Converts a conversation. `query` is what the user asked; the first message, which holds it, is not converted.
pub fn trajectory_of(query: &str, messages: &[Message], tools: &[ToolSpec]) -> Vec<TrajectoryTurn> {
    trajectory_in(ReasoningForm::OwnLines, query, messages, tools)
}

/// Converts a conversation, with reasoning in a certain form.
pub(crate) fn trajectory_in(
    form: ReasoningForm,
    query: &str,
    messages: &[Message],
    tools: &[ToolSpec],
) -> Vec<TrajectoryTurn> {
    let mut turns = vec![
        TrajectoryTurn::new("system", system_text(tools)),
        TrajectoryTurn::new("human", query.to_owned()),
    ];
    let mut waiting = messages.iter().skip(1).peekable();
    while let Some(message) = waiting.next() {
        match message.role {
            Role::User => turns.push(TrajectoryTurn::new("human", user_text(&message.content))),
            Role::Assistant => {
                turns.push(TrajectoryTurn::new("gpt", assistant_value(message, form)));
                if message.tool_calls.is_empty() {
                    continue;
                }
                let mut results = Vec::new();
                while let Some(result) = waiting.next_if(|next| next.role == Role::Tool) {
                    results.push(result_value(result, message.tool_calls.get(results.len())));
                }
                if !results.is_empty() {
                    turns.push(TrajectoryTurn::new("tool", results.join("\n")));
                }
            }
            // A result without its call, and system messages, have no place in a trajectory.
            Role::Tool | Role::System => {}
        }
    }
    turns
}

fn assistant_value(message: &Message, form: ReasoningForm) -> String {
    let mut value = String::new();
    if let Some(reasoning) = message.reasoning.as_deref().filter(|text| !text.trim().is_empty()) {
        match form {
            // Writing to a `String` cannot fail.
            ReasoningForm::OwnLines => drop(writeln!(value, "<think>\n{reasoning}\n</think>")),
            ReasoningForm::Inline => drop(write!(value, "<think>{reasoning}</think>")),
        }
    }
    let content = message.content.text();
    let content =
        content.replace("<REASONING_SCRATCHPAD>", "<think>").replace("</REASONING_SCRATCHPAD>", "</think>");
    if message.tool_calls.is_empty() {
        value.push_str(&content);
    } else {
        if !content.trim().is_empty() {
            let _ = writeln!(value, "{content}");
        }
        for call in &message.tool_calls {
            let _ = writeln!(value, "<tool_call>\n{}\n</tool_call>", call_value(call));
        }
    }
    if form == ReasoningForm::OwnLines && !value.contains("<think>") {
        value.insert_str(0, "<think>\n</think>\n");
    }
    let kept = if message.tool_calls.is_empty() { value.trim() } else { value.trim_end() };
    kept.to_owned()
}

fn call_value(call: &ToolCall) -> JsonTree {
    let arguments = JsonTree::parse(&call.arguments).unwrap_or_else(|error| {
        tracing::warn!(tool = call.name, %error, "the arguments of a call are not JSON; the trajectory has none");
        JsonTree::object([])
    });
    JsonTree::object([("name", call.name.as_str().into()), ("arguments", arguments)])
}

/// Describes a result. It gets the name of the call at its own position, whatever its id says.
fn result_value(result: &Message, call: Option<&ToolCall>) -> String {
    let text = result_text(&result.content);
    let trimmed = text.trim();
    let embedded = if trimmed.starts_with(['{', '[']) { JsonTree::parse(trimmed).ok() } else { None };
    let value = JsonTree::object([
        ("tool_call_id", result.tool_call_id.as_ref().map_or("", |id| id.as_str()).into()),
        ("name", call.map_or("unknown", |call| call.name.as_str()).into()),
        ("content", embedded.unwrap_or(JsonTree::String(text))),
    ]);
    format!("<tool_response>\n{value}\n</tool_response>")
}

/// Returns the text of a tool's result, with a word in the place of each picture.
pub(super) fn result_text(content: &MessageContent) -> String {
    match content {
        MessageContent::Text(text) => text.clone(),
        MessageContent::Parts(parts) => {
            let texts = parts.iter().filter_map(|part| match part {
                ContentPart::Text(text) => Some(text.clone()),
                ContentPart::Image { .. } => Some(PICTURE.to_owned()),
                ContentPart::Other(raw) => {
                    let kind = raw.to_value();
                    let kind = kind.get("type").and_then(|kind| kind.as_str());
                    matches!(kind, Some("image" | "image_url" | "input_image")).then(|| PICTURE.to_owned())
                }
            });
            texts.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Returns the text of a user's message; pictures are only counted.
pub(super) fn user_text(content: &MessageContent) -> String {
    match content {
        MessageContent::Text(text) => text.clone(),
        MessageContent::Parts(parts) => {
            let texts: Vec<&str> = parts.iter().filter_map(ContentPart::text).collect();
            let pictures = parts.len() - texts.len();
            let text = texts.join(" ");
            match pictures {
                0 => text,
                1 => format!("{text} [1 image]"),
                many => format!("{text} [{many} images]"),
            }
        }
    }
}
