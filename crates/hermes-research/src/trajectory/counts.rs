//! What a conversation did: calls of tools, their failures, and turns with reasoning.

use std::collections::{BTreeMap, HashMap};

use hermes_text::JsonTree;
use hermes_types::{Message, Role};

use super::turns::result_text;
use crate::batch::{ReasoningCounts, ToolCounts};

const SCRATCHPAD: &str = "<REASONING_SCRATCHPAD>";

/// Counts the calls of each tool, and how they ended. A result counts for the call with its id.
pub fn count_tools(messages: &[Message]) -> BTreeMap<String, ToolCounts> {
    let mut counts: BTreeMap<String, ToolCounts> = BTreeMap::new();
    let mut names: HashMap<&str, &str> = HashMap::new();
    for message in messages {
        match message.role {
            Role::Assistant => {
                for call in &message.tool_calls {
                    counts.entry(call.name.clone()).or_default().count += 1;
                    names.insert(call.id.as_str(), &call.name);
                }
            }
            Role::Tool => {
                let name = message.tool_call_id.as_ref().and_then(|id| names.get(id.as_str()));
                let Some(counts) = name.and_then(|name| counts.get_mut(*name)) else { continue };
                if is_success(&result_text(&message.content)) {
                    counts.success += 1;
                } else {
                    counts.failure += 1;
                }
            }
            Role::User | Role::System => {}
        }
    }
    counts
}

/// Tells whether a tool's result is a success. The exit code of a command does not matter: a program that fails is often what was
/// looked for.
fn is_success(content: &str) -> bool {
    let Ok(value) = JsonTree::parse(content) else {
        return !content.is_empty() && !content.trim().to_lowercase().starts_with("error:");
    };
    let has_error = |value: &JsonTree| value.get("error").is_some_and(|error| !error.is_null());
    let failed = has_error(&value)
        || value.get("content").is_some_and(has_error)
        || value.get("success").and_then(JsonTree::as_bool) == Some(false);
    !failed
}

/// Tells whether a message of the model contains reasoning. A literal `<think>` in its text is none.
pub fn has_reasoning(message: &Message) -> bool {
    message.content.text().contains(SCRATCHPAD)
        || message.reasoning.as_deref().is_some_and(|text| !text.trim().is_empty())
}

/// Counts the turns of the model, and those with reasoning.
pub fn count_reasoning(messages: &[Message]) -> ReasoningCounts {
    let own = messages.iter().filter(|message| message.role == Role::Assistant);
    own.fold(ReasoningCounts::default(), |mut counts, message| {
        counts.turns += 1;
        counts.with_reasoning += u64::from(has_reasoning(message));
        counts
    })
}
