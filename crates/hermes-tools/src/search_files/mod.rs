//! `search_files`: searches contents by regular expression and names by glob, in this process or with the
//! programs of a remote environment.
//!
//! Files are visited as ripgrep does: ignore files are honored, hidden and binary files are skipped. Files that
//! must not be read are not searched. Results are sorted by path, so that pages are consistent.

mod contents;
mod names;
mod remote;
mod walk;

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use hermes_exec::SandboxAccess;
use hermes_types::{
    BoxFuture, CallPolicy, Cancel, Concurrency, TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent,
    ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{missing, number, spec, text};
use crate::file::file_system::{FileSystem, PathKind};
use crate::file::state::RepeatableCall;
use crate::file::{FileTools, ReadRefusal, RemoteFs};
use crate::off_thread::off_thread;

const DEFAULT_LIMIT: usize = 50;
const MOST_RESULTS: usize = 1000;
const MOST_CONTEXT: usize = 20;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "search_files",
    toolset: "file",
    summary: "Finds text in files, or files by name; respects `.gitignore`, needs no other program",
    icon: "🔎",
    verb: "grep",
    preview_arguments: &["pattern"],
    ..ToolDescriptor::unknown("")
};

/// The `search_files` tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct SearchFilesTool {
    spec: ToolSpec,
    files: FileTools,
}

/// The parsed arguments of a call.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pattern: String,
    root: PathBuf,
    /// The root as the model wrote it, under which results are shown.
    shown_root: String,
    given_root: String,
    glob: Option<GlobMatcher>,
    limit: usize,
    offset: usize,
    context: usize,
    mode: OutputMode,
    target: SearchTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputMode {
    Lines,
    Files,
    Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchTarget {
    Contents,
    Names,
}

impl SearchFilesTool {
    pub fn new(files: impl Into<FileTools>) -> Self {
        let spec = spec(
            &DESCRIPTOR,
            include_str!("../texts/search_files.md"),
            include_str!("../texts/search_files.json"),
        );
        Self { spec, files: files.into() }
    }

    fn prepare(call: &ToolInvocation, disk: &dyn FileSystem) -> Result<Query, ToolOutcome> {
        let arguments = &call.arguments;
        let pattern = text(arguments, "pattern").ok_or_else(|| missing("search_files", "pattern"))?;
        let shown_root = text(arguments, "path").unwrap_or(".");
        let root = disk.resolve(shown_root);
        let mode = match text(arguments, "output_mode") {
            Some("files_only") => OutputMode::Files,
            Some("count") => OutputMode::Counts,
            _ => OutputMode::Lines,
        };
        let target = match text(arguments, "target") {
            Some("files" | "find") => SearchTarget::Names,
            _ => SearchTarget::Contents,
        };
        let query = Query {
            pattern: pattern.to_owned(),
            root,
            shown_root: shown_root.trim_end_matches('/').to_owned(),
            given_root: shown_root.to_owned(),
            glob: text(arguments, "file_glob").map(build_glob).transpose()?,
            limit: number(arguments, "limit", DEFAULT_LIMIT, 1..=MOST_RESULTS),
            offset: number(arguments, "offset", 0, 0..=usize::MAX),
            context: number(arguments, "context", 0, 0..=MOST_CONTEXT),
            mode,
            target,
        };
        Ok(query)
    }

    /// Counts how often this search was made in a row. Searches with the same result-relevant arguments are the
    /// same.
    fn count(&self, call: &ToolInvocation, query: &Query) -> u32 {
        let glob = query.glob.as_ref().map(|glob| glob.glob().glob());
        let same = format!(
            "{:?}",
            (
                &query.pattern,
                query.target,
                &query.root,
                glob,
                query.limit,
                query.offset,
                query.mode,
                query.context
            )
        );
        self.files.state.count_repeats(&call.task, RepeatableCall::Search(same))
    }
}

impl Tool for SearchFilesTool {
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
            let query = match Self::prepare(call, &*disk) {
                Ok(query) => query,
                Err(outcome) => return outcome,
            };
            let count = self.count(call, &query);
            if count > 3 {
                return answer::failure_json(&json!({
                    "error": "BLOCKED: you have made exactly this search several times in a row; its result has not changed. Use what you have, or search for something else.",
                    "pattern": query.pattern,
                    "already_searched": count,
                }));
            }
            let cancel = context.cancel.clone();
            let work = move || {
                let seen = disk.inspect(&query.root);
                if let Ok(seen) = &seen
                    && let Some(refusal @ ReadRefusal::Hidden { .. }) = disk.read_refusal(&query.root, seen)
                {
                    return Err(answer::failure_json(
                        &json!({"error": refusal.to_string(), "total_count": 0}),
                    ));
                }
                if seen.is_ok_and(|seen| seen.kind == PathKind::Missing) {
                    let error = format!("Path not found: {}", query.given_root);
                    return Err(answer::failure_json(&json!({"error": error, "total_count": 0})));
                }
                disk.search(&query, &cancel)
            };
            let found = match off_thread("search_files", work).await {
                Ok(Ok(found)) => found,
                Ok(Err(outcome)) | Err(outcome) => return outcome,
            };
            found.into_outcome(
                (count == 3)
                    .then_some("This is the third time in a row you made this search. Use what you have."),
            )
        })
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { concurrency: Concurrency::Parallel, ..CallPolicy::default() }
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        self.files.on_event(task, occasion);
    }
}

/// Searches the files of this machine.
pub(crate) fn search_local(
    query: &Query,
    files: &FileTools,
    access: Option<&SandboxAccess>,
    cancel: &Cancel,
) -> Result<FileSearchResult, ToolOutcome> {
    match query.target {
        SearchTarget::Contents => contents::search(query, files, access, cancel),
        SearchTarget::Names => names::search(query, files, access, cancel),
    }
}

/// Searches the files of a remote environment.
pub(crate) fn search_remote(query: &Query, disk: &RemoteFs) -> Result<FileSearchResult, ToolOutcome> {
    match query.target {
        SearchTarget::Contents => remote::contents(query, disk),
        SearchTarget::Names => remote::names(query, disk),
    }
}

/// The result of a search.
pub(crate) struct FileSearchResult {
    result: Map<String, Value>,
    /// The offset of the next page, if there are more results.
    next: Option<usize>,
    warning: Option<String>,
    omitted: usize,
}

impl FileSearchResult {
    fn into_outcome(self, repeated: Option<&str>) -> ToolOutcome {
        let mut result = self.result;
        if self.next.is_some() {
            result.insert("truncated".to_owned(), json!(true));
        }
        if let Some(warning) = self.warning {
            result.insert("warning".to_owned(), json!(warning));
        }
        if self.omitted > 0 {
            let words = format!("{} files that may hold secrets were left out", self.omitted);
            result.insert("_omitted".to_owned(), json!(words));
        }
        if let Some(repeated) = repeated {
            result.insert("_warning".to_owned(), json!(repeated));
        }
        let mut text = answer::spaced_json(&Value::Object(result));
        if let Some(next) = self.next {
            let hint = format!(
                "\n\n[Hint: Results truncated. Use offset={next} to see more, or a narrower pattern.]"
            );
            text.push_str(&hint);
        }
        ToolOutcome::done(text)
    }
}

fn build_glob(glob: &str) -> Result<GlobMatcher, ToolOutcome> {
    GlobBuilder::new(glob)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| ToolOutcome::failed(format!("`{glob}` is not a glob: {}", error.kind())))
}

impl Query {
    /// Returns the number of results to search for: one more than shown, to detect further ones.
    fn enough(&self) -> usize {
        self.offset.saturating_add(self.limit).saturating_add(1)
    }

    /// Returns the requested page, the number of results up to its end, and the offset of the next page.
    fn page<T>(&self, found: Vec<T>) -> (Vec<T>, usize, Option<usize>) {
        let next = self.offset.saturating_add(self.limit);
        let more = (found.len() > next).then_some(next);
        let total = found.len().min(next);
        (found.into_iter().skip(self.offset).take(self.limit).collect(), total, more)
    }

    /// Renders a path under the folder as the model wrote it, so that the model can use it in its next call.
    fn show(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(rest) if rest.as_os_str().is_empty() => self.shown_root.clone(),
            Ok(rest) if self.shown_root == "." => rest.display().to_string(),
            Ok(rest) => format!("{}/{}", self.shown_root, rest.display()),
            Err(_) => path.display().to_string(),
        }
    }
}
