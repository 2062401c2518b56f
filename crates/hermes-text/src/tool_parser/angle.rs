//! `<tool_call>{"name": …, "arguments": …}</tool_call>`.

use super::{ParsedToolText, RawToolCall, content_before, cut};
use crate::JsonTree;

pub(super) fn parse(text: &str, open: &str, close: &str) -> Option<ParsedToolText> {
    let at = text.find(open)?;
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = cut(rest, open) {
        let (body, next) = cut(after, close).unwrap_or((after, ""));
        rest = next;
        let body = body.trim();
        if body.is_empty() {
            continue;
        }
        let call = JsonTree::parse(body).ok()?;
        let name = call.get("name")?.as_str()?;
        let arguments = call.get("arguments").map_or_else(|| "{}".to_owned(), ToString::to_string);
        calls.push(RawToolCall::new(name, arguments));
    }
    Some(ParsedToolText { content: content_before(text, at), calls })
}
