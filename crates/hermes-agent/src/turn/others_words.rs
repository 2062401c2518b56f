//! Whose words the model has read: the results of tools that return what files, pages, programs and other people say.

use std::sync::Arc;

use hermes_text::ellipsize;
use hermes_types::{Message, ResultAuthor, Role, Tool, ToolCall};

use super::request::parse_object;

/// The most sources that are named.
const MOST_NAMED: usize = 4;
/// The longest name of a source, in characters.
const LONGEST_NAME: usize = 120;

/// Names where the words of others came from that the model has read since the person spoke last.
pub(crate) fn others_words(tools: &[Arc<dyn Tool>], messages: &[Message]) -> Vec<String> {
    let from = messages.iter().rposition(|message| message.role == Role::User).unwrap_or_default();
    others_words_in(tools, messages.get(from..).unwrap_or_default())
}

/// Names where the words of others in these messages came from, the newest first.
pub(crate) fn others_words_in(tools: &[Arc<dyn Tool>], messages: &[Message]) -> Vec<String> {
    let mut named: Vec<String> = Vec::new();
    for message in messages.iter().rev().filter(|message| message.role == Role::Tool) {
        let call = messages
            .iter()
            .flat_map(|asking| &asking.tool_calls)
            .find(|call| Some(&call.id) == message.tool_call_id.as_ref());
        let Some(call) = call else { continue };
        // A tool that is gone since may have returned anything.
        let known = tools.iter().find(|tool| tool.spec().name == call.name);
        if known.is_some_and(|tool| tool.descriptor().result_author == ResultAuthor::Tool) {
            continue;
        }
        let name = source(call, known.map(|tool| tool.descriptor().preview_arguments).unwrap_or_default());
        if !named.contains(&name) {
            named.push(name);
        }
        if named.len() == MOST_NAMED {
            break;
        }
    }
    named
}

/// Names a call by its tool and the argument that describes it best.
fn source(call: &ToolCall, arguments: &[&str]) -> String {
    let fields = parse_object(&call.arguments).unwrap_or_default();
    let text = |name: &&str| match fields.get(*name)? {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Array(items) => items.first()?.as_str().map(str::to_owned),
        _ => None,
    };
    let about = ["url", "urls"].iter().chain(arguments).find_map(text).unwrap_or_default();
    let about = hermes_text::single_line(&about);
    let name = if about.is_empty() { call.name.clone() } else { format!("{} {about}", call.name) };
    ellipsize(&name, LONGEST_NAME).into_owned()
}
