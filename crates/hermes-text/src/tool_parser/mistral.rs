//! `[TOOL_CALLS]`, followed by an array of calls, or by a name and its arguments.

use super::{ParsedToolText, RawToolCall, content_before};
use crate::JsonTree;

pub(super) const MARKER: &str = "[TOOL_CALLS]";

pub(super) fn parse(text: &str) -> Option<ParsedToolText> {
    let at = text.find(MARKER)?;
    let mut parts = text.split(MARKER).skip(1);
    let first = parts.next()?.trim();
    let calls = if first.starts_with(['[', '{']) {
        match JsonTree::parse(first) {
            Ok(JsonTree::Array(calls)) => calls.iter().map(call).collect::<Option<Vec<_>>>()?,
            Ok(one) => vec![call(&one)?],
            Err(_) => scan(first)?,
        }
    } else {
        std::iter::once(first).chain(parts).filter_map(named).collect()
    };
    Some(ParsedToolText { content: content_before(text, at), calls })
}

fn call(value: &JsonTree) -> Option<RawToolCall> {
    let name = value.get("name")?.as_str()?;
    let arguments = match value.get("arguments") {
        None => "{}".to_owned(),
        Some(JsonTree::String(text)) => text.clone(),
        Some(object @ JsonTree::Object(_)) => object.to_string(),
        Some(_) => return None,
    };
    Some(RawToolCall::new(name, arguments))
}

/// Collects the complete calls of a list that breaks off.
fn scan(text: &str) -> Option<Vec<RawToolCall>> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let step = match JsonTree::parse_prefix(rest) {
            Ok((value, length)) => {
                if value.get("name").is_some() {
                    calls.push(call(&value)?);
                }
                length
            }
            Err(_) => first.len_utf8(),
        };
        rest = rest.get(step..).unwrap_or_default();
    }
    Some(calls)
}

fn named(part: &str) -> Option<RawToolCall> {
    let at = part.find('{')?;
    let (name, arguments) = part.split_at_checked(at)?;
    let arguments = arguments.trim();
    let arguments =
        JsonTree::parse(arguments).map_or_else(|_| arguments.to_owned(), |value| value.to_string());
    Some(RawToolCall::new(name.trim(), arguments))
}
