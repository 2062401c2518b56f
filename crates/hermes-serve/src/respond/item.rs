//! The items an answer consists of: calls, their results, and what was said.

use hermes_types::{Message, Role, random_hex};
use serde_json::{Value, json};

use crate::run::Ran;
use crate::said::Finish;

/// What happened in this turn, and in no other.
pub(super) fn output(ran: &Ran) -> Vec<Value> {
    let mut items = happened(ran);
    items.push(message(&message_id(), message_status(ran.said.finish), &ran.said.text));
    items
}

/// The same without the last words.
pub(super) fn happened(ran: &Ran) -> Vec<Value> {
    let mut items = Vec::new();
    for said in ran.messages.get(ran.first..).unwrap_or_default() {
        items.extend(
            said.tool_calls
                .iter()
                .map(|done| call(done.id.as_str(), &done.name, &done.arguments, "completed")),
        );
        items.extend(result_of(said));
    }
    items
}

pub(super) fn message_id() -> String {
    format!("msg_{}", random_hex(24))
}

/// Words that were cut off are marked so.
pub(super) fn message_status(finish: Finish) -> &'static str {
    if finish == Finish::Stop { "completed" } else { "incomplete" }
}

pub(super) fn call(id: &str, name: &str, arguments: &str, status: &str) -> Value {
    json!({
        "type": "function_call", "id": format!("fc_{id}"), "status": status,
        "name": name, "arguments": arguments, "call_id": id,
    })
}

/// What a call came to, as streams tell it.
pub(super) fn result(id: &str, text: &str) -> Value {
    let output = json!([{"type": "input_text", "text": text}]);
    json!({
        "type": "function_call_output", "id": format!("fco_{id}"), "status": "completed", "call_id": id,
        "output": output,
    })
}

fn result_of(said: &Message) -> Option<Value> {
    let id = said.tool_call_id.as_ref().filter(|_| said.role == Role::Tool)?.as_str();
    let mut item = result(id, "");
    item["output"] = json!(said.content.text());
    Some(item)
}

pub(super) fn message(id: &str, status: &str, text: &str) -> Value {
    json!({
        "type": "message", "id": id, "status": status, "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    })
}
