//! Reads requests of all four wires: the last user text, and the calls with results.

use serde_json::Value;

/// Returns the text of the newest user message that has any.
pub(crate) fn last_user_text(body: &Value) -> Option<String> {
    if let Some(Value::String(input)) = body.get("input") {
        return Some(input.clone());
    }
    let from_user = |item: &&Value| item.get("role").and_then(Value::as_str) == Some("user");
    items(body).rev().filter(from_user).find_map(|item| {
        let text = text_of(item.get("content")?);
        (!text.is_empty()).then_some(text)
    })
}

pub(crate) fn system_text(body: &Value) -> String {
    let top = [body.get("system"), body.get("instructions")].into_iter().flatten().map(text_of);
    let is_system =
        |item: &&Value| matches!(item.get("role").and_then(Value::as_str), Some("system" | "developer"));
    let inside = items(body).filter(is_system).filter_map(|item| item.get("content")).map(text_of);
    top.chain(inside).collect::<Vec<_>>().join("\n")
}

pub(crate) fn tool_results(body: &Value) -> Vec<(String, String)> {
    let mut results = Vec::new();
    for item in items(body) {
        // Chat: a separate message; Responses: an item; Anthropic and Bedrock: blocks inside a user message.
        push_result(&mut results, item, "tool_call_id", "content");
        push_result(&mut results, item, "call_id", "output");
        for block in item.get("content").and_then(Value::as_array).into_iter().flatten() {
            push_result(&mut results, block, "tool_use_id", "content");
            if let Some(result) = block.get("toolResult") {
                push_result(&mut results, result, "toolUseId", "content");
            }
        }
    }
    results
}

pub(crate) fn tool_names(body: &Value) -> Vec<String> {
    let tools = body.get("tools").or_else(|| body.pointer("/toolConfig/tools"));
    let tools = tools.and_then(Value::as_array).into_iter().flatten();
    let name = |tool: &Value| {
        let name = ["/function/name", "/toolSpec/name", "/name"].iter().find_map(|at| tool.pointer(at))?;
        Some(name.as_str()?.to_owned())
    };
    tools.filter_map(name).collect()
}

fn items(body: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    let list = body.get("messages").or_else(|| body.get("input")).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default().iter()
}

fn push_result(results: &mut Vec<(String, String)>, item: &Value, id: &str, content: &str) {
    // A Responses call has `call_id` too, but no output.
    let (Some(Value::String(id)), Some(content)) = (item.get(id), item.get(content)) else {
        return;
    };
    results.push((id.clone(), text_of(content)));
}

/// Returns a string, or the joined texts of a list of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
