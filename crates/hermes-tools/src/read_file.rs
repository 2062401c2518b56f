//! `read_file`: a part of a text file, with line numbers.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};
use hermes_text::head;
use hermes_types::{BoxFuture, Call, Outcome, Tool, ToolContext, ToolSpec};
use serde_json::{Map, Value, json};

use crate::file_guard::FileGuard;
use crate::registry::{missing, number, spec, text};

const DEFAULT_LINES: usize = 500;
const MOST_LINES: usize = 2000;
const MOST_LINE_CHARS: usize = 2000;
/// A file larger than this is not read whole into memory.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
const MOST_SIMILAR: usize = 5;

/// The tool.
#[derive(Debug)]
pub struct ReadFile {
    spec: ToolSpec,
    guard: FileGuard,
}

impl ReadFile {
    pub fn new(guard: FileGuard) -> Self {
        let spec =
            spec("read_file", include_str!("texts/read_file.md"), include_str!("texts/read_file.json"));
        Self { spec, guard }
    }

    fn read(&self, arguments: &Map<String, Value>) -> Outcome {
        let Some(given) = text(arguments, "path") else { return missing("read_file", "path") };
        let path = self.guard.resolve(given);
        if let Some(reason) = self.guard.refuse(&path) {
            return Outcome::failed(reason);
        }
        let offset = number(arguments, "offset", 1, 1..=usize::MAX);
        let limit = number(arguments, "limit", DEFAULT_LINES, 1..=MOST_LINES);
        let meta = match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => {
                return Outcome::failed(format!(
                    "{given} is a folder; use search_files with target files to list it"
                ));
            }
            Ok(meta) if meta.len() > MOST_BYTES => {
                let size = meta.len();
                return Outcome::failed(format!(
                    "{given} has {size} bytes, too many to read; search it with search_files"
                ));
            }
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => return not_found(given, &path),
            Err(error) => return Outcome::failed(format!("cannot read {given}: {error}")),
        };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => return Outcome::failed(format!("cannot read {given}: {error}")),
        };
        if bytes.iter().take(8192).any(|byte| *byte == 0) {
            return Outcome::failed(format!("{given} is not a text file"));
        }
        let content = String::from_utf8_lossy(&bytes);
        let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
        Outcome::done(page(content, meta.len(), offset, limit).to_string())
    }
}

impl Tool for ReadFile {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: &'a Call, _: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.read(&call.arguments) })
    }
}

fn page(content: &str, size: u64, offset: usize, limit: usize) -> Value {
    let total = content.matches('\n').count();
    let numbered: Vec<String> = content
        .lines()
        .enumerate()
        .skip(offset - 1)
        .take(limit)
        .map(|(at, line)| {
            let kept = head(line, MOST_LINE_CHARS);
            let cut = if kept.len() < line.len() { "... [truncated]" } else { "" };
            format!("{:>6}|{kept}{cut}", at + 1)
        })
        .collect();
    let last = offset.saturating_add(limit).saturating_sub(1);
    let truncated = total > last;
    let what = Redaction { assignments: Assignments::ConfigStyle, phone_numbers: PhoneNumbers::Keep };
    let mut result = json!({
        "content": redact(&numbered.join("\n"), what),
        "total_lines": total,
        "file_size": size,
        "truncated": truncated,
        "is_binary": false,
        "is_image": false,
    });
    if truncated && let Some(object) = result.as_object_mut() {
        let hint = format!("Lines {offset} to {last} of {total}. Go on with offset={}.", last + 1);
        object.insert("hint".to_owned(), json!(hint));
    }
    result
}

/// Names in the same folder that the model may have meant.
fn not_found(given: &str, path: &Path) -> Outcome {
    let wanted = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_lowercase();
    let stem = wanted.split('.').next().unwrap_or_default();
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut similar: Vec<String> = entries
        .take(200)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let name = name.to_lowercase();
            name == wanted || (!stem.is_empty() && (name.starts_with(stem) || name.contains(&wanted)))
        })
        .collect();
    similar.sort();
    similar.truncate(MOST_SIMILAR);
    let mut outcome = Outcome::failed(format!("File not found: {given}"));
    if !similar.is_empty() {
        outcome.content =
            json!({"error": format!("File not found: {given}"), "similar_files": similar}).to_string();
    }
    outcome
}
