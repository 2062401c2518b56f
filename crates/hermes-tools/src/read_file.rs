//! `read_file`: shows a page of a text file with line numbers.
//!
//! This module holds the order of its checks and the form of its result. A page that is still in the model's
//! context is not sent again.

use std::path::Path;

use hermes_text::head;
use hermes_types::{
    BoxFuture, CallPolicy, Concurrency, PreviewKind, ResultSize, TaskId, Tool, ToolContext, ToolDescriptor,
    ToolEvent, ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{missing, number, spec, text};
use crate::file::file_system::{FileSystem, PathInfo, PathKind};
use crate::file::state::{FilePage, PageStatus, RepeatableCall};
use crate::file::{FileTools, LineNumberStyle};
use crate::off_thread::off_thread;
use crate::similar_files::similar_files;

const DEFAULT_LINES: usize = 500;
const MOST_LINES: usize = 2000;
const MOST_LINE_CHARS: usize = 2000;
const LARGE_BYTES: u64 = 512_000;
const LARGE_PAGE: usize = 200;
/// The number of bytes examined to tell text from binary data.
const SAMPLE_BYTES: usize = 4000;
const SAMPLE_CHARS: usize = 1000;

/// The text shown instead of a page that the model already has. It must never be written to a file.
pub(crate) const UNCHANGED: &str =
    "File unchanged since you last read it. The content from that earlier read_file result is still current.";

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "read_file",
    toolset: "file",
    summary: "Reads part of a text file, with line numbers; reports if the file did not change since the last read",
    icon: "📖",
    verb: "read",
    preview_arguments: &["path"],
    preview_kind: PreviewKind::Path,
    ..ToolDescriptor::unknown("")
};

/// The `read_file` tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct ReadFileTool {
    spec: ToolSpec,
    files: FileTools,
}

impl ReadFileTool {
    pub fn new(files: impl Into<FileTools>) -> Self {
        let spec =
            spec(&DESCRIPTOR, include_str!("texts/read_file.md"), include_str!("texts/read_file.json"));
        Self { spec, files: files.into() }
    }
}

impl Tool for ReadFileTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let disk = match self.files.file_system(call, context.cancel).await {
                Ok(disk) => disk,
                Err(outcome) => return outcome,
            };
            let (files, call) = (self.files.clone(), call.clone());
            off_thread("read_file", move || read(&files, &*disk, &call)).await.unwrap_or_else(|failed| failed)
        })
    }

    fn call_policy(&self, arguments: &Map<String, Value>) -> CallPolicy {
        CallPolicy {
            concurrency: Concurrency::Parallel,
            path: text(arguments, "path").map(str::to_owned),
            result_size: ResultSize::SelfBounded,
            ..CallPolicy::default()
        }
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        self.files.on_event(task, occasion);
    }
}

fn read(files: &FileTools, disk: &dyn FileSystem, call: &ToolInvocation) -> ToolOutcome {
    let Some(given) = text(&call.arguments, "path") else { return missing("read_file", "path") };
    let path = disk.resolve(given);
    let seen = match disk.inspect(&path) {
        Ok(seen) => seen,
        Err(error) => return ToolOutcome::failed(format!("cannot read {given}: {error}")),
    };
    if let Some(refusal) = disk.read_refusal(&path, &seen) {
        return ToolOutcome::failed(refusal.to_string());
    }
    let page = FilePage {
        path: seen.real.clone(),
        offset: number(&call.arguments, "offset", 1, 1..=usize::MAX),
        limit: number(&call.arguments, "limit", DEFAULT_LINES, 1..=MOST_LINES),
    };
    match files.state.check_page(&call.task, &page, seen.stamp) {
        PageStatus::New => {}
        PageStatus::Unchanged(1) => {
            return answer::success_json(&json!({
                "status": "unchanged", "message": UNCHANGED, "path": given, "dedup": true, "content_returned": false,
            }));
        }
        PageStatus::Unchanged(repeats) => return blocked(given, repeats + 1),
    }
    let count = files.state.count_repeats(&call.task, RepeatableCall::Read(page.clone()));
    if count > 3 {
        return blocked(given, count);
    }
    let content = match load(disk, given, &seen) {
        Ok(loaded) => loaded,
        Err(outcome) => return outcome,
    };
    let mut result = show(files, &files.masked_page(&content, &page), seen.size, &page);
    if count == 3
        && let Some(object) = result.as_object_mut()
    {
        let warning = "This is the third time in a row you read these lines. Use what you have.";
        object.insert("_warning".to_owned(), json!(warning));
    }
    files.state.record_read(&call.task, page, seen.stamp);
    answer::success_json(&result)
}

fn blocked(given: &str, count: u32) -> ToolOutcome {
    answer::failure_json(&json!({
        "error": "BLOCKED: you have read exactly these lines several times and they have not changed. Use what you have, or go on with something else.",
        "path": given,
        "already_read": count,
    }))
}

fn load(disk: &dyn FileSystem, given: &str, seen: &PathInfo) -> Result<String, ToolOutcome> {
    match seen.kind {
        PathKind::File => {}
        PathKind::Missing => return Err(not_found(disk, given, &seen.real)),
        PathKind::Folder => {
            let words = format!("{given} is a folder; use search_files with target files to list it");
            return Err(ToolOutcome::failed(words));
        }
        PathKind::Other => return Err(ToolOutcome::failed(format!("{given} is not a regular file"))),
    }
    let (size, most) = (seen.size, disk.most_bytes());
    if size > most {
        let words = format!("{given} has {size} bytes, too many to read; search it with search_files");
        return Err(ToolOutcome::failed(words));
    }
    let bytes = disk
        .read(&seen.real, most)
        .map_err(|error| ToolOutcome::failed(format!("cannot read {given}: {error}")))?;
    if looks_binary(&bytes) {
        return Err(answer::failure_json(&json!({
            "content": "", "total_lines": 0, "file_size": size, "truncated": false, "is_binary": true,
            "is_image": false, "error": format!("Binary file: {given} is not a text file; use the terminal for it"),
        })));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

fn looks_binary(bytes: &[u8]) -> bool {
    let sample = String::from_utf8_lossy(bytes.get(..SAMPLE_BYTES).unwrap_or(bytes));
    let sample = head(&sample, SAMPLE_CHARS);
    let odd = sample.chars().filter(|c| *c < ' ' && !matches!(c, '\n' | '\r' | '\t')).count();
    odd * 10 > sample.chars().count() * 3
}

fn not_found(disk: &dyn FileSystem, given: &str, path: &Path) -> ToolOutcome {
    let mut result = json!({"error": format!("File not found: {given}")});
    let similar = similar_files(disk, path);
    if !similar.is_empty()
        && let Some(object) = result.as_object_mut()
    {
        object.insert("similar_files".to_owned(), json!(similar));
    }
    answer::failure_json(&result)
}

fn show(files: &FileTools, content: &str, size: u64, page: &FilePage) -> Value {
    let total = content.matches('\n').count();
    let lines = content.lines().count();
    let mut shown = String::new();
    let mut chars = 0;
    let mut last = page.offset - 1;
    let mut cut = PageTruncation::None;
    for (at, line) in content.lines().enumerate().skip(page.offset - 1).take(page.limit) {
        let kept = head(line, MOST_LINE_CHARS);
        let mark = if kept.len() < line.len() { "... [truncated]" } else { "" };
        let numbered = match files.options.gutter {
            LineNumberStyle::Wide => format!("{:>6}|{kept}{mark}", at + 1),
            LineNumberStyle::Compact => format!("{}|{kept}{mark}", at + 1),
        };
        let length = numbered.chars().count() + 1;
        if chars + length > files.options.read_chars && chars > 0 {
            cut = PageTruncation::ByLength;
            break;
        }
        if chars > 0 {
            shown.push('\n');
        }
        chars += length;
        shown.push_str(&numbered);
        last = at + 1;
    }
    let truncated = cut == PageTruncation::ByLength || (lines > last && last >= page.offset);
    let mut result = json!({
        "content": shown,
        "total_lines": total,
        "file_size": size,
        "truncated": truncated,
        "is_binary": false,
        "is_image": false,
    });
    let Some(object) = result.as_object_mut() else { return result };
    if cut == PageTruncation::ByLength {
        object.insert("truncated_by".to_owned(), json!("bytes"));
        object.insert("next_offset".to_owned(), json!(last + 1));
    }
    if truncated {
        let hint = format!("Lines {} to {last} of {lines}. Go on with offset={}.", page.offset, last + 1);
        object.insert("hint".to_owned(), json!(hint));
        if size > LARGE_BYTES && page.limit > LARGE_PAGE {
            let hint = "This file is large: find the lines you need with search_files and read only those.";
            object.insert("_hint".to_owned(), json!(hint));
        }
    }
    result
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PageTruncation {
    None,
    ByLength,
}
