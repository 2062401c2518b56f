//! The marks of DeepSeek, whose bars and blanks are not those of ASCII.

use super::{ParsedToolText, RawToolCall, content_before, cut};

pub(super) const CALLS_BEGIN: &str = "<｜tool▁calls▁begin｜>";
const BEGIN: &str = "<｜tool▁call▁begin｜>";
const END: &str = "<｜tool▁call▁end｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";
const FENCE: &str = "```";
const JSON_FENCE: &str = "```json";

/// Parses calls of a kind, a name, and arguments in a fence.
pub(super) fn parse_fenced(text: &str) -> Option<ParsedToolText> {
    parse(text, |rest| {
        let (_, rest) = cut(rest, SEPARATOR)?;
        let (name, rest) = cut(rest, JSON_FENCE)?;
        // The fence that the end of the call follows.
        let closing =
            |at: usize| rest.get(at + FENCE.len()..).is_some_and(|after| after.trim_start().starts_with(END));
        let (at, _) = rest.match_indices(FENCE).find(|(at, _)| closing(*at))?;
        let arguments = rest.get(..at)?.trim();
        let (_, after) = cut(rest.get(at..)?, END)?;
        Some((RawToolCall::new(name.trim(), arguments), after))
    })
}

/// Parses calls of a name and arguments.
pub(super) fn parse_plain(text: &str) -> Option<ParsedToolText> {
    parse(text, |rest| {
        let (name, rest) = cut(rest, SEPARATOR)?;
        let (arguments, after) = cut(rest, END)?;
        Some((RawToolCall::new(name.trim(), arguments.trim()), after))
    })
}

fn parse(
    text: &str,
    one: impl for<'a> Fn(&'a str) -> Option<(RawToolCall, &'a str)>,
) -> Option<ParsedToolText> {
    let at = text.find(CALLS_BEGIN)?;
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
