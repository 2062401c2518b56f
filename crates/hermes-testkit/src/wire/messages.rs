//! Anthropic Messages: complete responses and block streams.

use serde_json::{Value, json};

use super::StreamEncoder;
use super::sse::SseWriter;
use super::turn::{ScriptedTurn, TurnAction, TurnReasoning, WireToolCall, merge};
use crate::script::{ScriptedFinish, ScriptedUsage};

pub(crate) struct MessagesStreamEncoder<'a> {
    turn: &'a ScriptedTurn,
    next: u64,
    open_text: Option<u64>,
    pinged: bool,
}

impl<'a> MessagesStreamEncoder<'a> {
    pub(crate) fn new(turn: &'a ScriptedTurn) -> Self {
        Self { turn, next: 0, open_text: None, pinged: false }
    }

    fn start_block(&mut self, block: &Value, out: &mut SseWriter) -> u64 {
        let index = self.next;
        self.next += 1;
        send(out, "content_block_start", &json!({"index": index, "content_block": block}));
        // The provider sends a ping after the first block has begun.
        if !self.pinged && !self.turn.quirks.no_ping {
            send(out, "ping", &json!({}));
        }
        self.pinged = true;
        index
    }

    fn end_text(&mut self, out: &mut SseWriter) {
        if let Some(index) = self.open_text.take() {
            stop_block(index, out);
        }
    }

    fn call_part(index: u64, call: &WireToolCall, part: usize, out: &mut SseWriter) {
        let Some(part) = call.parts.get(part) else { return };
        let delta = json!({"type": "input_json_delta", "partial_json": part.text});
        let event = typed("content_block_delta", &json!({"index": index, "delta": delta}));
        out.json_cut_inside(Some("content_block_delta"), &event, &part.text, &part.cuts);
    }
}

impl StreamEncoder for MessagesStreamEncoder<'_> {
    fn open(&mut self, out: &mut SseWriter) {
        let mut message = head(self.turn, &json!([]));
        message["stop_reason"] = Value::Null;
        if let Some(usage) = &self.turn.usage {
            message["usage"] = usage_object(usage);
            message["usage"]["output_tokens"] = json!(1);
        }
        send(out, "message_start", &json!({"message": message}));
    }

    fn text(&mut self, parts: &[String], out: &mut SseWriter) {
        let index = if let Some(index) = self.open_text {
            index
        } else {
            self.start_block(&json!({"type": "text", "text": ""}), out)
        };
        self.open_text = Some(index);
        for part in parts {
            block_delta(index, &json!({"type": "text_delta", "text": part}), out);
        }
    }

    fn reasoning(&mut self, thought: &TurnReasoning, out: &mut SseWriter) {
        self.end_text(out);
        if let (true, Some(data)) = (thought.parts.is_empty(), &thought.encrypted) {
            let index = self.start_block(&json!({"type": "redacted_thinking", "data": data}), out);
            stop_block(index, out);
            return;
        }
        let index = self.start_block(&json!({"type": "thinking", "thinking": "", "signature": ""}), out);
        for part in &thought.parts {
            block_delta(index, &json!({"type": "thinking_delta", "thinking": part}), out);
        }
        if let Some(signature) = &thought.signature {
            block_delta(index, &json!({"type": "signature_delta", "signature": signature}), out);
        }
        stop_block(index, out);
    }

    fn calls(&mut self, calls: &[WireToolCall], interleave: bool, out: &mut SseWriter) {
        self.end_text(out);
        let mut start = |call: &WireToolCall, out: &mut SseWriter| {
            let block = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
            let index = self.start_block(&block, out);
            block_delta(index, &json!({"type": "input_json_delta", "partial_json": ""}), out);
            index
        };
        if interleave {
            let open: Vec<(u64, &WireToolCall)> = calls.iter().map(|call| (start(call, out), call)).collect();
            let longest = calls.iter().map(|call| call.parts.len()).max().unwrap_or_default();
            for part in 0..longest {
                for (index, call) in &open {
                    Self::call_part(*index, call, part, out);
                }
            }
            for (index, _) in open {
                stop_block(index, out);
            }
            return;
        }
        for call in calls {
            let index = start(call, out);
            for part in 0..call.parts.len() {
                Self::call_part(index, call, part, out);
            }
            stop_block(index, out);
        }
    }

    fn usage_here(&mut self, _out: &mut SseWriter) {}

    fn error(&mut self, message: &str, kind: Option<&str>, _code: &Value, out: &mut SseWriter) {
        let kind = kind.unwrap_or("overloaded_error");
        send(out, "error", &json!({"error": {"type": kind, "message": message}}));
    }

    fn ping(&mut self, out: &mut SseWriter) {
        send(out, "ping", &json!({}));
    }

    fn close(&mut self, out: &mut SseWriter) {
        self.end_text(out);
        if let Some(reason) = stop_reason(&self.turn.finish) {
            let mut event = json!({"delta": {"stop_reason": reason, "stop_sequence": null}});
            if let Some(usage) = &self.turn.usage {
                event["usage"] = usage_object(usage);
            }
            send(out, "message_delta", &event);
        }
        send(out, "message_stop", &json!({}));
    }
}

/// Encodes the response to a request without `stream`.
pub(crate) fn plain(turn: &ScriptedTurn) -> String {
    let mut content: Vec<Value> = Vec::new();
    for act in &turn.acts {
        match act {
            TurnAction::Text(parts) => push_text(&mut content, &parts.concat()),
            TurnAction::Thought(thought) => content.push(thinking_block(thought)),
            TurnAction::Calls { calls, .. } => content.extend(calls.iter().map(tool_block)),
            _ => {}
        }
    }
    let mut message = head(turn, &Value::Array(content));
    message["stop_reason"] = json!(stop_reason(&turn.finish));
    if let Some(usage) = &turn.usage {
        message["usage"] = usage_object(usage);
    }
    message.to_string()
}

/// Appends text to the previous block, as a stream would.
fn push_text(content: &mut Vec<Value>, text: &str) {
    if let Some(last) = content.last_mut()
        && let Some(so_far) = last.get("text").and_then(Value::as_str)
    {
        last["text"] = json!(format!("{so_far}{text}"));
        return;
    }
    content.push(json!({"type": "text", "text": text}));
}

fn thinking_block(thought: &TurnReasoning) -> Value {
    match &thought.encrypted {
        Some(data) if thought.parts.is_empty() => json!({"type": "redacted_thinking", "data": data}),
        _ => {
            let signature = thought.signature.as_deref().unwrap_or_default();
            json!({"type": "thinking", "thinking": thought.joined(), "signature": signature})
        }
    }
}

fn tool_block(call: &WireToolCall) -> Value {
    // A complete response cannot carry broken arguments: on this wire they are JSON, not a string of JSON.
    let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn head(turn: &ScriptedTurn, content: &Value) -> Value {
    json!({
        "id": format!("msg_{:06}", turn.sequence),
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": content,
        "stop_reason": null,
        "stop_sequence": null,
    })
}

fn send(out: &mut SseWriter, name: &str, fields: &Value) {
    out.json(Some(name), &typed(name, fields));
}

/// Builds an event whose first field is its name.
fn typed(name: &str, fields: &Value) -> Value {
    let mut event = json!({"type": name});
    if let Value::Object(fields) = fields {
        merge(&mut event, fields);
    }
    event
}

fn block_delta(index: u64, delta: &Value, out: &mut SseWriter) {
    send(out, "content_block_delta", &json!({"index": index, "delta": delta}));
}

fn stop_block(index: u64, out: &mut SseWriter) {
    send(out, "content_block_stop", &json!({"index": index}));
}

fn stop_reason(finish: &ScriptedFinish) -> Option<&str> {
    Some(match finish {
        ScriptedFinish::Stop => "end_turn",
        ScriptedFinish::ToolCalls => "tool_use",
        ScriptedFinish::Length => "max_tokens",
        ScriptedFinish::ContentFilter => "refusal",
        ScriptedFinish::Other(word) => word,
        ScriptedFinish::Missing => return None,
    })
}

/// Builds the usage object, which counts cached input separately on this wire.
fn usage_object(usage: &ScriptedUsage) -> Value {
    let mut object = json!({
        "input_tokens": usage.input.saturating_sub(usage.cached + usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    });
    merge(&mut object, &usage.extra);
    object
}
