//! Selects the part of a conversation to summarize. Pure.

use std::ops::Range;

use hermes_types::{Message, Role};

use crate::turn::gauge::message_tokens;

/// Returns the range between the protected beginning and the protected end, or `None` when it is empty.
pub(crate) fn range_to_summarize(
    messages: &[Message],
    protect_first: usize,
    protect_last: usize,
    tail_budget: u64,
) -> Option<Range<usize>> {
    let count = messages.len();
    if count <= protect_first + protect_last + 1 {
        return None;
    }
    let mut start = protect_first;
    while is_tool(messages, start) {
        start += 1;
    }
    let mut end = count;
    let mut tokens = 0_u64;
    while end > start {
        let Some(message) = messages.get(end - 1) else { break };
        tokens = tokens.saturating_add(message_tokens(message));
        if tokens > tail_budget && count - end >= protect_last {
            break;
        }
        end -= 1;
    }
    let earliest = start + 1;
    if end <= earliest {
        end = count - protect_last.min(count);
    }
    // Results stay with the calls they answer.
    while end > earliest && is_tool(messages, end) {
        end -= 1;
    }
    let end = end.max(earliest);
    (end < count && end > start && !is_tool(messages, end)).then_some(start..end)
}

fn is_tool(messages: &[Message], at: usize) -> bool {
    messages.get(at).is_some_and(|message| message.role == Role::Tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_types::ToolCall;

    fn chat(count: usize) -> Vec<Message> {
        (0..count)
            .map(|at| if at % 2 == 0 { Message::user("ask") } else { Message::assistant("answer") })
            .collect()
    }

    #[test]
    fn a_short_conversation_has_no_middle() {
        assert_eq!(range_to_summarize(&chat(24), 3, 20, 0), None);
        assert_eq!(range_to_summarize(&chat(25), 3, 20, 0), Some(3..5));
    }

    #[test]
    fn the_end_grows_with_its_budget() {
        assert_eq!(range_to_summarize(&chat(60), 3, 20, 0), Some(3..40));
        let each = message_tokens(&Message::user("ask"));
        let range = range_to_summarize(&chat(60), 3, 20, each * 30);
        assert!(range.clone().is_some_and(|range| range.end < 40 && range.end >= 28), "{range:?}");
    }

    #[test]
    fn results_are_never_torn_from_their_calls() {
        let call = ToolCall::new(None, "t", "{}");
        let mut messages = chat(10);
        messages.insert(3, Message::assistant("").with_calls(vec![call.clone(), call.clone()]));
        messages.insert(4, Message::tool(&call, "one"));
        messages.insert(5, Message::tool(&call, "two"));
        for last in 1..9 {
            if let Some(range) = range_to_summarize(&messages, 4, last, 0) {
                assert!(messages[range.start].role != Role::Tool, "{range:?}");
                assert!(messages[range.end].role != Role::Tool, "{range:?}");
            }
        }
    }
}
