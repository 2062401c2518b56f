//! The sections of Kimi, whose calls have ids that name the function.

use super::{ParsedToolText, RawToolCall, content_before, cut};

pub(super) const SECTIONS: [&str; 2] = ["<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"];
const BEGIN: &str = "<|tool_call_begin|>";
const ARGUMENT: &str = "<|tool_call_argument_begin|>";
const END: &str = "<|tool_call_end|>";

pub(super) fn parse(text: &str) -> Option<ParsedToolText> {
    let at = SECTIONS.iter().filter_map(|section| text.find(section)).min()?;
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = cut(rest, BEGIN) {
        rest = match one(after) {
            Some((call, next)) => {
                calls.push(call);
                next
            }
            None => after,
        };
    }
    Some(ParsedToolText { content: content_before(text, at), calls })
}

fn one(text: &str) -> Option<(RawToolCall, &str)> {
    let (id, rest) = text.split_at_checked(text.find('<')?)?;
    let rest = rest.strip_prefix(ARGUMENT)?;
    let id = id.trim();
    let (head, number) = id.rsplit_once(':')?;
    if head.is_empty() || number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (arguments, after) = cut(rest, END)?;
    if arguments.contains(BEGIN) {
        return None;
    }
    let path = id.split(':').next()?;
    let name = path.rsplit('.').next()?;
    Some((RawToolCall { id: Some(id.to_owned()), ..RawToolCall::new(name, arguments.trim()) }, after))
}
