//! Anthropic Messages, from events or as a whole.
//!
//! Blocks are numbered and may be interleaved. Token counts are running totals that arrive at the start and at the
//! end. A stop reason ends the answer even if the closing event is lost.

use hermes_types::{Delta, FinishReason, JsonFields, RawJson, Usage};
use serde_json::json;

use super::blocks::BlockAssembler;
use super::calls::EmptyArguments;
use super::{DecodedAnswer, PartialAnswer, StreamEnding};
use crate::error::{Error, ProviderFault};
use crate::usage;
use crate::wire::details;
use crate::wire::fields::JsonFieldsExt as _;
use crate::wire::mode::ApiMode;

#[derive(Debug)]
pub(super) struct AnthropicReader {
    blocks: BlockAssembler,
    family: String,
    stop_reason: Option<String>,
    stopped: bool,
    usage: Option<Usage>,
    model: Option<String>,
    response_id: Option<String>,
}

impl AnthropicReader {
    pub(super) fn new(family: &str) -> Self {
        Self {
            blocks: BlockAssembler::default(),
            family: family.to_owned(),
            stop_reason: None,
            stopped: false,
            usage: None,
            model: None,
            response_id: None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stopped || self.stop_reason.is_some()
    }

    pub(super) fn event(
        &mut self,
        kind: &str,
        fields: &JsonFields,
        out: &mut Vec<Delta>,
    ) -> Result<(), Error> {
        if let Some(error) = fields.non_null("error") {
            return Err(Error::Classify(ProviderFault::read(error)));
        }
        let index = fields.number("index").unwrap_or(0);
        match kind {
            "message_start" => {
                if let Some(message) = fields.object("message") {
                    self.head(&message);
                }
            }
            "content_block_start" => {
                if let Some(raw) = fields.non_null("content_block") {
                    self.start(index, raw, BlockArrival::Streamed, out);
                }
            }
            "content_block_delta" => {
                if let Some(delta) = fields.object("delta") {
                    self.delta(index, &delta, out);
                }
            }
            "message_delta" => {
                if let Some(delta) = fields.object("delta") {
                    self.stop_reason = delta.text("stop_reason").or(self.stop_reason.take());
                }
                if let Some(raw) = fields.non_null("usage") {
                    self.count(raw);
                }
            }
            "message_stop" => self.stopped = true,
            // `ping`, `content_block_stop`, and events that later versions add.
            _ => {}
        }
        Ok(())
    }

    pub(super) fn decode_complete(body: &JsonFields, family: &str) -> Result<StreamEnding, Error> {
        let content = body.list("content").filter(|list| !list.is_empty());
        let content = content.ok_or(Error::UseFallback { missing: "no content" })?;
        let mut reader = Self::new(family);
        reader.head(body);
        for (index, raw) in (0..).zip(&content) {
            reader.start(index, raw, BlockArrival::Complete, &mut Vec::new());
        }
        reader.stop_reason = body.text("stop_reason").or_else(|| Some("end_turn".to_owned()));
        reader.finish(&mut Vec::new())
    }

    fn head(&mut self, message: &JsonFields) {
        self.response_id = message.text("id").or(self.response_id.take());
        self.model = message.text("model").or(self.model.take());
        if let Some(raw) = message.non_null("usage") {
            self.count(raw);
        }
    }

    fn count(&mut self, raw: &RawJson) {
        if let Some(later) = usage::read(ApiMode::Anthropic, raw) {
            self.usage = Some(usage::combine(self.usage, later));
        }
    }

    fn start(&mut self, index: u64, raw: &RawJson, whole: BlockArrival, out: &mut Vec<Delta>) {
        let Ok(block) = raw.read::<JsonFields>() else { return };
        let text = |name: &str| block.text(name).unwrap_or_default();
        match block.text("type").as_deref() {
            Some("text") => self.blocks.start_text(index, &text("text"), out),
            Some("thinking") => {
                let kept = (whole == BlockArrival::Complete).then(|| raw.clone());
                self.blocks.start_thinking(index, &text("thinking"), &text("signature"), kept);
            }
            Some("redacted_thinking") => self.blocks.opaque(index, raw.clone()),
            Some("tool_use") => {
                let given = block.non_null("input").map(super::calls::arguments_text).unwrap_or_default();
                // A stream announces every call with an empty object and then streams the real arguments.
                let given = if whole == BlockArrival::Streamed && given.trim() == "{}" {
                    String::new()
                } else {
                    given
                };
                self.blocks.start_tool(index, &text("id"), &text("name"), &given, out);
            }
            _ => {}
        }
    }

    fn delta(&mut self, index: u64, delta: &JsonFields, out: &mut Vec<Delta>) {
        let text = |name: &str| delta.text(name).unwrap_or_default();
        match delta.text("type").as_deref() {
            Some("text_delta") => self.blocks.text(index, &text("text"), out),
            Some("thinking_delta") => self.blocks.thinking(index, &text("thinking"), out),
            Some("signature_delta") => self.blocks.signature(index, &text("signature")),
            Some("input_json_delta") => self.blocks.arguments(index, &text("partial_json")),
            _ => {}
        }
    }

    pub(super) fn finish(self, out: &mut Vec<Delta>) -> Result<StreamEnding, Error> {
        let reason = self.stop_reason.as_deref().map(finish_reason);
        let arguments = match reason {
            Some(FinishReason::Length) | None => EmptyArguments::Truncated,
            _ => EmptyArguments::NoArguments,
        };
        let ended = self.stopped || reason.is_some();
        let whole = self.blocks.finish(arguments, render_thinking, out);
        let mut message = whole.message;
        message.reasoning_details = details::stored_thinking(&whole.thinking, &self.family);
        if !ended || (reason.is_none() && whole.has_broken_calls) {
            let cut = PartialAnswer { partial: message, lost_calls: whole.names, usage: self.usage };
            return Ok(StreamEnding::CutOff(Box::new(cut)));
        }
        if whole.is_empty {
            return Err(Error::UseFallback { missing: "no content" });
        }
        message.finish_reason = Some(match reason {
            None | Some(FinishReason::Stop) if !whole.calls.is_empty() => FinishReason::ToolCalls,
            None => FinishReason::Stop,
            Some(reason) => reason,
        });
        message.tool_calls = whole.calls;
        Ok(StreamEnding::Complete(Box::new(DecodedAnswer {
            message,
            usage: self.usage,
            reported_cost: None,
            model: self.model,
            response_id: self.response_id,
            provider_items: None,
        })))
    }
}

/// Tells whether a block arrived in one piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockArrival {
    Complete,
    Streamed,
}

fn render_thinking(text: &str, signature: &str) -> RawJson {
    RawJson::from_value(&json!({"type": "thinking", "thinking": text, "signature": signature}))
}

fn finish_reason(word: &str) -> FinishReason {
    match word {
        "end_turn" | "stop_sequence" | "stop" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::ContentFilter,
        other => FinishReason::parse(other),
    }
}
