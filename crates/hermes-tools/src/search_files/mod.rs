//! `search_files`: contents by regular expression, names by glob; in this process, or by the programs of a place elsewhere.
//!
//! Walks the way ripgrep does: ignore files are honoured, hidden files are left out, binary files are skipped. Files
//! that must not be read are not searched either. Results come in the order of their paths, so that pages fit together.

mod contents;
mod names;
mod there;
mod walk;

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use hermes_exec::Access;
use hermes_types::{
    Beside, BoxFuture, Call, Cancel, Manner, Occasion, Outcome, TaskId, Tool, ToolContext, ToolSpec,
};
use serde_json::{Map, Value, json};

use crate::answer;
use crate::argument::{missing, number, spec, text};
use crate::file::disk::{Disk, Kind};
use crate::file::state::Repeatable;
use crate::file::{FarDisk, Files, Refusal};
use crate::off_thread::off_thread;

const DEFAULT_LIMIT: usize = 50;
const MOST_RESULTS: usize = 1000;
const MOST_CONTEXT: usize = 20;

/// The tool.
#[expect(missing_debug_implementations, reason = "it holds a port")]
pub struct SearchFiles {
    spec: ToolSpec,
    files: Files,
}

/// What a call asks for.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pattern: String,
    root: PathBuf,
    /// As the model wrote it: results are shown below this.
    shown_root: String,
    given_root: String,
    glob: Option<GlobMatcher>,
    limit: usize,
    offset: usize,
    context: usize,
    mode: Mode,
    target: Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Lines,
    Files,
    Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Contents,
    Names,
}

impl SearchFiles {
    pub fn new(files: impl Into<Files>) -> Self {
        let spec = spec(
            "search_files",
            include_str!("../texts/search_files.md"),
            include_str!("../texts/search_files.json"),
        );
        Self { spec, files: files.into() }
    }

    fn prepare(call: &Call, disk: &dyn Disk) -> Result<Query, Outcome> {
        let arguments = &call.arguments;
        let pattern = text(arguments, "pattern").ok_or_else(|| missing("search_files", "pattern"))?;
        let shown_root = text(arguments, "path").unwrap_or(".");
        let root = disk.resolve(shown_root);
        let mode = match text(arguments, "output_mode") {
            Some("files_only") => Mode::Files,
            Some("count") => Mode::Counts,
            _ => Mode::Lines,
        };
        let target = match text(arguments, "target") {
            Some("files" | "find") => Target::Names,
            _ => Target::Contents,
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

    /// How often this search was made in a row; what makes it the same is what decides its answer.
    fn count(&self, call: &Call, query: &Query) -> u32 {
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
        self.files.state.count(&call.task, Repeatable::Search(same))
    }
}

impl Tool for SearchFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: &'a Call, context: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let disk = match self.files.disk(call, context.cancel).await {
                Ok(disk) => disk,
                Err(outcome) => return outcome,
            };
            let query = match Self::prepare(call, &*disk) {
                Ok(query) => query,
                Err(outcome) => return outcome,
            };
            let count = self.count(call, &query);
            if count > 3 {
                return answer::failed(&json!({
                    "error": "BLOCKED: you have made exactly this search several times in a row; its result has not changed. Use what you have, or search for something else.",
                    "pattern": query.pattern,
                    "already_searched": count,
                }));
            }
            let cancel = context.cancel.clone();
            let work = move || {
                let seen = disk.look(&query.root);
                if let Ok(seen) = &seen
                    && let Some(refusal @ Refusal::Hidden { .. }) = disk.refuse(&query.root, seen)
                {
                    return Err(answer::failed(&json!({"error": refusal.to_string(), "total_count": 0})));
                }
                if seen.is_ok_and(|seen| seen.kind == Kind::Missing) {
                    let error = format!("Path not found: {}", query.given_root);
                    return Err(answer::failed(&json!({"error": error, "total_count": 0})));
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

    fn manner(&self, _: &Map<String, Value>) -> Manner {
        Manner { beside: Beside::Anything, ..Manner::default() }
    }

    fn notice(&self, task: &TaskId, occasion: Occasion<'_>) {
        self.files.notice(task, occasion);
    }
}

/// Searches the files of this machine.
pub(crate) fn search_here(
    query: &Query,
    files: &Files,
    access: Option<&Access>,
    cancel: &Cancel,
) -> Result<Found, Outcome> {
    match query.target {
        Target::Contents => contents::search(query, files, access, cancel),
        Target::Names => names::search(query, files, access, cancel),
    }
}

/// Searches those of a place elsewhere.
pub(crate) fn search_there(query: &Query, disk: &FarDisk) -> Result<Found, Outcome> {
    match query.target {
        Target::Contents => there::contents(query, disk),
        Target::Names => there::names(query, disk),
    }
}

/// What a search came to.
pub(crate) struct Found {
    result: Map<String, Value>,
    /// Where to go on, when there is more.
    next: Option<usize>,
    warning: Option<String>,
    omitted: usize,
}

impl Found {
    fn into_outcome(self, repeated: Option<&str>) -> Outcome {
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
        let mut text = answer::spaced(&Value::Object(result));
        if let Some(next) = self.next {
            let hint = format!(
                "\n\n[Hint: Results truncated. Use offset={next} to see more, or a narrower pattern.]"
            );
            text.push_str(&hint);
        }
        Outcome::done(text)
    }
}

fn build_glob(glob: &str) -> Result<GlobMatcher, Outcome> {
    GlobBuilder::new(glob)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| Outcome::failed(format!("`{glob}` is not a glob: {}", error.kind())))
}

impl Query {
    /// So many results are looked for: one more than is shown says that there are more.
    fn enough(&self) -> usize {
        self.offset.saturating_add(self.limit).saturating_add(1)
    }

    /// The page out of everything that was found, and where the next one begins.
    fn page<T>(&self, found: Vec<T>) -> (Vec<T>, usize, Option<usize>) {
        let next = self.offset.saturating_add(self.limit);
        let more = (found.len() > next).then_some(next);
        let total = found.len().min(next);
        (found.into_iter().skip(self.offset).take(self.limit).collect(), total, more)
    }

    /// Paths are shown the way the model wrote the folder, so that it can use them in its next call.
    fn show(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(rest) if rest.as_os_str().is_empty() => self.shown_root.clone(),
            Ok(rest) if self.shown_root == "." => rest.display().to_string(),
            Ok(rest) => format!("{}/{}", self.shown_root, rest.display()),
            Err(_) => path.display().to_string(),
        }
    }
}
