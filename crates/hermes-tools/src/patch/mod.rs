//! `patch`: replaces a passage in one file, or applies a patch to several files.
//!
//! This module holds what both modes share: the check of the written files and the form of the result.
//! `hermes-text` finds the passages. Invariant: a patch that does not match changes no file.

mod files;
mod replace;

use std::path::PathBuf;

use hermes_text::{PatchOp, parse_patch};
use hermes_types::{
    BoxFuture, CallPolicy, PreviewKind, ResultAuthor, TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent,
    ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{spec, text};
use crate::file::file_system::FileLocation;
use crate::file::lint::lint;
use crate::file::{FileTools, Linter};
use crate::off_thread::off_thread;
use crate::write_file::path_call_policy;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "patch",
    toolset: "file",
    summary: "Changes a file by text, or several files by a patch; finds the location even if spaces, quotes or escapes differ",
    icon: "🔧",
    verb: "patch",
    preview_arguments: &["path", "patch"],
    preview_kind: PreviewKind::Path,
    result_author: ResultAuthor::Tool,
    ..ToolDescriptor::unknown("")
};

/// The `patch` tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct PatchTool {
    spec: ToolSpec,
    files: FileTools,
}

/// The changes of a patch, before the changed files are checked.
#[derive(Debug, Default)]
struct PatchChanges {
    diff: String,
    modified: Vec<String>,
    created: Vec<String>,
    deleted: Vec<String>,
    warning: Option<String>,
    /// The files to check: the given path, the real path and the new content.
    written: Vec<(String, PathBuf, String)>,
}

/// The reason why a patch was not applied, or only in part.
#[derive(Debug, Default)]
struct PatchFailure {
    error: String,
    hint: Option<String>,
    /// The changes that were made before the failure.
    done: Box<PatchChanges>,
}

impl From<String> for PatchFailure {
    fn from(error: String) -> Self {
        Self { error, ..Self::default() }
    }
}

impl PatchTool {
    pub fn new(files: FileTools) -> Self {
        let spec = spec(&DESCRIPTOR, include_str!("../texts/patch.md"), include_str!("../texts/patch.json"));
        Self { spec, files }
    }
}

impl Tool for PatchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let disk = match self.files.writable_file_system(call, paths(&call.arguments), context).await {
                Ok(disk) => disk,
                Err(outcome) => return outcome,
            };
            let linter = self.files.linter.as_deref().filter(|_| disk.location() == FileLocation::Local);
            let (files, given) = (self.files.clone(), call.clone());
            let mode = mode(&call.arguments).to_owned();
            let work = move || match mode.as_str() {
                "replace" => replace::replace(&files, &*disk, &given),
                "patch" => files::apply(&files, &*disk, &given),
                other => Err(PatchFailure::from(format!("Unknown mode: {other}"))),
            };
            match off_thread("patch", work).await {
                Ok(Ok(changes)) => self.report(&call.arguments, changes, linter, &context).await,
                Ok(Err(failure)) => failed(&self.files, failure),
                Err(outcome) => outcome,
            }
        })
    }

    fn call_policy(&self, arguments: &Map<String, Value>) -> CallPolicy {
        // A patch names its files in its text, so `path` does not describe them.
        if mode(arguments) == "patch" { CallPolicy::default() } else { path_call_policy(arguments) }
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        self.files.on_event(task, occasion);
    }
}

impl PatchTool {
    async fn report(
        &self,
        arguments: &Map<String, Value>,
        changes: PatchChanges,
        linter: Option<&dyn Linter>,
        context: &ToolContext<'_>,
    ) -> ToolOutcome {
        let mut checks = Map::new();
        for (given, path, content) in &changes.written {
            let found = lint(path, content, linter, context.cancel).await;
            checks.insert(given.clone(), found.to_json());
        }
        let mut result = Map::new();
        result.insert("success".to_owned(), json!(true));
        describe(&self.files, &mut result, changes);
        if mode(arguments) == "patch" {
            if !checks.is_empty() {
                result.insert("lint".to_owned(), Value::Object(checks));
            }
        } else if let Some((_, only)) = checks.into_iter().next() {
            result.insert("lint".to_owned(), only);
        }
        answer::success_json(&Value::Object(result))
    }
}

/// Lists the files that a call changes.
fn paths(arguments: &Map<String, Value>) -> Vec<String> {
    if mode(arguments) != "patch" {
        return text(arguments, "path").map(str::to_owned).into_iter().collect();
    }
    let ops = text(arguments, "patch").and_then(|patch| parse_patch(patch).ok()).unwrap_or_default();
    ops.iter().flat_map(PatchOp::paths).map(str::to_owned).collect()
}

/// Returns the given mode, or the one that the arguments imply.
fn mode(arguments: &Map<String, Value>) -> &str {
    let meant = if text(arguments, "patch").is_some() && text(arguments, "path").is_none() {
        "patch"
    } else {
        "replace"
    };
    text(arguments, "mode").unwrap_or(meant)
}

fn describe(files: &FileTools, result: &mut Map<String, Value>, changes: PatchChanges) {
    if !changes.diff.is_empty() {
        result.insert("diff".to_owned(), json!(files.masked(&changes.diff)));
    }
    for (name, paths) in [
        ("files_modified", changes.modified),
        ("files_created", changes.created),
        ("files_deleted", changes.deleted),
    ] {
        if !paths.is_empty() {
            result.insert(name.to_owned(), json!(paths));
        }
    }
    if let Some(warning) = changes.warning {
        result.insert("_warning".to_owned(), json!(warning));
    }
}

fn failed(files: &FileTools, failure: PatchFailure) -> ToolOutcome {
    let mut result = Map::new();
    result.insert("success".to_owned(), json!(false));
    describe(files, &mut result, *failure.done);
    result.insert("error".to_owned(), json!(files.masked(&failure.error)));
    if let Some(hint) = failure.hint {
        result.insert("_hint".to_owned(), json!(hint));
    }
    answer::failure_json(&Value::Object(result))
}
