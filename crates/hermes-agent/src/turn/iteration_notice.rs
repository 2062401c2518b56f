//! Notices that tell the model how many iterations it has left.
//!
//! They exist only in the copy that is sent, never in what is stored. Notices that another program stored are
//! removed on loading, because a model that reads old ones stops using its tools.

use std::sync::OnceLock;

use hermes_types::{Message, MessageContent, Role};
use regex::Regex;
use serde_json::Value;

use super::request::parse_object;

const KEY: &str = "_budget_warning";

/// Returns the notice for the model after this many iterations, if there is one.
pub(crate) fn notice(step: u32, most: u32) -> Option<String> {
    let share = f64::from(step) / f64::from(most.max(1));
    if share >= 0.9 {
        Some(format!(
            "[BUDGET WARNING: Iteration {step}/{most}. Give your final answer now, without further tool calls unless one is indispensable.]"
        ))
    } else if share >= 0.7 {
        Some(format!(
            "[BUDGET: Iteration {step}/{most}. Bring the work together and move towards an answer.]"
        ))
    } else {
        None
    }
}

/// Adds the notice to the content: as a field if it is a JSON object, otherwise after the text.
pub(crate) fn with_notice(content: &MessageContent, notice: &str) -> MessageContent {
    let text = content.text();
    match parse_object(&text) {
        Some(mut map) => {
            map.insert(KEY.to_owned(), Value::String(notice.to_owned()));
            MessageContent::Text(Value::Object(map).to_string())
        }
        None => MessageContent::Text(format!("{text}\n\n{notice}")),
    }
}

/// Removes all notices from loaded messages.
pub(crate) fn strip_notices(messages: &mut [Message]) {
    for message in messages.iter_mut().filter(|message| message.role == Role::Tool) {
        let MessageContent::Text(text) = &message.content else { continue };
        if !text.contains("BUDGET") && !text.contains(KEY) {
            continue;
        }
        if let Some(mut map) = parse_object(text) {
            if map.remove(KEY).is_some() {
                message.content = MessageContent::Text(Value::Object(map).to_string());
            }
            continue;
        }
        if let Some(pattern) = pattern()
            && pattern.is_match(text)
        {
            message.content = MessageContent::Text(pattern.replace_all(text, "").trim().to_owned());
        }
    }
}

fn pattern() -> Option<&'static Regex> {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    PATTERN
        .get_or_init(|| Regex::new(r"(?s)\[BUDGET(?:\s+WARNING)?:\s+Iteration\s+\d+/\d+\..*?\]").ok())
        .as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(text: &str) -> String {
        let call = hermes_types::ToolCall::new(None, "t", "{}");
        let mut messages = [Message::tool(&call, text)];
        strip_notices(&mut messages);
        messages[0].content.text().into_owned()
    }

    #[test]
    fn words_come_late_and_grow_urgent() {
        assert_eq!(notice(6, 10), None);
        assert!(notice(7, 10).is_some_and(|text| text.starts_with("[BUDGET: Iteration 7/10. ")));
        assert!(notice(9, 10).is_some_and(|text| text.starts_with("[BUDGET WARNING: Iteration 9/10. ")));
    }

    #[test]
    fn what_is_put_in_can_be_taken_out() {
        for (text, expected) in [(r#"{"a":1}"#, r#"{"a":1}"#), ("plain", "plain")] {
            let words = notice(9, 10).unwrap_or_default();
            let with = with_notice(&MessageContent::from(text), &words).text().into_owned();
            assert_ne!(with, text);
            assert_eq!(stripped(&with), expected);
        }
        assert_eq!(stripped("x [BUDGET: Iteration 3/4. a\nb] y"), "x  y");
        assert_eq!(stripped("the BUDGET is fine"), "the BUDGET is fine");
    }
}
