//! `<tool_call>name`, then pairs of `<arg_key>` and `<arg_value>`.

use super::literal::typed_value;
use super::{ParsedToolText, RawToolCall, content_before, cut};
use crate::JsonTree;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const KEY: &str = "<arg_key>";

/// Parses blocks whose first line is the name.
pub(super) fn parse_lines(text: &str) -> Option<ParsedToolText> {
    parse(text, |block| cut(block, "\n"), false)
}

/// Parses blocks whose name ends where the first key begins.
pub(super) fn parse_tags(text: &str) -> Option<ParsedToolText> {
    parse(text, |block| block.split_at_checked(block.find(KEY).unwrap_or(block.len())), true)
}

fn parse(
    text: &str,
    split: impl for<'a> Fn(&'a str) -> Option<(&'a str, &'a str)>,
    escaped_breaks: bool,
) -> Option<ParsedToolText> {
    let at = text.find(OPEN)?;
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((block, next)) = cut(rest, OPEN).and_then(|(_, after)| cut(after, CLOSE)) {
        rest = next;
        let Some((name, pairs)) = split(block) else { continue };
        calls.push(RawToolCall::new(name.trim(), arguments(pairs, escaped_breaks)?.to_string()));
    }
    Some(ParsedToolText { content: content_before(text, at), calls })
}

/// Reads the pairs. `None` where a value has no JSON form.
fn arguments(pairs: &str, escaped_breaks: bool) -> Option<JsonTree> {
    let mut object = JsonTree::object([]);
    let mut rest = pairs;
    while let Some((_, after)) = cut(rest, KEY) {
        rest = after;
        let Some((key, after)) = cut(after, "</arg_key>") else { continue };
        let mut after = after.trim_start();
        while let Some(next) = after.strip_prefix("\\n").filter(|_| escaped_breaks) {
            after = next.trim_start();
        }
        let Some((value, next)) =
            after.strip_prefix("<arg_value>").and_then(|after| cut(after, "</arg_value>"))
        else {
            continue;
        };
        object.set(key.trim(), typed_value(value.trim())?);
        rest = next;
    }
    Some(object)
}
