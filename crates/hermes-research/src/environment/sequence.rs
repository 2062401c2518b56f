//! The tokens of a conversation with a server that takes and returns tokens.
//!
//! Each answer extends the sequence of the prompt it answers, if that prompt continues what is known; else a new sequence begins.
//! Invariant: the three arrays of a sequence are equally long; a token counts for training only if the model made it.

use std::collections::HashMap;
use std::fmt::Write as _;

use hermes_text::JsonTree;
use serde_json::{Map, Value, json};

use super::tokenizer::{ChatTokenizer, SpecialTokens};

/// The mask of a token that does not count for training.
pub(crate) const MASKED: i64 = -100;
/// The log probability where there is none.
const NO_LOGPROB: f64 = 1.0;
/// What stands for the tags of reasoning while a template is filled in, so that it cannot leave them out.
const HIDDEN_TAGS: [(&str, &str); 2] =
    [("<think>", "\u{e000}think-begin\u{e001}"), ("</think>", "\u{e000}think-end\u{e001}")];

/// A text with its tokens.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TokenSequence {
    pub(crate) text: String,
    pub(crate) tokens: Vec<u32>,
    pub(crate) masks: Vec<i64>,
    pub(crate) logprobs: Vec<f64>,
}

impl TokenSequence {
    /// Reads a sequence that a proxy kept.
    pub(crate) fn from_node(node: &Value) -> Option<Self> {
        let list = |name: &str| node.get(name).and_then(Value::as_array);
        let tokens: Option<Vec<u32>> =
            list("tokens")?.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect();
        let masks: Option<Vec<i64>> = list("masked_tokens")?.iter().map(Value::as_i64).collect();
        let logprobs: Option<Vec<f64>> = list("logprobs")?.iter().map(Value::as_f64).collect();
        let text = node.get("full_text").and_then(Value::as_str).unwrap_or_default().to_owned();
        let sequence = Self { text, tokens: tokens?, masks: masks?, logprobs: logprobs? };
        let count = sequence.tokens.len();
        (sequence.masks.len() == count && sequence.logprobs.len() == count).then_some(sequence)
    }
}

/// What a server made of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GeneratedTokens {
    pub(crate) tokens: Vec<u32>,
    pub(crate) logprobs: Vec<f64>,
}

/// A prompt, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SequencePrompt {
    pub(crate) tokens: Vec<u32>,
    text: String,
    /// The sequence that is continued, and how many tokens the prompt adds to it.
    continued: Option<(usize, usize)>,
}

/// The sequences of one conversation.
#[derive(Debug, Clone, Default)]
pub(crate) struct SequenceTracker {
    sequences: Vec<TokenSequence>,
    /// What the model wrote, by the id of its first call.
    written: HashMap<String, String>,
}

impl SequenceTracker {
    /// Writes the messages as a prompt, and finds what it continues.
    pub(crate) fn prompt(
        &self,
        messages: &[Value],
        tools: &[Value],
        keep_reasoning: bool,
        tokenizer: &dyn ChatTokenizer,
    ) -> Result<SequencePrompt, String> {
        let hide = |text: &str| {
            if keep_reasoning {
                return text.to_owned();
            }
            HIDDEN_TAGS.iter().fold(text.to_owned(), |text, (tag, hidden)| text.replace(tag, hidden))
        };
        let shown: Vec<Value> = messages.iter().map(|message| self.as_written(message, &hide)).collect();
        let is_answer = messages
            .last()
            .is_some_and(|message| message.get("role").and_then(Value::as_str) == Some("assistant"));
        let rendered = tokenizer.render(&shown, tools, !is_answer)?;
        let text = HIDDEN_TAGS.iter().fold(rendered, |text, (tag, hidden)| text.replace(hidden, tag));
        let known = self.sequences.iter().enumerate();
        let known = known.filter(|(_, sequence)| text.starts_with(&sequence.text));
        if let Some((at, sequence)) = known.max_by_key(|(_, sequence)| sequence.text.len()) {
            let rest = text.strip_prefix(sequence.text.as_str()).unwrap_or_default();
            let more = tokenizer.encode(rest, SpecialTokens::Omit)?;
            let tokens = [sequence.tokens.as_slice(), &more].concat();
            return Ok(SequencePrompt { tokens, text, continued: Some((at, more.len())) });
        }
        let mut tokens = tokenizer.encode(&text, SpecialTokens::Include)?;
        let first = tokenizer.first_token();
        if first.is_some() && tokens.first().copied() == first && tokens.get(1).copied() == first {
            // The template has written it, too.
            tokens.remove(0);
        }
        Ok(SequencePrompt { tokens, text, continued: None })
    }

    /// Adds what the server made of a prompt.
    pub(crate) fn add(&mut self, prompt: SequencePrompt, generated: &GeneratedTokens, text: &str) {
        let mut sequence = match prompt.continued.and_then(|(at, more)| Some((self.sequences.get(at)?, more)))
        {
            Some((known, more)) => {
                let mut masks = known.masks.clone();
                masks.extend(std::iter::repeat_n(MASKED, more));
                let mut logprobs = known.logprobs.clone();
                logprobs.extend(std::iter::repeat_n(NO_LOGPROB, more));
                TokenSequence { text: prompt.text, tokens: prompt.tokens, masks, logprobs }
            }
            None => TokenSequence {
                masks: vec![MASKED; prompt.tokens.len()],
                logprobs: vec![NO_LOGPROB; prompt.tokens.len()],
                text: prompt.text,
                tokens: prompt.tokens,
            },
        };
        sequence.text.push_str(text);
        sequence.masks.extend(generated.tokens.iter().map(|token| i64::from(*token)));
        sequence.logprobs.extend(&generated.logprobs);
        sequence.tokens.extend(&generated.tokens);
        match prompt.continued.and_then(|(at, _)| self.sequences.get_mut(at)) {
            Some(slot) => *slot = sequence,
            None => self.sequences.push(sequence),
        }
    }

    /// Keeps what the model wrote as the source of an answer with calls.
    pub(crate) fn keep_written(&mut self, first_call: &str, text: &str) {
        self.written.insert(first_call.to_owned(), text.to_owned());
    }

    /// Returns the sequence of the last answer.
    pub(crate) fn last(&self) -> Option<&TokenSequence> {
        self.sequences.last()
    }

    /// Returns a message the way the model wrote it, so that the prompt repeats the same tokens.
    fn as_written(&self, message: &Value, hide: &dyn Fn(&str) -> String) -> Value {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        let content = message.get("content").and_then(Value::as_str).unwrap_or_default();
        let calls = message.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty());
        if let (Some(calls), "assistant") = (calls, role) {
            let first = calls.first().and_then(|call| call.get("id")).and_then(Value::as_str);
            let text = match first.and_then(|id| self.written.get(id)) {
                Some(text) => text.clone(),
                None => write_calls(content, calls),
            };
            return json!({"role": "assistant", "content": hide(&text)});
        }
        let mut shown = Map::new();
        shown.insert("role".to_owned(), json!(role));
        let is_text = message.get("content").is_none_or(|content| content.is_string() || content.is_null());
        let content = if is_text { json!(hide(content)) } else { message["content"].clone() };
        shown.insert("content".to_owned(), content);
        for name in ["name", "tool_call_id"] {
            if let Some(value) = message.get(name) {
                shown.insert(name.to_owned(), value.clone());
            }
        }
        Value::Object(shown)
    }
}

/// Writes calls in the usual form, for an answer whose own text is not known.
fn write_calls(content: &str, calls: &[Value]) -> String {
    let mut text = content.to_owned();
    for call in calls {
        let function = call.get("function").unwrap_or(call);
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => {
                JsonTree::parse(text).unwrap_or_else(|_| JsonTree::text(text.as_str()))
            }
            Some(other) => JsonTree::parse(&other.to_string()).unwrap_or(JsonTree::Null),
            None => JsonTree::Object(Vec::new()),
        };
        let call = JsonTree::object([("name", JsonTree::from(name)), ("arguments", arguments)]);
        if !text.is_empty() {
            text.push('\n');
        }
        // Writing to a `String` cannot fail.
        let _ = write!(text, "<tool_call>{call}</tool_call>");
    }
    text
}
