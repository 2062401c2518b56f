//! OpenAI chat completions: complete responses and chunk streams.

use serde_json::{Map, Value, json};

use super::StreamEncoder;
use super::sse::SseWriter;
use super::turn::{CREATED, ScriptedTurn, TurnReasoning, WireToolCall, merge};
use crate::script::{ReasoningField, ScriptedFinish, ScriptedUsage, UsagePlace};

pub(crate) struct ChatStreamEncoder<'a> {
    turn: &'a ScriptedTurn,
}

impl<'a> ChatStreamEncoder<'a> {
    pub(crate) fn new(turn: &'a ScriptedTurn) -> Self {
        Self { turn }
    }

    fn delta(&self, delta: &Value) -> Value {
        self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]), None)
    }

    fn chunk(&self, choices: &Value, usage: Option<Value>) -> Value {
        let mut chunk = json!({
            "id": id(self.turn),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.turn.model,
            "choices": choices,
        });
        // A client that asked for usage gets the field in every chunk, null until the last.
        if let Some(usage) = usage.or(self.turn.include_usage.then_some(Value::Null)) {
            chunk["usage"] = usage;
        }
        chunk
    }

    fn call_head(&self, call: &WireToolCall, arguments: &str) -> Value {
        let mut head = json!({"index": call.index});
        if !self.turn.quirks.no_tool_id {
            head["id"] = json!(call.id);
        }
        head["type"] = json!("function");
        head["function"] = json!({"name": call.name, "arguments": arguments});
        if let Some(extra) = &call.extra_content {
            head["extra_content"] = extra.clone();
        }
        head
    }

    fn call_part(&self, call: &WireToolCall, part: usize, out: &mut SseWriter) {
        let Some(part) = call.parts.get(part) else { return };
        let entry = if self.turn.quirks.repeat_tool_head {
            self.call_head(call, &part.text)
        } else {
            json!({"index": call.index, "function": {"arguments": part.text}})
        };
        out.json_cut_inside(None, &self.delta(&json!({"tool_calls": [entry]})), &part.text, &part.cuts);
    }

    fn usage_at(&self, places: &[UsagePlace]) -> Option<Value> {
        let usage = self.turn.usage.as_ref()?;
        places.contains(&usage.at).then(|| usage_object(usage))
    }
}

impl StreamEncoder for ChatStreamEncoder<'_> {
    fn open(&mut self, out: &mut SseWriter) {
        if self.turn.quirks.no_role {
            return;
        }
        let content = if self.turn.text().is_empty() { Value::Null } else { json!("") };
        out.json(None, &self.delta(&json!({"role": "assistant", "content": content})));
    }

    fn text(&mut self, parts: &[String], out: &mut SseWriter) {
        for part in parts {
            out.json(None, &self.delta(&json!({"content": part})));
        }
    }

    fn reasoning(&mut self, thought: &TurnReasoning, out: &mut SseWriter) {
        for part in &thought.parts {
            let mut delta = Map::new();
            put_reasoning(&mut delta, thought.field, part);
            if thought.field != ReasoningField::ReasoningContent && thought.details.is_none() {
                let detail = json!({"type": "reasoning.text", "text": part, "format": "unknown", "index": 0});
                delta.insert("reasoning_details".into(), json!([detail]));
            }
            if !delta.is_empty() {
                out.json(None, &self.delta(&Value::Object(delta)));
            }
        }
        match &thought.details {
            Some(Value::String(raw)) => {
                let chunk = self.delta(&json!({"reasoning_details": RAW_SLOT}));
                out.data(None, &fill(&chunk, raw));
            }
            Some(details) => out.json(None, &self.delta(&json!({"reasoning_details": details}))),
            None => {
                let tail = closing_details(thought);
                if !tail.is_empty() {
                    out.json(None, &self.delta(&json!({"reasoning_details": tail})));
                }
            }
        }
    }

    fn calls(&mut self, calls: &[WireToolCall], interleave: bool, out: &mut SseWriter) {
        let start = |call: &WireToolCall, out: &mut SseWriter| {
            // One part only: servers that do not stream arguments send head and arguments together.
            let together = call.parts.len() == 1 && self.turn.quirks.index_zero;
            let arguments = if together { call.arguments.as_str() } else { "" };
            out.json(None, &self.delta(&json!({"tool_calls": [self.call_head(call, arguments)]})));
            !together
        };
        if interleave {
            let open: Vec<&WireToolCall> = calls.iter().filter(|call| start(call, out)).collect();
            let longest = open.iter().map(|call| call.parts.len()).max().unwrap_or_default();
            for part in 0..longest {
                for call in &open {
                    self.call_part(call, part, out);
                }
            }
            return;
        }
        for call in calls {
            if start(call, out) {
                for part in 0..call.parts.len() {
                    self.call_part(call, part, out);
                }
            }
        }
    }

    fn usage_here(&mut self, out: &mut SseWriter) {
        if let Some(usage) = self.usage_at(&[UsagePlace::Here]) {
            out.json(None, &self.chunk(&json!([]), Some(usage)));
        }
    }

    fn error(&mut self, message: &str, kind: Option<&str>, code: &Value, out: &mut SseWriter) {
        let kind = kind.unwrap_or("server_error");
        out.json(None, &json!({"error": {"message": message, "type": kind, "param": null, "code": code}}));
    }

    fn ping(&mut self, out: &mut SseWriter) {
        out.comment("keep-alive");
    }

    fn close(&mut self, out: &mut SseWriter) {
        if let Some(reason) = finish_word(&self.turn.finish) {
            let choices = json!([{"index": 0, "delta": {}, "finish_reason": reason}]);
            out.json(None, &self.chunk(&choices, self.usage_at(&[UsagePlace::Finish])));
        }
        let late: &[UsagePlace] = if self.turn.include_usage {
            &[UsagePlace::End, UsagePlace::Always]
        } else {
            &[UsagePlace::Always]
        };
        if let Some(usage) = self.usage_at(late) {
            out.json(None, &self.chunk(&json!([]), Some(usage)));
        }
        if !self.turn.quirks.no_done {
            out.data(None, "[DONE]");
        }
    }
}

/// Encodes the response to a request without `stream`.
pub(crate) fn plain(turn: &ScriptedTurn) -> String {
    let text = turn.text();
    let calls: Vec<Value> = turn
        .calls()
        .map(|call| {
            let mut object = json!({"id": call.id, "type": "function"});
            if turn.quirks.no_tool_id {
                object = json!({"type": "function"});
            }
            object["function"] = json!({"name": call.name, "arguments": call.arguments});
            if let Some(extra) = &call.extra_content {
                object["extra_content"] = extra.clone();
            }
            object
        })
        .collect();
    let content = if text.is_empty() && !calls.is_empty() { Value::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    let raw = put_thoughts(&mut message, turn);
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let mut answer = json!({
        "id": id(turn),
        "object": "chat.completion",
        "created": CREATED,
        "model": turn.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish_word(&turn.finish)}],
    });
    if let Some(usage) = &turn.usage {
        answer["usage"] = usage_object(usage);
    }
    fill(&answer, raw.as_deref().unwrap_or_default())
}

/// Adds reasoning to a complete message; returns details that must be inserted byte for byte.
fn put_thoughts(message: &mut Value, turn: &ScriptedTurn) -> Option<String> {
    let Value::Object(fields) = message else {
        return None;
    };
    let mut raw = None;
    let mut details = Vec::new();
    for thought in turn.thoughts() {
        put_reasoning(fields, thought.field, &thought.joined());
        match &thought.details {
            Some(Value::String(text)) => raw = Some(text.clone()),
            Some(Value::Array(list)) => details.extend(list.iter().cloned()),
            Some(other) => details.push(other.clone()),
            None if thought.field == ReasoningField::ReasoningContent => {
                details.extend(closing_details(thought));
            }
            None => {
                let mut detail = json!({"type": "reasoning.text", "text": thought.joined(), "format": "unknown",
                    "index": 0});
                if let Some(signature) = &thought.signature {
                    detail["signature"] = json!(signature);
                }
                details.push(detail);
            }
        }
    }
    if raw.is_some() {
        fields.insert("reasoning_details".into(), json!(RAW_SLOT));
    } else if !details.is_empty() {
        fields.insert("reasoning_details".into(), Value::Array(details));
    }
    raw
}

/// Adds text to the field of a delta or message that carries reasoning.
fn put_reasoning(fields: &mut Map<String, Value>, field: ReasoningField, text: &str) {
    let name = match field {
        ReasoningField::ReasoningContent => "reasoning_content",
        ReasoningField::Reasoning => "reasoning",
        ReasoningField::ReasoningDetails => return,
    };
    let so_far = fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let text = format!("{so_far}{text}");
    fields.insert(name.into(), json!(text));
}

/// Returns the details that come after the text: its signature, and the encrypted content.
fn closing_details(thought: &TurnReasoning) -> Vec<Value> {
    let signature = thought.signature.as_ref().map(
        |signature| json!({"type": "reasoning.text", "text": "", "signature": signature, "format": "unknown", "index": 0}),
    );
    let encrypted = thought.encrypted.as_ref().map(
        |data| json!({"type": "reasoning.encrypted", "data": data, "id": thought.id, "format": "unknown", "index": 0}),
    );
    signature.into_iter().chain(encrypted).collect()
}

/// The placeholder for JSON that is inserted byte for byte after serialisation.
const RAW_SLOT: &str = "<raw reasoning details>";

fn fill(value: &Value, raw: &str) -> String {
    value.to_string().replacen(&json!(RAW_SLOT).to_string(), raw, 1)
}

fn id(turn: &ScriptedTurn) -> String {
    format!("chatcmpl-{:06}", turn.sequence)
}

fn finish_word(finish: &ScriptedFinish) -> Option<&str> {
    Some(match finish {
        ScriptedFinish::Stop => "stop",
        ScriptedFinish::ToolCalls => "tool_calls",
        ScriptedFinish::Length => "length",
        ScriptedFinish::ContentFilter => "content_filter",
        ScriptedFinish::Other(word) => word,
        ScriptedFinish::Missing => return None,
    })
}

fn usage_object(usage: &ScriptedUsage) -> Value {
    let mut object = json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
    });
    if usage.cache_write > 0 {
        object["prompt_tokens_details"]["cache_write_tokens"] = json!(usage.cache_write);
    }
    merge(&mut object, &usage.extra);
    object
}
