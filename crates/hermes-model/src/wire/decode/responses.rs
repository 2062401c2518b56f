//! OpenAI Responses, from events or as a whole.
//!
//! The items of the final response are the answer. Deltas are only shown to the user, except that where a server
//! leaves its final output empty, the items it finished on the way are used instead.

use std::collections::BTreeMap;

use hermes_types::{CallIds, Delta, FinishReason, JsonFields, RawJson, ToolCall, Usage};

use super::answer_text::{AnswerText, message};
use super::calls::{EmptyArguments, arguments_text};
use super::{DecodedAnswer, PartialAnswer, StreamEnding, foreign_content};
use crate::error::{Error, ProviderFault};
use crate::usage;
use crate::wire::fields::{JsonFieldsExt as _, raw_list};
use crate::wire::mode::ApiMode;

#[derive(Debug, Default)]
pub(super) struct ResponsesReader {
    text: AnswerText,
    reasoning: String,
    started_calls: Vec<String>,
    /// Finished items by their place in the output.
    items: BTreeMap<u64, RawJson>,
    response: Option<JsonFields>,
    response_id: Option<String>,
    model: Option<String>,
}

impl ResponsesReader {
    pub(super) fn has_ended(&self) -> bool {
        self.response.is_some()
    }

    pub(super) fn event(
        &mut self,
        kind: &str,
        fields: &JsonFields,
        out: &mut Vec<Delta>,
    ) -> Result<(), Error> {
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.text.push(&fields.text("delta").unwrap_or_default(), out);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.think(&fields.text("delta").unwrap_or_default(), out);
            }
            "response.reasoning_summary_part.added" if !self.reasoning.is_empty() => self.think("\n\n", out),
            "response.output_item.added" => {
                let item = fields.object("item").unwrap_or_default();
                match item.text("type").as_deref() {
                    Some("message") => self.text.break_line(out),
                    Some("function_call" | "custom_tool_call") => {
                        let name = item.text("name").unwrap_or_default();
                        self.text.start_call(&name, out);
                        self.started_calls.push(name);
                    }
                    _ => {}
                }
            }
            "response.output_item.done" => {
                if let Some(item) = fields.non_null("item") {
                    let next = self.items.keys().next_back().map_or(0, |last| last.saturating_add(1));
                    self.items.insert(fields.number("output_index").unwrap_or(next), item.clone());
                }
            }
            "response.created" | "response.in_progress" => {
                if let Some(response) = fields.object("response") {
                    self.head(&response);
                }
            }
            "response.completed" | "response.incomplete" | "response.done" => {
                let response = fields.object("response").unwrap_or_default();
                self.head(&response);
                self.response = Some(response);
            }
            "response.failed" | "response.cancelled" => {
                let response = fields.object("response").unwrap_or_default();
                return Err(failure(&response));
            }
            // Some proxies send an error in place of an event.
            "" if fields.non_null("error").is_some() => {
                let fault = fields.non_null("error").map(ProviderFault::read).unwrap_or_default();
                return Err(Error::Classify(fault));
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn decode_complete(body: &JsonFields) -> Result<StreamEnding, Error> {
        let mut reader = Self::default();
        reader.head(body);
        reader.response = Some(body.clone());
        reader.finish(&mut Vec::new())
    }

    fn head(&mut self, response: &JsonFields) {
        self.response_id = response.text("id").or(self.response_id.take());
        self.model = response.text("model").or(self.model.take());
    }

    fn think(&mut self, text: &str, out: &mut Vec<Delta>) {
        if !text.is_empty() {
            self.reasoning.push_str(text);
            out.push(Delta::Reasoning(text.to_owned()));
        }
    }

    pub(super) fn finish(mut self, out: &mut Vec<Delta>) -> Result<StreamEnding, Error> {
        let Some(response) = self.response.take() else {
            self.text.flush(out);
            let partial = self.text.into_message(Some(self.reasoning));
            let cut = PartialAnswer { partial, lost_calls: self.started_calls, usage: None };
            return Ok(StreamEnding::CutOff(Box::new(cut)));
        };
        let status = response.text("status").unwrap_or_default();
        if matches!(status.as_str(), "failed" | "cancelled") {
            return Err(failure(&response));
        }
        let mut items = response.list("output").unwrap_or_default();
        if items.is_empty() {
            items = std::mem::take(&mut self.items).into_values().collect();
        }
        let mut output = Output::read(&items);
        if items.is_empty() {
            // Only deltas arrived; they are used if there was text.
            self.text.content().clone_into(&mut output.text);
            if output.text.is_empty() {
                return Err(Error::UseFallback { missing: "no output" });
            }
        }
        if self.text.content().is_empty() && !output.text.is_empty() {
            self.text.push(&output.text, out);
        }
        self.text.flush(out);
        let finish = output.finish_reason(&status, &response);
        let mut message = message(output.text, Some(output.thoughts.join("\n\n")));
        message.codex_reasoning_items = raw_list(&output.encrypted);
        message.tool_calls = output.calls;
        message.finish_reason = Some(finish);
        let usage: Option<Usage> =
            response.non_null("usage").and_then(|raw| usage::read(ApiMode::Responses, raw));
        Ok(StreamEnding::Complete(Box::new(DecodedAnswer {
            message,
            usage,
            reported_cost: response.non_null("usage").and_then(usage::reported_cost),
            model: self.model,
            response_id: self.response_id,
            provider_items: raw_list(&items),
        })))
    }
}

fn failure(response: &JsonFields) -> Error {
    let mut fault = response.non_null("error").map(ProviderFault::read).unwrap_or_default();
    if fault.message.is_empty() {
        fault.message =
            format!("the response {}", response.text("status").unwrap_or_else(|| "failed".into()));
    }
    Error::Classify(fault)
}

/// The phase of a response's messages: commentary on the way is not yet an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Commentary,
    Final,
}

/// The content of a response's items.
#[derive(Default)]
struct Output {
    text: String,
    thoughts: Vec<String>,
    encrypted: Vec<RawJson>,
    calls: Vec<ToolCall>,
    has_reasoning: bool,
    has_unfinished: bool,
    phase: Option<Phase>,
}

impl Output {
    fn read(items: &[RawJson]) -> Self {
        let mut output = Self::default();
        let mut texts: Vec<String> = Vec::new();
        for raw in items {
            let Ok(item) = raw.read::<JsonFields>() else { continue };
            let unfinished =
                matches!(item.text("status").as_deref(), Some("queued" | "in_progress" | "incomplete"));
            match item.text("type").as_deref() {
                Some("message") => {
                    output.has_unfinished |= unfinished;
                    match item.text("phase").as_deref() {
                        Some("commentary" | "analysis") => {
                            output.phase = output.phase.max(Some(Phase::Commentary));
                        }
                        Some(_) => output.phase = Some(Phase::Final),
                        None => {}
                    }
                    texts.extend(message_text(&item).filter(|text| !text.is_empty()));
                }
                Some("reasoning") => output.reasoning(raw, &item),
                Some("function_call" | "custom_tool_call") if unfinished => output.has_unfinished = true,
                Some("function_call" | "custom_tool_call") => {
                    let call = call(&item, &output.calls);
                    output.calls.push(call);
                }
                _ => {}
            }
        }
        output.text = texts.join("\n");
        output
    }

    fn reasoning(&mut self, raw: &RawJson, item: &JsonFields) {
        self.has_reasoning = true;
        if item.text("encrypted_content").is_some_and(|text| !text.is_empty()) {
            self.encrypted.push(raw.clone());
        }
        let parts = |name: &str| -> Vec<String> {
            let list: Vec<JsonFields> =
                item.list(name).unwrap_or_default().iter().filter_map(|part| part.read().ok()).collect();
            list.iter().filter_map(|part| part.text("text")).filter(|text| !text.is_empty()).collect()
        };
        let summary = parts("summary");
        self.thoughts.extend(if summary.is_empty() { parts("content") } else { summary });
    }

    fn finish_reason(&self, status: &str, response: &JsonFields) -> FinishReason {
        let reason = response.object("incomplete_details").and_then(|details| details.text("reason"));
        match reason.as_deref() {
            // Checked before the calls: the limit may have cut one of them off.
            Some("max_output_tokens" | "length") => return FinishReason::Length,
            Some("content_filter") => return FinishReason::ContentFilter,
            _ => {}
        }
        let unfinished = matches!(status, "queued" | "in_progress" | "incomplete") || self.has_unfinished;
        if !self.calls.is_empty() {
            FinishReason::ToolCalls
        } else if unfinished
            || self.phase == Some(Phase::Commentary)
            || (self.has_reasoning && self.text.trim().is_empty())
        {
            FinishReason::Incomplete
        } else {
            FinishReason::Stop
        }
    }
}

fn message_text(item: &JsonFields) -> Option<String> {
    let content = item.non_null("content")?;
    let Ok(parts) = content.read::<Vec<JsonFields>>() else {
        return Some(foreign_content::read(content).text);
    };
    Some(parts.iter().filter_map(|part| part.text("text").or_else(|| part.text("refusal"))).collect())
}

/// Reads a call. Two calls with one id could not be told apart later, so the second gets new ids.
fn call(item: &JsonFields, before: &[ToolCall]) -> ToolCall {
    let taken = |id: &String| before.iter().any(|call| call.id.as_str() == id.as_str());
    let item_taken = |id: &String| before.iter().any(|call| call.response_item_id.as_ref() == Some(id));
    let given = item.text("call_id").filter(|id| !id.is_empty() && !taken(id));
    let item_id = item.text("id").filter(|id| !id.is_empty() && !item_taken(id));
    let from_item = item_id.as_ref().filter(|id| !taken(id));
    let ids = CallIds::derive(given.as_ref().or(from_item).map(String::as_str), item_id.as_deref());
    let arguments = item.non_null("arguments").or_else(|| item.non_null("input")).map(arguments_text);
    let arguments = EmptyArguments::NoArguments.resolve(arguments.unwrap_or_default());
    let mut call = ToolCall::new(Some(&ids.call_id), item.text("name").unwrap_or_default(), arguments);
    call.response_item_id = Some(ids.response_item_id);
    call
}
