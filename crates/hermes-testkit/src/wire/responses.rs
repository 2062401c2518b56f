//! OpenAI Responses: complete responses and item streams.

use serde_json::{Value, json};

use super::StreamEncoder;
use super::sse::SseWriter;
use super::turn::{CREATED, ScriptedTurn, TurnAction, TurnReasoning, WireToolCall, merge};
use crate::script::{ScriptedFinish, ScriptedUsage};

pub(crate) struct ResponsesStreamEncoder<'a> {
    turn: &'a ScriptedTurn,
    sequence: u64,
    /// The finished items, and a placeholder for each unfinished one.
    output: Vec<Value>,
    open_text: Option<OpenText>,
}

struct OpenText {
    index: usize,
    id: String,
    text: String,
}

impl<'a> ResponsesStreamEncoder<'a> {
    pub(crate) fn new(turn: &'a ScriptedTurn) -> Self {
        Self { turn, sequence: 0, output: Vec::new(), open_text: None }
    }

    fn event(&mut self, name: &str, fields: &Value) -> Value {
        let mut event = json!({"type": name, "sequence_number": self.sequence});
        self.sequence += 1;
        if let Value::Object(fields) = fields {
            merge(&mut event, fields);
        }
        event
    }

    fn send(&mut self, name: &str, fields: &Value, out: &mut SseWriter) {
        let event = self.event(name, fields);
        out.json(Some(name), &event);
    }

    fn add_item(&mut self, item: Value, out: &mut SseWriter) -> usize {
        let index = self.output.len();
        self.send("response.output_item.added", &json!({"output_index": index, "item": item}), out);
        self.output.push(item);
        index
    }

    fn finish_item(&mut self, index: usize, item: Value, out: &mut SseWriter) {
        self.send("response.output_item.done", &json!({"output_index": index, "item": item}), out);
        if let Some(place) = self.output.get_mut(index) {
            *place = item;
        }
    }

    fn end_text(&mut self, out: &mut SseWriter) {
        let Some(OpenText { index, id, text }) = self.open_text.take() else {
            return;
        };
        let place = json!({"item_id": id, "output_index": index, "content_index": 0});
        let mut done = place.clone();
        done["text"] = json!(text);
        done["logprobs"] = json!([]);
        self.send("response.output_text.done", &done, out);
        let mut part = place;
        part["part"] = text_part(&text);
        self.send("response.content_part.done", &part, out);
        self.finish_item(index, message_item(&id, &text), out);
    }

    fn start_call(&mut self, call: &WireToolCall, out: &mut SseWriter) -> usize {
        self.add_item(call_item(call, "in_progress", ""), out)
    }

    fn call_part(&mut self, index: usize, call: &WireToolCall, part: usize, out: &mut SseWriter) {
        let Some(part) = call.parts.get(part) else { return };
        let name = "response.function_call_arguments.delta";
        let fields = json!({"item_id": call.item_id, "output_index": index, "delta": part.text});
        let event = self.event(name, &fields);
        out.json_cut_inside(Some(name), &event, &part.text, &part.cuts);
    }

    fn end_call(&mut self, index: usize, call: &WireToolCall, out: &mut SseWriter) {
        let done = json!({"item_id": call.item_id, "output_index": index, "name": call.name,
            "arguments": call.arguments});
        self.send("response.function_call_arguments.done", &done, out);
        self.finish_item(index, call_item(call, "completed", &call.arguments), out);
    }
}

impl StreamEncoder for ResponsesStreamEncoder<'_> {
    fn open(&mut self, out: &mut SseWriter) {
        let response = head(self.turn, "in_progress", &json!([]));
        self.send("response.created", &json!({"response": response}), out);
        self.send("response.in_progress", &json!({"response": response}), out);
    }

    fn text(&mut self, parts: &[String], out: &mut SseWriter) {
        let mut open = if let Some(open) = self.open_text.take() {
            open
        } else {
            let id = message_id(self.turn, self.output.len());
            let item = json!({"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []});
            let index = self.add_item(item, out);
            let part =
                json!({"item_id": id, "output_index": index, "content_index": 0, "part": text_part("")});
            self.send("response.content_part.added", &part, out);
            OpenText { index, id, text: String::new() }
        };
        for part in parts {
            open.text.push_str(part);
            let delta = json!({"item_id": open.id, "output_index": open.index, "content_index": 0, "delta": part,
                "logprobs": []});
            self.send("response.output_text.delta", &delta, out);
        }
        self.open_text = Some(open);
    }

    fn reasoning(&mut self, thought: &TurnReasoning, out: &mut SseWriter) {
        self.end_text(out);
        let index = self.add_item(json!({"id": thought.id, "type": "reasoning", "summary": []}), out);
        if !thought.parts.is_empty() {
            let place = json!({"item_id": thought.id, "output_index": index, "summary_index": 0});
            let with = |name: &str, value: Value| {
                let mut fields = place.clone();
                fields[name] = value;
                fields
            };
            let part = |text: &str| json!({"type": "summary_text", "text": text});
            self.send("response.reasoning_summary_part.added", &with("part", part("")), out);
            for delta in &thought.parts {
                self.send("response.reasoning_summary_text.delta", &with("delta", json!(delta)), out);
            }
            let text = thought.joined();
            self.send("response.reasoning_summary_text.done", &with("text", json!(text)), out);
            self.send("response.reasoning_summary_part.done", &with("part", part(&text)), out);
        }
        self.finish_item(index, reasoning_item(thought), out);
    }

    fn calls(&mut self, calls: &[WireToolCall], interleave: bool, out: &mut SseWriter) {
        self.end_text(out);
        if interleave {
            let open: Vec<(usize, &WireToolCall)> =
                calls.iter().map(|call| (self.start_call(call, out), call)).collect();
            let longest = calls.iter().map(|call| call.parts.len()).max().unwrap_or_default();
            for part in 0..longest {
                for (index, call) in &open {
                    self.call_part(*index, call, part, out);
                }
            }
            for (index, call) in open {
                self.end_call(index, call, out);
            }
            return;
        }
        for call in calls {
            let index = self.start_call(call, out);
            for part in 0..call.parts.len() {
                self.call_part(index, call, part, out);
            }
            self.end_call(index, call, out);
        }
    }

    fn usage_here(&mut self, _out: &mut SseWriter) {}

    fn error(&mut self, message: &str, kind: Option<&str>, code: &Value, out: &mut SseWriter) {
        let code = if code.is_null() { json!(kind.unwrap_or("server_error")) } else { code.clone() };
        self.send("error", &json!({"code": code, "message": message, "param": null}), out);
        let mut response = head(self.turn, "failed", &Value::Array(self.output.clone()));
        response["error"] = json!({"code": code, "message": message});
        self.send("response.failed", &json!({"response": response}), out);
    }

    fn ping(&mut self, out: &mut SseWriter) {
        out.comment("keep-alive");
    }

    fn close(&mut self, out: &mut SseWriter) {
        self.end_text(out);
        if self.turn.finish == ScriptedFinish::Missing {
            return;
        }
        let response = whole(self.turn, std::mem::take(&mut self.output));
        let name =
            if response["status"] == "completed" { "response.completed" } else { "response.incomplete" };
        self.send(name, &json!({"response": response}), out);
    }
}

/// Encodes the response to a request without `stream`.
pub(crate) fn plain(turn: &ScriptedTurn) -> String {
    let mut output: Vec<Value> = Vec::new();
    for act in &turn.acts {
        match act {
            TurnAction::Text(parts) => push_text(&mut output, turn, &parts.concat()),
            TurnAction::Thought(thought) => output.push(reasoning_item(thought)),
            TurnAction::Calls { calls, .. } => {
                output.extend(calls.iter().map(|call| call_item(call, "completed", &call.arguments)));
            }
            _ => {}
        }
    }
    whole(turn, output).to_string()
}

/// Appends text to the previous message, as a stream would.
fn push_text(output: &mut Vec<Value>, turn: &ScriptedTurn, text: &str) {
    let index = output.len();
    if let Some(last) = output.last_mut()
        && let Some(so_far) = last.pointer("/content/0/text").and_then(Value::as_str)
    {
        let text = format!("{so_far}{text}");
        *last = message_item(&message_id(turn, index - 1), &text);
        return;
    }
    output.push(message_item(&message_id(turn, index), text));
}

/// Builds the complete response object.
fn whole(turn: &ScriptedTurn, output: Vec<Value>) -> Value {
    let reason = match &turn.finish {
        ScriptedFinish::Length => Some("max_output_tokens"),
        ScriptedFinish::ContentFilter => Some("content_filter"),
        ScriptedFinish::Other(word) => Some(word.as_str()),
        ScriptedFinish::Stop | ScriptedFinish::ToolCalls | ScriptedFinish::Missing => None,
    };
    let status = if reason.is_some() { "incomplete" } else { "completed" };
    let mut response = head(turn, status, &Value::Array(output));
    if let Some(reason) = reason {
        response["incomplete_details"] = json!({"reason": reason});
    }
    response["usage"] = turn.usage.as_ref().map_or(Value::Null, usage_object);
    response
}

fn head(turn: &ScriptedTurn, status: &str, output: &Value) -> Value {
    json!({
        "id": format!("resp_{:06}", turn.sequence),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "metadata": {},
        "model": turn.model,
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "reasoning": {"effort": null, "summary": null},
        "store": false,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": null,
        "user": null,
    })
}

fn message_id(turn: &ScriptedTurn, index: usize) -> String {
    format!("msg_{:04}{index:02}", turn.sequence)
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn message_item(id: &str, text: &str) -> Value {
    json!({"id": id, "type": "message", "status": "completed", "role": "assistant", "content": [text_part(text)]})
}

fn call_item(call: &WireToolCall, status: &str, arguments: &str) -> Value {
    json!({"id": call.item_id, "type": "function_call", "status": status, "arguments": arguments,
        "call_id": call.id, "name": call.name})
}

fn reasoning_item(thought: &TurnReasoning) -> Value {
    let summary: Vec<Value> = match thought.joined() {
        text if text.is_empty() => Vec::new(),
        text => vec![json!({"type": "summary_text", "text": text})],
    };
    let mut item = json!({"id": thought.id, "type": "reasoning", "summary": summary});
    if let Some(encrypted) = &thought.encrypted {
        item["encrypted_content"] = json!(encrypted);
    }
    item
}

fn usage_object(usage: &ScriptedUsage) -> Value {
    let mut object = json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    });
    merge(&mut object, &usage.extra);
    object
}
