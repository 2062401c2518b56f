//! A summary made without a model: what was said, shortened line by line. The last resort, and always at hand.

use hermes_text::{head, single_line};
use hermes_types::{Message, Role};

const MOST_USER: usize = 400;
const MOST_ASSISTANT: usize = 240;
const MOST_RESULT: usize = 120;
const MOST_ARGUMENTS: usize = 120;

/// The messages in lines, the newest in full, older ones left out where they do not fit.
pub(crate) fn digest(messages: &[Message], tokens: u64) -> String {
    let room = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX).max(2_000);
    let mut lines: Vec<String> = Vec::new();
    let mut used = 0_usize;
    let mut left_out = 0_usize;
    for message in messages.iter().rev() {
        let line = line(message);
        if line.is_empty() {
            continue;
        }
        used = used.saturating_add(line.chars().count() + 1);
        // What the user said is the last to go.
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
        text.push_str(&format_left_out(left_out));
    }
    text
}

fn format_left_out(count: usize) -> String {
    format!("\n({count} further messages are in the session this one continues; session_search finds them.)")
}

fn line(message: &Message) -> String {
    let text = message.content.text();
    match message.role {
        Role::User => format!("- User: {}", short(&text, MOST_USER)),
        Role::Assistant => {
            let mut parts: Vec<String> = Vec::new();
            let said = short(&hermes_text::strip_think(&text), MOST_ASSISTANT);
            if !said.is_empty() {
                parts.push(said);
            }
            parts.extend(
                message
                    .tool_calls
                    .iter()
                    .map(|call| format!("{}({})", call.name, short(&call.arguments, MOST_ARGUMENTS))),
            );
            if parts.is_empty() { String::new() } else { format!("- Assistant: {}", parts.join("; ")) }
        }
        Role::Tool => format!("  - Result: {}", short(&text, MOST_RESULT)),
        Role::System => String::new(),
    }
}

fn short(text: &str, chars: usize) -> String {
    let line = single_line(text.trim());
    let kept = head(&line, chars);
    if kept.len() < line.len() { format!("{kept}…") } else { kept.to_owned() }
}
