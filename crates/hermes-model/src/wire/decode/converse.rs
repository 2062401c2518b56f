//! AWS Bedrock Converse, from events or as a whole.
//!
//! Text blocks are not announced, calls are. The usage comes after the stop reason, and nothing else does.

use hermes_types::{Delta, FinishReason, JsonFields, RawJson, Usage};
use serde_json::json;

use super::blocks::BlockAssembler;
use super::calls::EmptyArguments;
use super::{DecodedAnswer, PartialAnswer, StreamEnding};
use crate::error::Error;
use crate::usage;
use crate::wire::fields::{JsonFieldsExt as _, raw_list};
use crate::wire::mode::ApiMode;

#[derive(Debug, Default)]
pub(super) struct ConverseReader {
    blocks: BlockAssembler,
    stop_reason: Option<String>,
    usage: Option<Usage>,
}

impl ConverseReader {
    pub(super) fn has_ended(&self) -> bool {
        self.stop_reason.is_some()
    }

    #[expect(clippy::unnecessary_wraps, reason = "the readers of all wires have one shape")]
    pub(super) fn event(
        &mut self,
        kind: &str,
        fields: &JsonFields,
        out: &mut Vec<Delta>,
    ) -> Result<(), Error> {
        let index = fields.number("contentBlockIndex").unwrap_or(0);
        match kind {
            "contentBlockStart" => {
                let tool = fields.object("start").and_then(|start| start.object("toolUse"));
                if let Some(tool) = tool {
                    self.start_tool(index, &tool, out);
                }
            }
            "contentBlockDelta" => {
                if let Some(delta) = fields.object("delta") {
                    self.delta(index, &delta, out);
                }
            }
            "messageStop" => self.stop_reason = fields.text("stopReason").or(self.stop_reason.take()),
            "metadata" => {
                if let Some(raw) = fields.non_null("usage") {
                    self.usage = usage::read(ApiMode::Converse, raw);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn decode_complete(body: &JsonFields) -> Result<StreamEnding, Error> {
        let message = body.object("output").and_then(|output| output.object("message"));
        let content = message.and_then(|message| message.list("content")).filter(|list| !list.is_empty());
        let content = content.ok_or(Error::UseFallback { missing: "no content" })?;
        let mut reader = Self::default();
        let nobody = &mut Vec::new();
        for (index, raw) in (0..).zip(&content) {
            let Ok(block) = raw.read::<JsonFields>() else { continue };
            if let Some(text) = block.text("text") {
                reader.blocks.start_text(index, &text, nobody);
            } else if let Some(tool) = block.object("toolUse") {
                reader.start_tool(index, &tool, nobody);
            } else if let Some(thought) = block.object("reasoningContent") {
                let inner = thought.object("reasoningText").unwrap_or_default();
                let text = inner.text("text").unwrap_or_default();
                reader.blocks.start_thinking(index, &text, "", Some(raw.clone()));
            }
        }
        if let Some(raw) = body.non_null("usage") {
            reader.usage = usage::read(ApiMode::Converse, raw);
        }
        reader.stop_reason = body.text("stopReason").or_else(|| Some("end_turn".to_owned()));
        reader.finish(nobody)
    }

    fn start_tool(&mut self, index: u64, tool: &JsonFields, out: &mut Vec<Delta>) {
        let text = |name: &str| tool.text(name).unwrap_or_default();
        let given = tool.non_null("input").map(super::calls::arguments_text).unwrap_or_default();
        self.blocks.start_tool(index, &text("toolUseId"), &text("name"), &given, out);
    }

    fn delta(&mut self, index: u64, delta: &JsonFields, out: &mut Vec<Delta>) {
        if let Some(text) = delta.text("text") {
            self.blocks.text(index, &text, out);
        }
        if let Some(piece) = delta.object("toolUse").and_then(|tool| tool.text("input")) {
            self.blocks.arguments(index, &piece);
        }
        let Some(thought) = delta.object("reasoningContent") else { return };
        if let Some(text) = thought.text("text") {
            self.blocks.thinking(index, &text, out);
        }
        if let Some(signature) = thought.text("signature") {
            self.blocks.signature(index, &signature);
        }
        if let Some(data) = thought.non_null("redactedContent") {
            let block = format!(r#"{{"reasoningContent":{{"redactedContent":{}}}}}"#, data.as_str());
            if let Ok(raw) = RawJson::parse(block) {
                self.blocks.opaque(index, raw);
            }
        }
    }

    pub(super) fn finish(self, out: &mut Vec<Delta>) -> Result<StreamEnding, Error> {
        let reason = self.stop_reason.as_deref().map(finish_reason);
        let arguments = match reason {
            Some(FinishReason::Length) | None => EmptyArguments::Truncated,
            _ => EmptyArguments::NoArguments,
        };
        let whole = self.blocks.finish(arguments, render_thinking, out);
        let mut message = whole.message;
        message.reasoning_details = raw_list(&whole.thinking);
        let Some(reason) = reason else {
            let cut = PartialAnswer { partial: message, lost_calls: whole.names, usage: self.usage };
            return Ok(StreamEnding::CutOff(Box::new(cut)));
        };
        if whole.is_empty {
            return Err(Error::UseFallback { missing: "no content" });
        }
        message.finish_reason = Some(match reason {
            FinishReason::Stop if !whole.calls.is_empty() => FinishReason::ToolCalls,
            other => other,
        });
        message.tool_calls = whole.calls;
        Ok(StreamEnding::Complete(Box::new(DecodedAnswer {
            message,
            usage: self.usage,
            reported_cost: None,
            model: None,
            response_id: None,
            provider_items: None,
        })))
    }
}

fn render_thinking(text: &str, signature: &str) -> RawJson {
    let mut inner = json!({"text": text});
    if !signature.is_empty() {
        inner["signature"] = json!(signature);
    }
    RawJson::from_value(&json!({"reasoningContent": {"reasoningText": inner}}))
}

fn finish_reason(word: &str) -> FinishReason {
    match word {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "content_filtered" | "guardrail_intervened" => FinishReason::ContentFilter,
        other => FinishReason::parse(other),
    }
}
