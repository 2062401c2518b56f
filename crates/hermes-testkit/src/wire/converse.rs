//! Bedrock Converse: complete responses, and streams of AWS event frames.

use serde_json::{Value, json};

use super::sse::SseWriter;
use super::turn::{ScriptedTurn, TurnAction, TurnReasoning, WireToolCall, merge};
use super::{ResponsePiece, StreamEncoder};
use crate::script::{ScriptedFinish, ScriptedUsage};

pub(crate) struct ConverseStreamEncoder<'a> {
    turn: &'a ScriptedTurn,
    next: u64,
    open_text: Option<u64>,
}

impl<'a> ConverseStreamEncoder<'a> {
    pub(crate) fn new(turn: &'a ScriptedTurn) -> Self {
        Self { turn, next: 0, open_text: None }
    }

    fn next_index(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn end_text(&mut self, out: &mut SseWriter) {
        if let Some(index) = self.open_text.take() {
            stop_block(index, out);
        }
    }
}

impl StreamEncoder for ConverseStreamEncoder<'_> {
    fn open(&mut self, out: &mut SseWriter) {
        send(out, "messageStart", &json!({"role": "assistant"}));
    }

    fn text(&mut self, parts: &[String], out: &mut SseWriter) {
        let index = self.open_text.unwrap_or_else(|| self.next_index());
        self.open_text = Some(index);
        for part in parts {
            block_delta(index, &json!({"text": part}), out);
        }
    }

    fn reasoning(&mut self, thought: &TurnReasoning, out: &mut SseWriter) {
        self.end_text(out);
        let index = self.next_index();
        for part in &thought.parts {
            block_delta(index, &json!({"reasoningContent": {"text": part}}), out);
        }
        if let Some(signature) = &thought.signature {
            block_delta(index, &json!({"reasoningContent": {"signature": signature}}), out);
        }
        stop_block(index, out);
    }

    fn calls(&mut self, calls: &[WireToolCall], _interleave: bool, out: &mut SseWriter) {
        self.end_text(out);
        for call in calls {
            let index = self.next_index();
            let start = json!({"toolUse": {"toolUseId": call.id, "name": call.name}});
            send(out, "contentBlockStart", &json!({"contentBlockIndex": index, "start": start}));
            for part in &call.parts {
                block_delta(index, &json!({"toolUse": {"input": part.text}}), out);
            }
            stop_block(index, out);
        }
    }

    fn usage_here(&mut self, _out: &mut SseWriter) {}

    fn error(&mut self, message: &str, kind: Option<&str>, _code: &Value, out: &mut SseWriter) {
        let kind = kind.unwrap_or("internalServerException");
        let headers = [(":message-type", "exception"), (":exception-type", kind)];
        let payload = json!({"message": message}).to_string();
        out.piece(&ResponsePiece::Bytes(frame(&headers, payload.as_bytes())));
    }

    fn ping(&mut self, _out: &mut SseWriter) {}

    fn close(&mut self, out: &mut SseWriter) {
        self.end_text(out);
        if let Some(reason) = stop_reason(&self.turn.finish) {
            send(out, "messageStop", &json!({"stopReason": reason}));
        }
        if let Some(usage) = &self.turn.usage {
            send(out, "metadata", &json!({"usage": usage_object(usage), "metrics": {"latencyMs": 1}}));
        }
    }
}

/// Encodes the response to a request at `converse`.
pub(crate) fn plain(turn: &ScriptedTurn) -> String {
    let mut content: Vec<Value> = Vec::new();
    for act in &turn.acts {
        match act {
            TurnAction::Text(parts) => content.push(json!({"text": parts.concat()})),
            TurnAction::Thought(thought) => {
                let signature = thought.signature.as_deref().unwrap_or_default();
                let inner = json!({"text": thought.joined(), "signature": signature});
                content.push(json!({"reasoningContent": {"reasoningText": inner}}));
            }
            TurnAction::Calls { calls, .. } => content.extend(calls.iter().map(|call| {
                // A complete response cannot carry broken arguments: on this wire they are JSON, not a string of JSON.
                let input: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
                json!({"toolUse": {"toolUseId": call.id, "name": call.name, "input": input}})
            })),
            _ => {}
        }
    }
    let mut body = json!({
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop_reason(&turn.finish),
        "metrics": {"latencyMs": 1},
    });
    if let Some(usage) = &turn.usage {
        body["usage"] = usage_object(usage);
    }
    body.to_string()
}

fn block_delta(index: u64, delta: &Value, out: &mut SseWriter) {
    send(out, "contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta}));
}

fn stop_block(index: u64, out: &mut SseWriter) {
    send(out, "contentBlockStop", &json!({"contentBlockIndex": index}));
}

fn send(out: &mut SseWriter, name: &str, fields: &Value) {
    let headers = [(":message-type", "event"), (":event-type", name), (":content-type", "application/json")];
    out.piece(&ResponsePiece::Bytes(frame(&headers, fields.to_string().as_bytes())));
}

/// Builds a frame: lengths and their checksum, headers, payload, and the checksum of all of it.
fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    const STRING: u8 = 7;
    /// The bytes of a frame besides headers and payload.
    const OVERHEAD: usize = 16;
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(u8::try_from(name.len()).unwrap_or_default());
        encoded.extend(name.as_bytes());
        encoded.push(STRING);
        encoded.extend(u16::try_from(value.len()).unwrap_or_default().to_be_bytes());
        encoded.extend(value.as_bytes());
    }
    let number = |length: usize| u32::try_from(length).unwrap_or_default().to_be_bytes();
    let mut frame = Vec::new();
    frame.extend(number(OVERHEAD + encoded.len() + payload.len()));
    frame.extend(number(encoded.len()));
    frame.extend(checksum(&frame).to_be_bytes());
    frame.extend(encoded);
    frame.extend(payload);
    frame.extend(checksum(&frame).to_be_bytes());
    frame
}

/// Computes the CRC-32 that Ethernet and gzip use.
fn checksum(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

fn stop_reason(finish: &ScriptedFinish) -> Option<&str> {
    Some(match finish {
        ScriptedFinish::Stop => "end_turn",
        ScriptedFinish::ToolCalls => "tool_use",
        ScriptedFinish::Length => "max_tokens",
        ScriptedFinish::ContentFilter => "content_filtered",
        ScriptedFinish::Other(word) => word,
        ScriptedFinish::Missing => return None,
    })
}

fn usage_object(usage: &ScriptedUsage) -> Value {
    let mut object = json!({
        "inputTokens": usage.input.saturating_sub(usage.cached + usage.cache_write),
        "outputTokens": usage.output,
        "totalTokens": usage.input + usage.output,
        "cacheReadInputTokens": usage.cached,
        "cacheWriteInputTokens": usage.cache_write,
    });
    merge(&mut object, &usage.extra);
    object
}
