//! Tool calls in the raw text of a model, in the forms that families of models use.
//!
//! A parser takes a whole text: it finds all calls or none. [`ToolCallStream`] shows a text while it arrives, up to where a call may
//! begin. Pure; ids that the text does not contain are made up by the caller. Invariant: a call that is not certain voids the whole,
//! so that no part of a broken answer is carried out.

mod angle;
mod deepseek;
mod glm;
mod kimi;
mod literal;
mod llama;
mod mistral;
mod qwen_coder;
mod stream;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use stream::ToolCallStream;

/// A call found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawToolCall {
    /// The id, where the text has one.
    pub id: Option<String>,
    pub name: String,
    /// The arguments as the text of a JSON value; where the form does not require that, as the model wrote them.
    pub arguments: String,
}

impl RawToolCall {
    fn new(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: None, name: name.into(), arguments: arguments.into() }
    }
}

/// A text with calls, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedToolText {
    /// What stands before the first call.
    pub content: Option<String>,
    /// At least one.
    pub calls: Vec<RawToolCall>,
}

/// A name that no parser has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{name}` is not a tool-call parser; there are {}", ToolCallParser::names().join(", "))]
pub struct UnknownToolParser {
    pub name: String,
}

/// A parser, chosen by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolCallParser {
    form: CallForm,
}

/// The forms in which models write calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallForm {
    Hermes,
    Longcat,
    Mistral,
    Llama,
    DeepSeekV3,
    DeepSeekV31,
    Kimi,
    Glm45,
    Glm47,
    QwenCoder,
}

const PARSERS: [(&str, CallForm); 13] = [
    ("deepseek_v3", CallForm::DeepSeekV3),
    ("deepseek_v31", CallForm::DeepSeekV31),
    ("deepseek_v3_1", CallForm::DeepSeekV31),
    ("glm45", CallForm::Glm45),
    ("glm47", CallForm::Glm47),
    ("hermes", CallForm::Hermes),
    ("kimi_k2", CallForm::Kimi),
    ("llama3_json", CallForm::Llama),
    ("llama4_json", CallForm::Llama),
    ("longcat", CallForm::Longcat),
    ("mistral", CallForm::Mistral),
    ("qwen", CallForm::Hermes),
    ("qwen3_coder", CallForm::QwenCoder),
];

impl ToolCallParser {
    /// Returns the names of all parsers, sorted.
    pub fn names() -> Vec<&'static str> {
        PARSERS.iter().map(|(name, _)| *name).collect()
    }

    /// Finds a parser by its name.
    pub fn named(name: &str) -> Result<Self, UnknownToolParser> {
        let found = PARSERS.iter().find(|(known, _)| *known == name.trim());
        let found = found.ok_or_else(|| UnknownToolParser { name: name.to_owned() });
        found.map(|(_, form)| Self { form: *form })
    }

    /// Takes a text apart. `None` where it has no calls, or where one of them is broken: then the text stays as it is.
    pub fn parse(self, text: &str) -> Option<ParsedToolText> {
        let parsed = match self.form {
            CallForm::Hermes => angle::parse(text, "<tool_call>", "</tool_call>"),
            CallForm::Longcat => angle::parse(text, "<longcat_tool_call>", "</longcat_tool_call>"),
            CallForm::Mistral => mistral::parse(text),
            CallForm::Llama => llama::parse(text),
            CallForm::DeepSeekV3 => deepseek::parse_fenced(text),
            CallForm::DeepSeekV31 => deepseek::parse_plain(text),
            CallForm::Kimi => kimi::parse(text),
            CallForm::Glm45 => glm::parse_lines(text),
            CallForm::Glm47 => glm::parse_tags(text),
            CallForm::QwenCoder => qwen_coder::parse(text),
        };
        parsed.filter(|parsed| {
            !parsed.calls.is_empty() && parsed.calls.iter().all(|call| !call.name.is_empty())
        })
    }

    /// Returns the texts with which calls may begin.
    fn markers(self) -> &'static [&'static str] {
        match self.form {
            CallForm::Hermes | CallForm::Glm45 | CallForm::Glm47 => &["<tool_call>"],
            CallForm::Longcat => &["<longcat_tool_call>"],
            CallForm::Mistral => &[mistral::MARKER],
            CallForm::Llama => &["{", llama::TAG],
            CallForm::DeepSeekV3 | CallForm::DeepSeekV31 => &[deepseek::CALLS_BEGIN],
            CallForm::Kimi => &kimi::SECTIONS,
            CallForm::QwenCoder => &["<tool_call>", "<function="],
        }
    }
}

/// Returns the trimmed text before a position; `None` where nothing is left.
fn content_before(text: &str, at: usize) -> Option<String> {
    let before = text.get(..at).unwrap_or_default().trim();
    (!before.is_empty()).then(|| before.to_owned())
}

/// Splits a text at the first occurrence of a mark.
fn cut<'a>(text: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(mark)
}
