//! `<function=name>` with `<parameter=name>` inside.

use super::literal::typed_value;
use super::{ParsedToolText, RawToolCall, cut};
use crate::JsonTree;

const OPEN: &str = "<tool_call>";
const CLOSE: &str = "</tool_call>";
const FUNCTION: &str = "<function=";
const FUNCTION_END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

pub(super) fn parse(text: &str) -> Option<ParsedToolText> {
    let first = text.find(FUNCTION)?;
    let mut calls = Vec::new();
    if text.contains(OPEN) {
        let mut rest = text;
        while let Some((_, after)) = cut(rest, OPEN) {
            let (block, next) = cut(after, CLOSE).unwrap_or((after, ""));
            read_block(block, &mut calls)?;
            rest = next;
        }
    } else {
        read_block(text, &mut calls)?;
    }
    let at = text.find(OPEN).unwrap_or(first);
    let content = (at > 0).then(|| text.get(..at).unwrap_or_default().trim().to_owned());
    Some(ParsedToolText { content, calls })
}

fn read_block(block: &str, calls: &mut Vec<RawToolCall>) -> Option<()> {
    let mut rest = block;
    while let Some((_, after)) = cut(rest, FUNCTION) {
        let (function, next) = cut(after, FUNCTION_END).unwrap_or((after, ""));
        rest = next;
        let Some((name, body)) = cut(function, ">") else { continue };
        let mut object = JsonTree::object([]);
        for parameter in body.split(PARAMETER).skip(1) {
            let parameter = cut(parameter, PARAMETER_END).map_or(parameter, |(parameter, _)| parameter);
            let Some((key, value)) = cut(parameter, ">") else { continue };
            object.set(key.trim(), parameter_value(value)?);
        }
        calls.push(RawToolCall::new(name.trim(), object.to_string()));
    }
    Some(())
}

fn parameter_value(value: &str) -> Option<JsonTree> {
    let value = value.strip_prefix('\n').unwrap_or(value);
    let value = value.strip_suffix('\n').unwrap_or(value).trim();
    if value.eq_ignore_ascii_case("null") { Some(JsonTree::Null) } else { typed_value(value) }
}
