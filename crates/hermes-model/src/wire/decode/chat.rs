//! Chat completions, from chunks or as a whole.
//!
//! Usage may arrive before, with or after the finish reason, in a chunk without choices; `[DONE]` may be missing.
//! Without a finish reason the answer counts as complete only if `[DONE]` arrived and the content is valid by
//! itself.

use hermes_types::{Delta, FinishReason, JsonFields, Message, RawJson, Usage};

use super::answer_text::AnswerText;
use super::calls::{EmptyArguments, ToolCallAssembler};
use super::merge::{self, ReasoningDetails};
use super::{DecodedAnswer, PartialAnswer, StreamEnding, foreign_content};
use crate::error::{Error, ProviderFault};
use crate::usage;
use crate::wire::fields::JsonFieldsExt as _;
use crate::wire::mode::ApiMode;

#[derive(Debug, Default)]
pub(super) struct ChatReader {
    text: AnswerText,
    calls: ToolCallAssembler,
    /// Plain reasoning text, which arrives in this field or in the next.
    reasoning: String,
    reasoning_content: String,
    details: ReasoningDetails,
    finish: Option<String>,
    done: bool,
    has_choices: bool,
    usage: Option<Usage>,
    reported_cost: Option<u64>,
    model: Option<String>,
    response_id: Option<String>,
}

impl ChatReader {
    pub(super) fn has_ended(&self) -> bool {
        self.done || self.finish.is_some()
    }

    pub(super) fn done(&mut self) {
        self.done = true;
    }

    pub(super) fn chunk(&mut self, chunk: &JsonFields, out: &mut Vec<Delta>) -> Result<(), Error> {
        refuse_error(chunk)?;
        self.head(chunk);
        let Some(choice) = first_choice(chunk) else { return Ok(()) };
        refuse_error(&choice)?;
        self.has_choices = true;
        if let Some(delta) = choice.object("delta").or_else(|| choice.object("message")) {
            self.delta(&delta, out);
            for entry in delta.list("tool_calls").unwrap_or_default() {
                if let Ok(entry) = entry.read::<JsonFields>() {
                    self.calls.push_delta(&entry, &mut self.text, out);
                }
            }
        }
        self.tail(&choice);
        Ok(())
    }

    pub(super) fn decode_complete(body: &JsonFields) -> Result<StreamEnding, Error> {
        let choice = first_choice(body).ok_or(Error::UseFallback { missing: "no choices" })?;
        refuse_error(&choice)?;
        let message = choice.object("message").ok_or(Error::UseFallback { missing: "no message" })?;
        let mut reader = Self { has_choices: true, done: true, ..Self::default() };
        reader.head(body);
        reader.delta(&message, &mut Vec::new());
        for entry in message.list("tool_calls").unwrap_or_default() {
            if let Ok(entry) = entry.read::<JsonFields>() {
                reader.calls.push_complete(&entry);
            }
        }
        reader.tail(&choice);
        // An answer in one piece needs no finish reason.
        reader.finish.get_or_insert_with(|| "stop".to_owned());
        reader.finish(&mut Vec::new())
    }

    fn head(&mut self, fields: &JsonFields) {
        if let Some(id) = fields.text("id").filter(|id| !id.is_empty()) {
            self.response_id = Some(id);
        }
        if let Some(model) = fields.text("model").filter(|model| !model.is_empty()) {
            self.model = Some(model);
        }
        if let Some(raw) = fields.non_null("usage") {
            self.count(raw);
        }
    }

    fn count(&mut self, raw: &RawJson) {
        self.usage = usage::read(ApiMode::Chat, raw).or(self.usage);
        self.reported_cost = usage::reported_cost(raw).or(self.reported_cost);
    }

    fn delta(&mut self, delta: &JsonFields, out: &mut Vec<Delta>) {
        let reasoning = delta.text("reasoning").unwrap_or_default();
        let content = delta.text("reasoning_content").unwrap_or_default();
        let details = delta.non_null("reasoning_details");
        // The same reasoning often arrives in two fields; it is shown once.
        let shown = [Some(reasoning.clone()), Some(content.clone()), details.map(merge::text)];
        if let Some(text) = shown.into_iter().flatten().find(|text| !text.is_empty()) {
            out.push(Delta::Reasoning(text));
        }
        self.reasoning.push_str(&reasoning);
        self.reasoning_content.push_str(&content);
        if let Some(details) = details {
            self.details.add(details);
        }
        if let Some(raw) = delta.non_null("content") {
            let said = foreign_content::read(raw);
            if !said.thinking.is_empty() {
                out.push(Delta::Reasoning(said.thinking.clone()));
                self.reasoning.push_str(&said.thinking);
            }
            self.text.push(&said.text, out);
        }
        if let Some(refusal) = delta.text("refusal") {
            self.text.push(&refusal, out);
        }
    }

    fn tail(&mut self, choice: &JsonFields) {
        if let Some(reason) = choice.text("finish_reason").filter(|reason| !reason.is_empty()) {
            self.finish = Some(reason);
        }
        if let Some(raw) = choice.non_null("usage") {
            self.count(raw);
        }
    }

    pub(super) fn finish(mut self, out: &mut Vec<Delta>) -> Result<StreamEnding, Error> {
        self.text.flush(out);
        let names = self.calls.names();
        let truncated = self.finish.as_deref().map(finish_reason) == Some(FinishReason::Length);
        let has_calls = !self.calls.is_empty();
        let says_nothing = self.text.content().is_empty() && !has_calls;
        let calls = self.calls.finish(if truncated {
            EmptyArguments::Truncated
        } else {
            EmptyArguments::NoArguments
        });
        let details = self.details.finish();
        let reasoning = flatten(&self.reasoning, &self.reasoning_content, details.as_ref());
        let mut message: Message = self.text.into_message(reasoning);
        message.reasoning_details = details;
        if !self.has_choices && self.done {
            return Err(Error::UseFallback { missing: "no choices" });
        }
        let torn = match &self.finish {
            Some(_) => false,
            // The end was marked without a reason, which is sufficient for an answer that is complete in itself.
            None => !self.done || says_nothing || super::calls::has_invalid_arguments(&calls),
        };
        if torn {
            let cut = PartialAnswer { partial: message, lost_calls: names, usage: self.usage };
            return Ok(StreamEnding::CutOff(Box::new(cut)));
        }
        let reason = finish_reason(self.finish.as_deref().unwrap_or("stop"));
        message.finish_reason = Some(match reason {
            FinishReason::Stop if has_calls => FinishReason::ToolCalls,
            other => other,
        });
        message.tool_calls = calls;
        Ok(StreamEnding::Complete(Box::new(DecodedAnswer {
            message,
            usage: self.usage,
            reported_cost: self.reported_cost,
            model: self.model,
            response_id: self.response_id,
            provider_items: None,
        })))
    }
}

fn first_choice(fields: &JsonFields) -> Option<JsonFields> {
    let choices: Vec<JsonFields> =
        fields.list("choices")?.iter().filter_map(|choice| choice.read().ok()).collect();
    let zero = choices.iter().position(|choice| choice.number("index").unwrap_or(0) == 0)?;
    choices.into_iter().nth(zero)
}

fn refuse_error(fields: &JsonFields) -> Result<(), Error> {
    match fields.non_null("error") {
        Some(raw) if !matches!(raw.as_str(), "{}" | "\"\"" | "false") => {
            Err(Error::Classify(ProviderFault::read(raw)))
        }
        _ => Ok(()),
    }
}

/// Maps the names that servers use to the five finish reasons.
fn finish_reason(word: &str) -> FinishReason {
    match word.to_ascii_lowercase().as_str() {
        "stop" | "end_turn" | "stop_sequence" | "eos" | "eos_token" | "complete" => FinishReason::Stop,
        "tool_calls" | "tool_use" | "function_call" | "tool_call" => FinishReason::ToolCalls,
        "length" | "max_tokens" | "max_output_tokens" | "model_length" => FinishReason::Length,
        "content_filter" | "safety" | "refusal" | "prohibited_content" => FinishReason::ContentFilter,
        _ => FinishReason::parse(word),
    }
}

/// Returns the reasoning as one text: the plain fields, then the details, without repetitions.
fn flatten(reasoning: &str, content: &str, details: Option<&RawJson>) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let candidates = [reasoning.to_owned(), content.to_owned()];
    for text in candidates.into_iter().chain(details.map(merge::texts).unwrap_or_default()) {
        if !text.is_empty() && !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}
