//! Formats a tool's result as text for the user.

use hermes_text::head;
use serde_json::Value;

use super::intent::Intent;

/// The end of every answer, so that users do not take the rules for a language model.
pub(super) const SIGNATURE: &str = "— offline model; `hermes model` connects a real one";

/// The limit on how much of a result is repeated; the conversation contains all of it above.
const SHOWN_CHARS: usize = 4000;
const SHOWN_MATCHES: usize = 40;

/// Describes the result of one call.
pub(super) fn describe_result(intent: &Intent, content: Option<&str>) -> String {
    let Some(content) = content else { return format!("{} gave no answer.", intent.tool()) };
    // A hint may follow the JSON.
    let json = content.split_once("\n\n[Hint").map_or(content, |(json, _)| json);
    let value: Value = serde_json::from_str(json).unwrap_or(Value::Null);
    if let Some(error) = value.get("error").and_then(Value::as_str).filter(|error| !error.is_empty()) {
        return format!("That did not work: {error}");
    }
    match intent {
        Intent::ListFiles { path } => describe_listing(path, &value, content),
        Intent::Run { command } => describe_run(command, &value, content),
        Intent::ReadFile { path } => format!("{path}:\n{}", block(&text_of(&value, "content", content))),
        Intent::WriteFile { path, .. } => match value.get("bytes_written").and_then(Value::as_u64) {
            Some(bytes) => format!("Wrote {bytes} bytes to {path}."),
            None => format!("Wrote {path}."),
        },
        Intent::Search { pattern, path } => describe_matches(pattern, path, &value, content),
        Intent::FindFiles { pattern, path } => describe_files(pattern, path, &value, content),
        Intent::Remember { .. } | Intent::Forget { .. } => text_of(&value, "message", "Done."),
        Intent::Recall { .. } => describe_memory(&value),
        Intent::Schedule { schedule, prompt } => format!("Scheduled ({schedule}): {prompt}"),
        Intent::ListSchedules | Intent::SearchPast { .. } => block(content),
    }
}

fn describe_listing(path: &str, value: &Value, content: &str) -> String {
    let Some(files) = value.get("files").and_then(Value::as_array) else {
        return format!("The files in {}:\n{}", place(path), block(&output(value, content)));
    };
    let total = value.get("total_count").and_then(Value::as_u64).unwrap_or(files.len() as u64);
    let mut names: Vec<&str> = files.iter().filter_map(Value::as_str).collect();
    names.sort_unstable();
    let shown = names.len();
    let which =
        if (shown as u64) < total { format!(" (the {shown} newest of {total})") } else { String::new() };
    format!("The files in {}{which}:\n{}", place(path), block(&names.join("\n")))
}

fn describe_run(command: &str, value: &Value, content: &str) -> String {
    let shown = block(&output(value, content));
    match value.get("exit_code").and_then(Value::as_i64) {
        Some(0) | None => format!("`{command}`:\n{shown}"),
        Some(code) => format!("`{command}` ended with exit code {code}:\n{shown}"),
    }
}

fn describe_matches(pattern: &str, path: &str, value: &Value, content: &str) -> String {
    let Some(matches) = value.get("matches").and_then(Value::as_array) else {
        return format!("Matches for `{pattern}` in {}:\n{}", place(path), block(content));
    };
    if matches.is_empty() {
        return format!("Nothing in {} matches `{pattern}`.", place(path));
    }
    let total = value.get("total_count").and_then(Value::as_u64).unwrap_or(matches.len() as u64);
    let lines: Vec<String> = matches
        .iter()
        .take(SHOWN_MATCHES)
        .map(|found| {
            let field = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
            let line =
                found.get("line").or_else(|| found.get("line_number")).and_then(Value::as_u64).unwrap_or(0);
            format!("{}:{line}: {}", field("path"), field("content").trim())
        })
        .collect();
    format!("{total} matches for `{pattern}` in {}:\n{}", place(path), block(&lines.join("\n")))
}

fn describe_files(pattern: &str, path: &str, value: &Value, content: &str) -> String {
    let Some(files) = value.get("files").and_then(Value::as_array) else {
        return format!("Files matching `{pattern}`:\n{}", block(content));
    };
    if files.is_empty() {
        return format!("No file in {} matches `{pattern}`.", place(path));
    }
    let names: Vec<&str> = files.iter().filter_map(Value::as_str).take(SHOWN_MATCHES).collect();
    format!("Files matching `{pattern}`:\n{}", block(&names.join("\n")))
}

fn describe_memory(value: &Value) -> String {
    let entries: Vec<&str> = value
        .get("entries")
        .and_then(Value::as_array)
        .map(|entries| entries.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let what = match value.get("target").and_then(Value::as_str) {
        Some("user") => "About you",
        _ => "My notes",
    };
    if entries.is_empty() {
        return format!("{what}: nothing yet.");
    }
    let lines: Vec<String> = entries.iter().map(|entry| format!("- {entry}")).collect();
    format!("{what}:\n{}", lines.join("\n"))
}

fn output(value: &Value, content: &str) -> String {
    text_of(value, "output", content)
}

fn text_of(value: &Value, name: &str, otherwise: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or(otherwise).to_owned()
}

fn place(path: &str) -> &str {
    if path == "." { "this folder" } else { path }
}

/// Returns a code block whose delimiter is longer than any inside, with a note when text is omitted.
fn block(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() {
        return "(nothing)".to_owned();
    }
    let shown = head(text, SHOWN_CHARS);
    let longest = shown.lines().map(|line| line.chars().take_while(|c| *c == '`').count()).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let rest = text.chars().count() - shown.chars().count();
    let note = if rest > 0 { format!("\n({rest} more characters)") } else { String::new() };
    format!("{fence}\n{shown}\n{fence}{note}")
}
