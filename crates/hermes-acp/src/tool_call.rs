//! Tool calls as an editor shows them: kind, title, places, changes.

use std::path::{Path, PathBuf};

use agent_client_protocol::v1::schema::{
    Diff, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus, ToolCall, ToolCallContent, ToolCallLocation,
    ToolCallStatus, ToolKind,
};
use serde_json::{Map, Value};

const MAX_TITLE_CHARS: usize = 80;
/// The longest result that is shown.
pub(crate) const MAX_RESULT_CHARS: usize = 5_000;
/// The largest file whose former text is shown beside the new one.
const MAX_OLD_BYTES: u64 = 1_000_000;

/// Describes a call that begins.
pub(crate) fn started(id: &str, name: &str, arguments: &str, preview: &str, folder: &Path) -> ToolCall {
    let input: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    let title = format!("{name}: {preview}");
    let mut call = ToolCall::new(id.to_owned(), hermes_text::ellipsize(&title, MAX_TITLE_CHARS).into_owned())
        .kind(kind(name))
        .status(ToolCallStatus::InProgress)
        .locations(locations(&input, folder))
        .content(content(name, &input, folder));
    if !input.is_empty() {
        call = call.raw_input(Value::Object(input));
    }
    call
}

/// Returns the plan that a call of the list of tasks makes; nothing for other calls.
pub(crate) fn plan(name: &str, result: &str) -> Option<Plan> {
    if name != "todo" {
        return None;
    }
    let result: Value = serde_json::from_str(result).ok()?;
    let items = result.get("todos")?.as_array()?;
    let entry = |item: &Value| {
        let status = match item.get("status").and_then(Value::as_str) {
            Some("in_progress") => PlanEntryStatus::InProgress,
            Some("completed" | "cancelled") => PlanEntryStatus::Completed,
            _ => PlanEntryStatus::Pending,
        };
        let text = item.get("content").and_then(Value::as_str).unwrap_or_default();
        PlanEntry::new(text, PlanEntryPriority::Medium, status)
    };
    Some(Plan::new(items.iter().map(entry).collect()))
}

fn kind(name: &str) -> ToolKind {
    match name {
        "read_file" | "skill_view" | "skills_list" | "vision_analyze" => ToolKind::Read,
        "write_file" | "patch" | "skill_manage" => ToolKind::Edit,
        "search_files" | "session_search" | "web_search" => ToolKind::Search,
        "terminal" | "process" | "execute_code" => ToolKind::Execute,
        "web_extract" | "browser_navigate" => ToolKind::Fetch,
        "todo" | "memory" | "delegate_task" => ToolKind::Think,
        _ => ToolKind::Other,
    }
}

fn path_of(input: &Map<String, Value>, folder: &Path) -> Option<PathBuf> {
    let path = input.get("path").and_then(Value::as_str).filter(|path| !path.is_empty())?;
    Some(folder.join(path))
}

fn locations(input: &Map<String, Value>, folder: &Path) -> Vec<ToolCallLocation> {
    let line = ["offset", "line"].iter().find_map(|key| input.get(*key)?.as_u64());
    let place = |path| match line.and_then(|line| u32::try_from(line).ok()) {
        Some(line) => ToolCallLocation::new(path).line(line),
        None => ToolCallLocation::new(path),
    };
    path_of(input, folder).map(place).into_iter().collect()
}

/// Returns the change of a file, or the command.
fn content(name: &str, input: &Map<String, Value>, folder: &Path) -> Vec<ToolCallContent> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let diff = match name {
        "write_file" => path_of(input, folder).zip(text("content")).map(|(path, new)| {
            let is_small = std::fs::metadata(&path).is_ok_and(|data| data.len() <= MAX_OLD_BYTES);
            let old = if is_small { std::fs::read_to_string(&path).ok() } else { None };
            Diff::new(path, new).old_text(old)
        }),
        "patch" => path_of(input, folder)
            .zip(text("old_string").zip(text("new_string")))
            .map(|(path, (old, new))| Diff::new(path, new).old_text(old.to_owned())),
        _ => None,
    };
    match (diff, name, text("command")) {
        (Some(diff), ..) => vec![diff.into()],
        (None, "terminal", Some(command)) => vec![format!("$ {command}").into()],
        _ => Vec::new(),
    }
}
