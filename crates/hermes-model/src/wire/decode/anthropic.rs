//! Anthropic Messages, event by event or whole.
//!
//! Blocks are numbered and may be interleaved. Counts of tokens are running totals that come at the start and at the end.
//! A stop reason ends the answer even if the closing event is lost.

use hermes_types::{Delta, Fields, FinishReason, Raw, Usage};
use serde_json::json;

use super::blocks::Blocks;
use super::calls::Arguments;
use super::{Answer, CutOff, Ending};
use crate::error::{Error, Fault};
use crate::usage;
use crate::wire::details;
use crate::wire::fields::FieldsExt as _;
use crate::wire::mode::Mode;

#[derive(Debug)]
pub(super) struct AnthropicReader {
    blocks: Blocks,
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
            blocks: Blocks::default(),
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

    pub(super) fn event(&mut self, kind: &str, fields: &Fields, out: &mut Vec<Delta>) -> Result<(), Error> {
        if let Some(error) = fields.given("error") {
            return Err(Error::Classify(Fault::read(error)));
        }
        let index = fields.number("index").unwrap_or(0);
        match kind {
            "message_start" => {
                if let Some(message) = fields.object("message") {
                    self.head(&message);
                }
            }
            "content_block_start" => {
                if let Some(raw) = fields.given("content_block") {
                    self.start(index, raw, Whole::No, out);
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
                if let Some(raw) = fields.given("usage") {
                    self.count(raw);
                }
            }
            "message_stop" => self.stopped = true,
            // `ping`, `content_block_stop`, and events that later versions add.
            _ => {}
        }
        Ok(())
    }

    pub(super) fn whole(body: &Fields, family: &str) -> Result<Ending, Error> {
        let content = body.list("content").filter(|list| !list.is_empty());
        let content = content.ok_or(Error::AskElsewhere { missing: "no content" })?;
        let mut reader = Self::new(family);
        reader.head(body);
        for (index, raw) in (0..).zip(&content) {
            reader.start(index, raw, Whole::Yes, &mut Vec::new());
        }
        reader.stop_reason = body.text("stop_reason").or_else(|| Some("end_turn".to_owned()));
        reader.finish(&mut Vec::new())
    }

    fn head(&mut self, message: &Fields) {
        self.response_id = message.text("id").or(self.response_id.take());
        self.model = message.text("model").or(self.model.take());
        if let Some(raw) = message.given("usage") {
            self.count(raw);
        }
    }

    fn count(&mut self, raw: &Raw) {
        if let Some(later) = usage::read(Mode::Anthropic, raw) {
            self.usage = Some(usage::combine(self.usage, later));
        }
    }

    fn start(&mut self, index: u64, raw: &Raw, whole: Whole, out: &mut Vec<Delta>) {
        let Ok(block) = raw.read::<Fields>() else { return };
        let text = |name: &str| block.text(name).unwrap_or_default();
        match block.text("type").as_deref() {
            Some("text") => self.blocks.start_text(index, &text("text"), out),
            Some("thinking") => {
                let kept = (whole == Whole::Yes).then(|| raw.clone());
                self.blocks.start_thinking(index, &text("thinking"), &text("signature"), kept);
            }
            Some("redacted_thinking") => self.blocks.opaque(index, raw.clone()),
            Some("tool_use") => {
                let given = block.given("input").map(super::calls::arguments_text).unwrap_or_default();
                // A stream announces every call with an empty object and then streams the real one.
                let given = if whole == Whole::No && given.trim() == "{}" { String::new() } else { given };
                self.blocks.start_tool(index, &text("id"), &text("name"), &given, out);
            }
            _ => {}
        }
    }

    fn delta(&mut self, index: u64, delta: &Fields, out: &mut Vec<Delta>) {
        let text = |name: &str| delta.text(name).unwrap_or_default();
        match delta.text("type").as_deref() {
            Some("text_delta") => self.blocks.text(index, &text("text"), out),
            Some("thinking_delta") => self.blocks.thinking(index, &text("thinking"), out),
            Some("signature_delta") => self.blocks.signature(index, &text("signature")),
            Some("input_json_delta") => self.blocks.arguments(index, &text("partial_json")),
            _ => {}
        }
    }

    pub(super) fn finish(self, out: &mut Vec<Delta>) -> Result<Ending, Error> {
        let reason = self.stop_reason.as_deref().map(finish_reason);
        let arguments = match reason {
            Some(FinishReason::Length) | None => Arguments::Truncated,
            _ => Arguments::Finished,
        };
        let ended = self.stopped || reason.is_some();
        let whole = self.blocks.finish(arguments, render_thinking, out);
        let mut message = whole.message;
        message.reasoning_details = details::keep_thinking(&whole.thinking, &self.family);
        if !ended || (reason.is_none() && whole.has_broken_calls) {
            let cut = CutOff { partial: message, lost_calls: whole.names, usage: self.usage };
            return Ok(Ending::CutOff(Box::new(cut)));
        }
        if whole.is_empty {
            return Err(Error::AskElsewhere { missing: "no content" });
        }
        message.finish_reason = Some(match reason {
            None | Some(FinishReason::Stop) if !whole.calls.is_empty() => FinishReason::ToolCalls,
            None => FinishReason::Stop,
            Some(reason) => reason,
        });
        message.tool_calls = whole.calls;
        Ok(Ending::Complete(Box::new(Answer {
            message,
            usage: self.usage,
            reported_cost: None,
            model: self.model,
            response_id: self.response_id,
            provider_items: None,
        })))
    }
}

/// Whether a block came in one piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whole {
    Yes,
    No,
}

fn render_thinking(text: &str, signature: &str) -> Raw {
    Raw::from_value(&json!({"type": "thinking", "thinking": text, "signature": signature}))
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
