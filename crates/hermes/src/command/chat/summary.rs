//! The texts at the beginning and the end of a chat.

use std::fmt::Write as _;

use hermes_agent::Conversation;
use hermes_config::settings::RecapSettings;
use hermes_text::{head, single_line, strip_think};
use hermes_types::{ContentPart, Message, MessageContent, Role};

const MAX_NAMES: usize = 4;

/// Formats the text shown at the end: how to continue the session, and its statistics.
pub(crate) fn exit_summary(conversation: &Conversation, title: Option<&str>, seconds: u64) -> String {
    let messages = conversation.messages();
    if messages.is_empty() {
        return String::new();
    }
    let id = conversation.session();
    let users = messages.iter().filter(|message| message.role == Role::User).count();
    let calls: usize = messages.iter().map(|message| message.tool_calls.len()).sum();
    let mut text = format!("\nResume this session with:\n  hermes --resume {id}\n");
    // Writing to a `String` cannot fail.
    if let Some(title) = title {
        let _ = writeln!(text, "  hermes -c \"{title}\"");
    }
    let _ = writeln!(text, "\nSession:        {id}");
    if let Some(title) = title {
        let _ = writeln!(text, "Title:          {title}");
    }
    let _ = writeln!(text, "Duration:       {}", format_duration(seconds));
    let _ = writeln!(text, "Messages:       {} ({users} user, {calls} tool calls)", messages.len());
    text
}

/// Formats a duration, for example `1h 2m 3s`.
pub(crate) fn format_duration(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m {seconds}s"),
        _ => format!("{hours}h {minutes}m {seconds}s"),
    }
}

/// Formats the last exchanges of a session that is continued.
pub(crate) fn recap(messages: &[Message], settings: &RecapSettings) -> String {
    let entries: Vec<String> = messages.iter().filter_map(|message| entry(message, settings)).collect();
    let hidden = entries.len().saturating_sub(settings.exchanges.saturating_mul(2));
    let mut text = "Previous Conversation\n".to_owned();
    if hidden > 0 {
        let _ = writeln!(text, "  ... {hidden} earlier messages ...");
    }
    for entry in entries.iter().skip(hidden) {
        text.push_str(entry);
        text.push('\n');
    }
    text
}

fn entry(message: &Message, settings: &RecapSettings) -> Option<String> {
    let said = message.content.text();
    match message.role {
        Role::User => {
            // What references attached is not what the user said.
            let said = said.split("\n--- Context Warnings ---").next().unwrap_or_default();
            let said = said.split("\n--- Attached Context ---").next().unwrap_or_default();
            let images = "[image] ".repeat(count_images(&message.content));
            Some(format!("  ● You: {images}{}", shortened(&single_line(said.trim()), settings.user_chars)))
        }
        Role::Assistant => {
            let said = strip_think(&said);
            let lines: Vec<&str> = said
                .trim()
                .lines()
                .filter(|line| !line.trim().is_empty())
                .take(settings.assistant_lines)
                .collect();
            let mut parts: Vec<String> = Vec::new();
            let text = shortened(&lines.join(" "), settings.assistant_chars);
            if !text.is_empty() {
                parts.push(text);
            }
            parts.extend(calls(message));
            (!parts.is_empty()).then(|| format!("  ◆ Hermes: {}", parts.join(" ")))
        }
        Role::System | Role::Tool => None,
    }
}

fn count_images(content: &MessageContent) -> usize {
    match content {
        MessageContent::Text(_) => 0,
        MessageContent::Parts(parts) => {
            parts.iter().filter(|part| matches!(part, ContentPart::Image { .. })).count()
        }
    }
}

fn calls(message: &Message) -> Option<String> {
    let count = message.tool_calls.len();
    if count == 0 {
        return None;
    }
    let names: Vec<&str> = message.tool_calls.iter().take(MAX_NAMES).map(|call| call.name.as_str()).collect();
    let more = if count > MAX_NAMES { ", …" } else { "" };
    let plural = if count == 1 { "" } else { "s" };
    Some(format!("[{count} tool call{plural}: {}{more}]", names.join(", ")))
}

fn shortened(text: &str, chars: usize) -> String {
    let kept = head(text, chars);
    if kept.len() < text.len() { format!("{kept}...") } else { kept.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        for (seconds, text) in [(3, "3s"), (63, "1m 3s"), (3723, "1h 2m 3s")] {
            assert_eq!(format_duration(seconds), text);
        }
    }
}
