//! `/agents`: what runs besides the conversation.

use hermes_tools::ProcessRegistry;
use hermes_types::Timestamp;

use super::CommandReply;
use crate::command::chat::format_duration;

/// Lists prompts, as the surface describes them, and background processes.
pub(super) fn run(work: Vec<String>, processes: &ProcessRegistry, now: Timestamp) -> CommandReply {
    CommandReply::text(describe(work, processes, now))
}

pub(crate) fn describe(work: Vec<String>, processes: &ProcessRegistry, now: Timestamp) -> String {
    let mut lines = work;
    lines.extend(processes.running().into_iter().map(|process| {
        let took = format_duration(now.since(process.started).as_secs());
        let command = hermes_text::single_line(&process.command);
        format!("⚙️ {} · {took} · {}", process.id, hermes_text::ellipsize(&command, 80))
    }));
    if lines.is_empty() { "Nothing runs in the background.".to_owned() } else { lines.join("\n") }
}
