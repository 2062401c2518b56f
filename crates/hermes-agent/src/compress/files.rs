//! Finds the files a conversation worked on from its tool calls. The list survives every compression.

use hermes_types::{Message, Role};
use serde_json::Value;

const HEADING: &str = "## Files touched";
const MAX_PATHS: usize = 100;

/// Returns the paths, latest last: those of an earlier summary, then those of these messages.
pub(crate) fn touched_paths(previous: Option<&Message>, messages: &[Message]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let mut add = |path: String| {
        paths.retain(|known| *known != path);
        paths.push(path);
    };
    if let Some(summary) = previous {
        parse_section(&summary.content.text()).into_iter().for_each(&mut add);
    }
    let calls = messages.iter().filter(|message| message.role == Role::Assistant);
    for call in calls.flat_map(|message| &message.tool_calls) {
        let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else { continue };
        let named = arguments.get("path").and_then(Value::as_str);
        if let Some(path) = named.filter(|path| !path.trim().is_empty() && *path != ".") {
            add(path.trim().to_owned());
        }
    }
    let surplus = paths.len().saturating_sub(MAX_PATHS);
    paths.split_off(surplus)
}

/// Formats the paths as a section of a summary.
pub(crate) fn format_section(paths: &[String]) -> Option<String> {
    if paths.is_empty() {
        return None;
    }
    let lines: Vec<String> = paths.iter().map(|path| format!("- {path}")).collect();
    Some(format!("{HEADING}\n{}", lines.join("\n")))
}

fn parse_section(summary: &str) -> Vec<String> {
    summary
        .split(HEADING)
        .nth(1)
        .unwrap_or_default()
        .lines()
        .skip(1)
        .map_while(|line| line.strip_prefix("- ").map(str::to_owned))
        .collect()
}
