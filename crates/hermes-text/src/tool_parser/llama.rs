//! `{"name": …, "parameters": …}` anywhere in the text.

use super::{ParsedToolText, RawToolCall};
use crate::JsonTree;

pub(super) const TAG: &str = "<|python_tag|>";

pub(super) fn parse(text: &str) -> Option<ParsedToolText> {
    let mut calls = Vec::new();
    // One after the last value that was read. What begins right there is not looked at, as the form has it.
    let mut end = None;
    for (at, _) in text.match_indices('{') {
        if end.is_some_and(|end| at <= end) {
            continue;
        }
        let Ok((value, length)) = JsonTree::parse_prefix(text.get(at..).unwrap_or_default()) else {
            continue;
        };
        end = Some(at + length);
        let arguments = value.get("arguments").or_else(|| value.get("parameters"));
        let name = value.get("name").and_then(JsonTree::as_str).filter(|name| !name.is_empty());
        let (Some(name), Some(arguments)) = (name, arguments.filter(|arguments| !arguments.is_null())) else {
            continue;
        };
        let arguments = match arguments {
            JsonTree::String(text) => text.clone(),
            other => other.to_string(),
        };
        calls.push(RawToolCall::new(name, arguments));
    }
    let before = text.find(TAG).or_else(|| text.find('{'))?;
    let content = (before > 0).then(|| text.get(..before).unwrap_or_default().trim().to_owned());
    Some(ParsedToolText { content, calls })
}
