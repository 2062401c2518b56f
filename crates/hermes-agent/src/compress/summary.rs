//! Asks a model for a summary and formats summaries for the conversation.

use hermes_text::{estimate_tokens, head, tail};
use hermes_types::{Cancel, Completion, Deadline, Message, ModelError, ModelRequest, Role};

use super::files;
use crate::agent::Agent;
use crate::turn::gauge::message_tokens;

const PREFIX: &str = "[CONTEXT COMPACTION]";
const LEGACY_PREFIX: &str = "[CONTEXT SUMMARY]:";
const INTRODUCTION: &str = include_str!("../texts/compaction_prefix.md").trim_ascii();
const INSTRUCTIONS: &str = include_str!("../texts/compaction.md").trim_ascii();
const UPDATE: &str = include_str!("../texts/compaction_update.md").trim_ascii();
const LATEST_INSTRUCTION_HEADING: &str = "## The user's latest instruction, word for word";
const MAX_MESSAGE_CHARS: usize = 3_000;
const KEPT_HEAD: usize = 2_000;
const KEPT_TAIL: usize = 800;
const MAX_ARGUMENTS_CHARS: usize = 400;
const MIN_SUMMARY_TOKENS: u64 = 2_000;
/// The length up to which the latest instruction is kept whole.
const MAX_INSTRUCTION_CHARS: usize = 20_000;

/// The messages to summarize, with their context and limits.
pub(crate) struct SummaryRequest<'a> {
    pub(crate) messages: &'a [Message],
    pub(crate) previous: Option<&'a Message>,
    /// The topic the user wants kept above all.
    pub(crate) focus: Option<&'a str>,
    pub(crate) extra: Option<&'a str>,
    /// The most tokens a summary may have.
    pub(crate) cap: u64,
}

/// Separates a summary from the text of the message it was merged into.
pub(crate) const END: &str = "[END OF CONTEXT COMPACTION]";

/// Tells whether a message is an earlier summary or begins with one.
pub(crate) fn is_summary(message: &Message) -> bool {
    let text = message.content.text();
    text.starts_with(PREFIX) || text.starts_with(LEGACY_PREFIX)
}

/// Splits a message into its summary and its own text after it.
pub(crate) fn split_summary(text: &str) -> (&str, &str) {
    text.split_once(END).map_or((text, ""), |(summary, own)| (summary.trim_end(), own.trim_start()))
}

/// Asks the model for the text of a summary.
pub(crate) async fn request_summary(
    agent: &Agent,
    what: &SummaryRequest<'_>,
    deadline: Deadline,
    cancel: &Cancel,
) -> Result<(String, Completion), ModelError> {
    let side = agent.models.side();
    let estimated: u64 = what.messages.iter().map(message_tokens).sum();
    let budget = (estimated / 5).max(MIN_SUMMARY_TOKENS).min(what.cap.max(MIN_SUMMARY_TOKENS));
    let request = ModelRequest {
        model: side.name.clone(),
        system: INSTRUCTIONS.to_owned(),
        messages: vec![Message::user(summarizer_input(what, budget))],
        tools: std::sync::Arc::default(),
        max_tokens: Some(budget.saturating_mul(2)),
        temperature: Some(0.3),
        effort: None,
        session: None,
        deadline: deadline.at_most(&*agent.clock, side.timeout),
        cancel: cancel.clone(),
    };
    let completion = agent.models.ask_side(&*agent.clock, request).await?;
    let text = completion.message.content.text();
    let words = hermes_text::strip_think(&text).trim().to_owned();
    let words =
        if words.is_empty() { completion.message.reasoning.clone().unwrap_or_default() } else { words };
    if words.trim().is_empty() {
        return Err(ModelError::GiveUp { message: "the summary was empty".to_owned(), status: None });
    }
    Ok((without_prefix(&words).to_owned(), completion))
}

/// Builds the input of the summarizer.
fn summarizer_input(what: &SummaryRequest<'_>, budget: u64) -> String {
    let mut parts = Vec::new();
    if let Some(previous) = what.previous {
        let text = previous.content.text();
        let (summary, _) = self::split_summary(&text);
        parts.push(format!(
            "{UPDATE}\n\n<previous_summary>\n{}\n</previous_summary>",
            without_prefix(summary)
        ));
    }
    if let Some(focus) = what.focus.filter(|focus| !focus.trim().is_empty()) {
        parts.push(format!("Above all keep what concerns: {}", focus.trim()));
    }
    parts.push(format!("Write at most about {budget} tokens."));
    let is_new = |message: &&Message| !is_summary(message) || !message.tool_calls.is_empty();
    let lines: Vec<String> = what.messages.iter().filter(is_new).map(render).collect();
    parts.push(format!("<conversation>\n{}\n</conversation>", lines.join("\n")));
    if let Some(extra) = what.extra {
        parts.push(format!("<memory>\n{extra}\n</memory>"));
    }
    parts.join("\n\n")
}

fn render(message: &Message) -> String {
    let text = message.content.text();
    let text = shortened(if is_summary(message) { split_summary(&text).1 } else { &text });
    match message.role {
        Role::User => format!("[USER]: {text}"),
        Role::System => format!("[SYSTEM]: {text}"),
        Role::Tool => {
            let id = message.tool_call_id.as_ref().map(hermes_types::CallId::as_str).unwrap_or_default();
            format!("[TOOL RESULT {id}]: {text}")
        }
        Role::Assistant => {
            let calls: Vec<String> = message
                .tool_calls
                .iter()
                .map(|call| format!("{}({})", call.name, head(&call.arguments, MAX_ARGUMENTS_CHARS)))
                .collect();
            if calls.is_empty() {
                format!("[ASSISTANT]: {text}")
            } else {
                format!("[ASSISTANT]: {text}\n  calls: {}", calls.join(", "))
            }
        }
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_MESSAGE_CHARS {
        return text.to_owned();
    }
    format!("{}\n[…]\n{}", head(text, KEPT_HEAD), tail(text, KEPT_TAIL))
}

/// Removes all prefixes, so that a summary never carries two.
fn without_prefix(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        if let Some(rest) = text.strip_prefix(INTRODUCTION).or_else(|| text.strip_prefix(LEGACY_PREFIX)) {
            text = rest.trim_start();
        } else if text.starts_with(PREFIX) {
            // A summary of another program has its introduction in the first line.
            text = text.split_once('\n').map(|(_, rest)| rest.trim_start()).unwrap_or_default();
        } else {
            break text;
        }
    }
}

/// Formats the summary for the conversation.
pub(crate) fn format_summary(words: &str, latest: Option<&str>, touched: &[String]) -> String {
    // The sections written here replace those of an earlier summary.
    let words = words.split("## Files touched").next().unwrap_or(words);
    let words = words.split(LATEST_INSTRUCTION_HEADING).next().unwrap_or(words).trim_end();
    let mut parts = vec![format!("{INTRODUCTION}\n\n{words}")];
    if let Some(latest) = latest {
        parts.push(format!("{LATEST_INSTRUCTION_HEADING}\n{}", bounded(latest)));
    }
    parts.extend(files::format_section(touched));
    parts.join("\n\n")
}

fn bounded(text: &str) -> String {
    if estimate_tokens(text) * 4 <= MAX_INSTRUCTION_CHARS as u64 {
        return text.to_owned();
    }
    format!("{}\n[…]\n{}", head(text, MAX_INSTRUCTION_CHARS * 3 / 4), tail(text, MAX_INSTRUCTION_CHARS / 4))
}
