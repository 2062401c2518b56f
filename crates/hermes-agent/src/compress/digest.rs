//! Makes a summary without a model: the messages, shortened line by line. It is the fallback and cannot fail.

use hermes_text::{head, single_line};
use hermes_types::{Message, Role};

const MAX_USER_CHARS: usize = 400;
const MAX_ASSISTANT_CHARS: usize = 240;
const MAX_RESULT_CHARS: usize = 120;
const MAX_ARGUMENTS_CHARS: usize = 120;

/// Lists the messages as lines, the newest in full, and leaves older ones out where they do not fit.
pub(crate) fn digest(messages: &[Message], tokens: u64) -> String {
    let room = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX).max(2_000);
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0_usize;
    let mut left_out = 0_usize;
    for message in messages.iter().rev() {
        let line = digest_line(message);
        if line.is_empty() {
            continue;
        }
        used = used.saturating_add(line.chars().count() + 1);
        // User messages are never left out.
        if used > room && message.role != Role::User {
            left_out += 1;
            continue;
        }
        lines.push(line);
    }
    lines.reverse();
    let mut text = "## Progress\n### Done\n".to_owned();
    text.push_str(&lines.join("\n"));
    if left_out > 0 {
        text.push_str(&format_omitted(left_out));
    }
    text
}

fn format_omitted(count: usize) -> String {
    format!("\n({count} further messages are in the session this one continues; session_search finds them.)")
}

fn digest_line(message: &Message) -> String {
    let text = message.content.text();
    match message.role {
        Role::User => format!("- User: {}", shorten(&text, MAX_USER_CHARS)),
        Role::Assistant => {
            let mut parts: Vec<String> = Vec::new();
            let said = shorten(&hermes_text::strip_think(&text), MAX_ASSISTANT_CHARS);
            if !said.is_empty() {
                parts.push(said);
            }
            parts.extend(
                message
                    .tool_calls
                    .iter()
                    .map(|call| format!("{}({})", call.name, shorten(&call.arguments, MAX_ARGUMENTS_CHARS))),
            );
            if parts.is_empty() { String::new() } else { format!("- Assistant: {}", parts.join("; ")) }
        }
        Role::Tool => format!("  - Result: {}", shorten(&text, MAX_RESULT_CHARS)),
        Role::System => String::new(),
    }
}

fn shorten(text: &str, chars: usize) -> String {
    let line = single_line(text.trim());
    let kept = head(&line, chars);
    if kept.len() < line.len() { format!("{kept}…") } else { kept.to_owned() }
}
