//! `write_file`: writes a whole file in one step.
//!
//! This module holds the checks before the disk is accessed. Invariant: after a failure the old file is
//! unchanged.

use std::path::Path;

use hermes_types::{
    BoxFuture, CallPolicy, Concurrency, PreviewKind, ResultAuthor, TaskId, Tool, ToolContext, ToolDescriptor,
    ToolEvent, ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{missing, spec, text};
use crate::file::file_system::{FileSystem, PathKind, stamp};
use crate::file::lint::syntax_error;
use crate::file::text_format::TextFormat;
use crate::file::{BURIES_SECRET, FileTools};
use crate::off_thread::off_thread;
use crate::read_file::UNCHANGED;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "write_file",
    toolset: "file",
    summary: "Writes a whole file in one step: either the whole file is written or nothing",
    icon: "✍️",
    verb: "write",
    preview_arguments: &["path"],
    preview_kind: PreviewKind::Path,
    result_author: ResultAuthor::Tool,
    ..ToolDescriptor::unknown("")
};

/// The `write_file` tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct WriteFileTool {
    spec: ToolSpec,
    files: FileTools,
}

impl WriteFileTool {
    pub fn new(files: FileTools) -> Self {
        let spec =
            spec(&DESCRIPTOR, include_str!("texts/write_file.md"), include_str!("texts/write_file.json"));
        Self { spec, files }
    }
}

impl Tool for WriteFileTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let paths = text(&call.arguments, "path").map(str::to_owned).into_iter().collect();
            let disk = match self.files.writable_file_system(call, paths, context).await {
                Ok(disk) => disk,
                Err(outcome) => return outcome,
            };
            let (files, call) = (self.files.clone(), call.clone());
            off_thread("write_file", move || write(&files, &*disk, &call))
                .await
                .unwrap_or_else(|failed| failed)
        })
    }

    fn call_policy(&self, arguments: &Map<String, Value>) -> CallPolicy {
        path_call_policy(arguments)
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        self.files.on_event(task, occasion);
    }
}

/// Returns the policy of a call that writes one file: it may run in parallel with calls for other paths.
pub(crate) fn path_call_policy(arguments: &Map<String, Value>) -> CallPolicy {
    let path = text(arguments, "path").map(str::to_owned);
    let beside = if path.is_some() { Concurrency::DisjointPaths } else { Concurrency::Sequential };
    CallPolicy { concurrency: beside, path, ..CallPolicy::default() }
}

fn write(files: &FileTools, disk: &dyn FileSystem, call: &ToolInvocation) -> ToolOutcome {
    let Some(given) = text(&call.arguments, "path") else { return missing("write_file", "path") };
    let content = match call.arguments.get("content") {
        Some(Value::String(content)) => content,
        Some(_) => {
            return ToolOutcome::failed(
                "write_file needs `content` as one string; call it again with the text itself",
            );
        }
        None => return missing("write_file", "content"),
    };
    let path = disk.resolve(given);
    let seen = match disk.inspect(&path) {
        Ok(seen) => seen,
        Err(error) => {
            return write_failure(&format!("Failed to write {given}: {error}; nothing was changed"));
        }
    };
    if let Some(reason) = disk.write_refusal(given, &path, &seen) {
        return write_failure(&reason);
    }
    if is_display_text(content) {
        return write_failure(
            "content is what read_file shows, not the file's text: write it without line numbers and notes",
        );
    }
    let real = seen.real;
    files.state.with_write_lock(std::slice::from_ref(&real), || {
        let old = if seen.kind == PathKind::File { disk.read(&real, disk.most_bytes()).ok() } else { None };
        let before = old.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        if let Some(error) = breaks_syntax(&real, before, content) {
            return write_failure(&format!("{given} was not written: {error}"));
        }
        if before.is_some_and(|before| files.overwrites_secret(before, content)) {
            return write_failure(&format!("{given} was not written: {BURIES_SECRET}"));
        }
        let warning = files.state.staleness(&call.task, &real, stamp(disk, &real));
        files.checkpoint(call, disk, &real);
        let text = old.as_deref().map(TextFormat::of).unwrap_or_default().encode(content);
        if let Err(error) = disk.replace(&real, &text) {
            return write_failure(&format!("Failed to write {given}: {error}; nothing was changed"));
        }
        files.state.record_write(&call.task, &real, stamp(disk, &real));
        let mut result = json!({"bytes_written": text.len(), "dirs_created": true});
        if let (Some(warning), Some(object)) = (warning, result.as_object_mut()) {
            object.insert("_warning".to_owned(), json!(warning));
        }
        answer::success_json(&result)
    })
}

fn write_failure(error: &str) -> ToolOutcome {
    answer::failure_json(&json!({"bytes_written": 0, "dirs_created": false, "error": error}))
}

/// Returns the syntax error that the content would add to a valid file. A file that was already invalid (such
/// as JSON with comments) may stay so.
fn breaks_syntax(path: &Path, before: Option<&str>, content: &str) -> Option<String> {
    let error = syntax_error(path, content)?;
    let lax = before.is_some_and(|old| syntax_error(path, old).is_some());
    (!lax).then_some(error)
}

/// Tells whether a text is the output of `read_file` rather than the content of a file.
fn is_display_text(content: &str) -> bool {
    if content.contains(UNCHANGED) && content.chars().count() <= 2 * UNCHANGED.chars().count() {
        return true;
    }
    let lines: Vec<&str> = content.lines().filter(|line| !line.trim().is_empty()).collect();
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line_number(line)).collect();
    lines.len() >= 2
        && numbers.len() >= 2
        && numbers.len() * 10 >= lines.len() * 6
        && numbers.is_sorted_by(|a, b| a.checked_add(1) == Some(*b))
}

fn line_number(line: &str) -> Option<u64> {
    let (number, _) = line.split_once('|')?;
    let number = number.trim_start();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse().ok()
}
