//! The items of a response: calls, their results, and messages.

use hermes_types::{Role, random_hex};
use serde_json::{Value, json};

use crate::run::CompletedTurn;
use crate::settings::ToolItems;
use crate::turn_answer::ApiFinishReason;

/// Returns the items of this turn only.
pub(super) fn output_items(ran: &CompletedTurn, form: ToolItems) -> Vec<Value> {
    let mut items = tool_items(ran, form);
    items.push(message(&message_id(), message_status(ran.answer.finish), &ran.answer.text));
    items
}

/// Returns the items without the final message.
pub(super) fn tool_items(ran: &CompletedTurn, form: ToolItems) -> Vec<Value> {
    let said = ran.messages.get(ran.first..).unwrap_or_default();
    let result_of = |id: &str| {
        let found = said.iter().find(|message| {
            message.role == Role::Tool && message.tool_call_id.as_ref().is_some_and(|own| own.as_str() == id)
        });
        found.map(|message| message.content.text().into_owned())
    };
    let mut items = Vec::new();
    for done in said.iter().flat_map(|message| &message.tool_calls) {
        let (id, result) = (done.id.as_str(), result_of(done.id.as_str()));
        let mut item = call(id, &done.name, &done.arguments, "completed", form);
        match form {
            ToolItems::McpCall => {
                item["output"] = json!(result);
                items.push(item);
            }
            ToolItems::FunctionCall => {
                items.push(item);
                items.extend(result.map(|text| {
                    let mut item = function_result(id, "");
                    item["output"] = json!(text);
                    item
                }));
            }
        }
    }
    items
}

pub(super) fn message_id() -> String {
    format!("msg_{}", random_hex(24))
}

/// Returns the status of a message; one that was cut off is incomplete.
pub(super) fn message_status(finish: ApiFinishReason) -> &'static str {
    if finish == ApiFinishReason::Stop { "completed" } else { "incomplete" }
}

/// Returns the item of a call that ran on the server.
pub(super) fn call(id: &str, name: &str, arguments: &str, status: &str, form: ToolItems) -> Value {
    match form {
        ToolItems::McpCall => json!({
            "type": "mcp_call", "id": format!("mcp_{id}"), "status": status, "server_label": "hermes",
            "name": name, "arguments": arguments, "output": null, "error": null, "approval_request_id": null,
        }),
        ToolItems::FunctionCall => json!({
            "type": "function_call", "id": format!("fc_{id}"), "status": status,
            "name": name, "arguments": arguments, "call_id": id,
        }),
    }
}

/// Returns the result of a call as a separate item.
pub(super) fn function_result(id: &str, text: &str) -> Value {
    let output = json!([{"type": "input_text", "text": text}]);
    json!({
        "type": "function_call_output", "id": format!("fco_{id}"), "status": "completed", "call_id": id,
        "output": output,
    })
}

pub(super) fn message(id: &str, status: &str, text: &str) -> Value {
    json!({
        "type": "message", "id": id, "status": status, "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    })
}
