//! Assembles tool calls from the deltas of chat servers.
//!
//! The index identifies a call, but not every server complies: some give every call index 0, some omit the index or
//! the id, some repeat id and name in every delta. A new id at a known index starts a new call; so does a new name
//! once the arguments so far are complete.

use hermes_types::{Delta, JsonFields, RawJson, ToolCall};
use serde_json::Value;

use super::answer_text::AnswerText;
use crate::wire::fields::{JsonFieldsExt as _, read_text};

#[derive(Debug, Default)]
pub(super) struct ToolCallAssembler {
    slots: Vec<PartialCall>,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra_content: Option<RawJson>,
    announced: bool,
}

impl ToolCallAssembler {
    /// Adds one entry of a delta's `tool_calls`.
    pub(super) fn push_delta(&mut self, entry: &JsonFields, speech: &mut AnswerText, out: &mut Vec<Delta>) {
        let index = entry.number("index");
        let id = entry.text("id").unwrap_or_default();
        let function = entry.object("function").unwrap_or_default();
        let name = function.text("name").or_else(|| entry.text("name")).unwrap_or_default();
        let arguments = function.get("arguments").map(arguments_text).unwrap_or_default();
        let at = self.slot_for(index, &id, &name, &arguments);
        let Some(slot) = self.slots.get_mut(at) else { return };
        if slot.id.is_empty() {
            slot.id = id;
        }
        slot.add_name(&name);
        slot.arguments.push_str(&arguments);
        if let Some(extra) = entry.non_null("extra_content").or_else(|| function.non_null("extra_content")) {
            slot.extra_content = Some(extra.clone());
        }
        if !slot.announced && !slot.name.is_empty() {
            slot.announced = true;
            speech.start_call(&slot.name, out);
        }
    }

    /// Adds a complete call, for answers in one piece.
    pub(super) fn push_complete(&mut self, entry: &JsonFields) {
        let function = entry.object("function").unwrap_or_default();
        self.slots.push(PartialCall {
            index: None,
            id: entry.text("id").unwrap_or_default(),
            name: function.text("name").or_else(|| entry.text("name")).unwrap_or_default(),
            arguments: function.get("arguments").map(arguments_text).unwrap_or_default(),
            extra_content: entry.non_null("extra_content").cloned(),
            announced: true,
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.slots.iter().map(|slot| slot.name.clone()).collect()
    }

    pub(super) fn finish(self, arguments: EmptyArguments) -> Vec<ToolCall> {
        let mut calls: Vec<ToolCall> = Vec::with_capacity(self.slots.len());
        for slot in self.slots {
            // Two calls with one id could not be told apart later.
            let taken = calls.iter().any(|call| call.id.as_str() == slot.id);
            let id = (!slot.id.is_empty() && !taken).then_some(slot.id.as_str());
            let mut call = ToolCall::new(id, slot.name, arguments.resolve(slot.arguments));
            call.extra_content = slot.extra_content;
            calls.push(call);
        }
        calls
    }

    fn slot_for(&mut self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> usize {
        let found = match index {
            Some(index) => self.slots.iter().rposition(|slot| slot.index == Some(index)),
            None if !id.is_empty() => self.slots.iter().rposition(|slot| slot.id == id),
            None => self.slots.len().checked_sub(1),
        };
        if let Some(at) = found
            && let Some(slot) = self.slots.get(at)
        {
            let other_id = !id.is_empty() && !slot.id.is_empty() && slot.id != id;
            let next_call = (id.is_empty() || slot.id.is_empty())
                && !name.is_empty()
                && !arguments.trim().is_empty()
                && is_complete(&slot.arguments);
            if !other_id && !next_call {
                return at;
            }
            // Interleaved deltas of calls that share an index are assigned by id.
            if other_id && let Some(known) = self.slots.iter().rposition(|slot| slot.id == id) {
                return known;
            }
        }
        self.slots.push(PartialCall { index, ..PartialCall::default() });
        self.slots.len() - 1
    }
}

impl PartialCall {
    fn add_name(&mut self, piece: &str) {
        if piece.is_empty() || piece == self.name {
            return;
        }
        if self.name.is_empty() || piece.starts_with(&self.name) {
            piece.clone_into(&mut self.name);
        } else if self.arguments.is_empty() {
            self.name.push_str(piece);
        }
    }
}

/// The meaning of an empty argument string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EmptyArguments {
    /// A call without arguments.
    NoArguments,
    /// Arguments that the output limit cut off before they began; they must not be taken for none.
    Truncated,
}

impl EmptyArguments {
    pub(super) fn resolve(self, text: String) -> String {
        match self {
            Self::NoArguments if text.trim().is_empty() => "{}".to_owned(),
            _ => text,
        }
    }
}

/// Returns the arguments as text: some servers send them already parsed.
pub(super) fn arguments_text(raw: &RawJson) -> String {
    if raw.is_null() {
        return String::new();
    }
    read_text(raw).unwrap_or_else(|| raw.as_str().to_owned())
}

fn is_complete(arguments: &str) -> bool {
    arguments.starts_with('{')
        && arguments.trim_end().ends_with('}')
        && serde_json::from_str::<Value>(arguments).is_ok()
}

/// Tells whether any arguments are invalid. They are parsed as a value, because a number that is too large is
/// invalid as well.
pub(super) fn has_invalid_arguments(calls: &[ToolCall]) -> bool {
    calls.iter().any(|call| serde_json::from_str::<serde_json::Value>(&call.arguments).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: &[(&str, &str, &str)]) {
        let (mut calls, mut speech, mut out) =
            (ToolCallAssembler::default(), AnswerText::default(), Vec::new());
        for piece in pieces {
            calls.push_delta(&serde_json::from_str(piece).unwrap(), &mut speech, &mut out);
        }
        let calls = calls.finish(EmptyArguments::NoArguments);
        let seen: Vec<_> = calls
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .map(|(id, name, arguments)| (if id.len() == 17 { "made up" } else { id }, name, arguments))
            .collect();
        assert_eq!(seen, expected);
        assert_eq!(out.len(), expected.len(), "each call is announced once: {out:?}");
    }

    #[test]
    fn by_index() {
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#,
                r#"{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}"#,
                r#"{"index":0,"function":{"arguments":"{\"x\":"}}"#,
                r#"{"index":1,"function":{"arguments":"}"}}"#,
                r#"{"index":0,"function":{"arguments":"1}"}}"#,
            ],
            &[("a", "f", r#"{"x":1}"#), ("b", "g", "{}")],
        );
    }

    #[test]
    fn every_index_zero() {
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}"#,
            ],
            &[("a", "f", "{}"), ("b", "f", "{}")],
        );
        check(
            &[
                r#"{"index":0,"function":{"name":"f","arguments":"{}"}}"#,
                r#"{"index":0,"function":{"name":"g","arguments":{"y": 2}}}"#,
            ],
            &[("made up", "f", "{}"), ("made up", "g", r#"{"y": 2}"#)],
        );
    }

    #[test]
    fn heads_that_repeat_come_late_or_are_missing() {
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"f","arguments":""}}"#,
                r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}"#,
                r#"{"index":0,"id":"a","function":{"name":"f","arguments":":1}"}}"#,
            ],
            &[("a", "f", r#"{"x":1}"#)],
        );
        check(
            &[
                r#"{"index":0,"function":{"name":"f","arguments":"{"}}"#,
                r#"{"index":0,"id":"late","function":{"arguments":"}"}}"#,
            ],
            &[("late", "f", "{}")],
        );
        check(
            &[
                r#"{"id":"a","function":{"name":"f","arguments":"{"}}"#,
                r#"{"function":{"arguments":"}"}}"#,
                r#"{"id":"a","function":{"name":"g","arguments":""}}"#,
            ],
            &[("a", "f", "{}")],
        );
        check(
            &[r#"{"index":0,"id":"","function":{"name":"f","arguments":null}}"#],
            &[("made up", "f", "{}")],
        );
    }

    #[test]
    fn one_id_for_two_calls_is_told_apart() {
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}"#,
                r#"{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}"#,
            ],
            &[("a", "f", "{}"), ("made up", "g", "{}")],
        );
    }
}
