//! `search_files`: contents by regular expression, names by glob, in this process.
//!
//! Walks the way ripgrep does: ignore files are honoured, hidden files are left out, binary files are skipped.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use globset::{GlobBuilder, GlobMatcher};
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use hermes_guard::{Assignments, PhoneNumbers, Redaction, redact};
use hermes_text::head;
use hermes_types::{BoxFuture, Call, Cancel, Outcome, Tool, ToolContext, ToolSpec};
use ignore::WalkBuilder;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::file_guard::FileGuard;
use crate::registry::{missing, number, spec, text};

const DEFAULT_LIMIT: usize = 50;
const MOST_RESULTS: usize = 1000;
const MOST_CONTENT_CHARS: usize = 500;
/// Matches beyond what is shown are counted up to here, so that a pattern that matches everything ends.
const MOST_COUNTED: usize = 100_000;

/// The tool.
#[derive(Debug)]
pub struct SearchFiles {
    spec: ToolSpec,
    guard: FileGuard,
}

/// What a call asks for.
struct Query {
    pattern: String,
    root: PathBuf,
    /// As the model wrote it: results are shown below this.
    shown_root: String,
    glob: Option<GlobMatcher>,
    limit: usize,
    offset: usize,
    context: usize,
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Lines,
    Files,
    Counts,
}

impl SearchFiles {
    pub fn new(guard: FileGuard) -> Self {
        let spec = spec(
            "search_files",
            include_str!("texts/search_files.md"),
            include_str!("texts/search_files.json"),
        );
        Self { spec, guard }
    }

    fn prepare(&self, arguments: &Map<String, Value>) -> Result<(Query, Target), Outcome> {
        let pattern = text(arguments, "pattern").ok_or_else(|| missing("search_files", "pattern"))?;
        let shown_root = text(arguments, "path").unwrap_or(".");
        let root = self.guard.resolve(shown_root);
        if !root.exists() {
            let words = format!("Path not found: {shown_root}");
            let mut outcome = Outcome::failed(words.clone());
            outcome.content = json!({"error": words, "total_count": 0}).to_string();
            return Err(outcome);
        }
        let glob = text(arguments, "file_glob").map(build_glob).transpose()?;
        let mode = match text(arguments, "output_mode") {
            Some("files_only") => Mode::Files,
            Some("count") => Mode::Counts,
            _ => Mode::Lines,
        };
        let target =
            if text(arguments, "target") == Some("files") { Target::Names } else { Target::Contents };
        let query = Query {
            pattern: pattern.to_owned(),
            root,
            shown_root: shown_root.trim_end_matches('/').to_owned(),
            glob,
            limit: number(arguments, "limit", DEFAULT_LIMIT, 1..=MOST_RESULTS),
            offset: number(arguments, "offset", 0, 0..=usize::MAX),
            context: number(arguments, "context", 0, 0..=20),
            mode,
        };
        Ok((query, target))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Contents,
    Names,
}

impl Tool for SearchFiles {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, call: &'a Call, context: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let (query, target) = match self.prepare(&call.arguments) {
                Ok(prepared) => prepared,
                Err(outcome) => return outcome,
            };
            let (guard, cancel) = (self.guard.clone(), context.cancel.clone());
            let (answer, done) = oneshot::channel();
            // A thread of its own: a large tree must not hold up the runtime.
            let started = std::thread::Builder::new().name("search".to_owned()).spawn(move || {
                let outcome = match target {
                    Target::Contents => search_contents(&query, &guard, &cancel),
                    Target::Names => search_names(&query, &guard, &cancel),
                };
                // Nobody waits any more when the turn was cancelled.
                let _ = answer.send(outcome);
            });
            match started {
                Ok(_) => done.await.unwrap_or_else(|_| Outcome::failed("the search ended without an answer")),
                Err(error) => Outcome::failed(format!("the search could not be started: {error}")),
            }
        })
    }
}

fn build_glob(glob: &str) -> Result<GlobMatcher, Outcome> {
    GlobBuilder::new(glob)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| Outcome::failed(format!("`{glob}` is not a glob: {}", error.kind())))
}

/// Every file the search may look at.
fn files<'a>(
    query: &'a Query,
    guard: &'a FileGuard,
    cancel: &'a Cancel,
) -> impl Iterator<Item = PathBuf> + 'a {
    WalkBuilder::new(&query.root)
        .require_git(false)
        .build()
        .take_while(|_| !cancel.is_cancelled())
        .flatten()
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .map(ignore::DirEntry::into_path)
        .filter(|path| {
            let name = path.file_name().unwrap_or_default();
            query.glob.as_ref().is_none_or(|glob| glob.is_match(name) || glob.is_match(path))
        })
        .filter(|path| guard.refuse(path).is_none_or(|reason| reason.contains("binary file")))
}

fn search_names(query: &Query, guard: &FileGuard, cancel: &Cancel) -> Outcome {
    let name = query.pattern.rsplit('/').next().unwrap_or(&query.pattern);
    let name = if name.starts_with('*') { name.to_owned() } else { format!("*{name}") };
    let glob = match build_glob(&name) {
        Ok(glob) => glob,
        Err(outcome) => return outcome,
    };
    let mut found: Vec<(SystemTime, PathBuf)> = files(query, guard, cancel)
        .filter(|path| glob.is_match(path.file_name().unwrap_or_default()))
        .map(|path| {
            (path.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH), path)
        })
        .collect();
    // The newest first: what was worked on last is what is asked about.
    found.sort_by(|(a, first), (b, second)| b.cmp(a).then_with(|| first.cmp(second)));
    let total = found.len();
    let shown: Vec<String> =
        found.iter().skip(query.offset).take(query.limit).map(|(_, path)| query.show(path)).collect();
    let mut result = json!({"total_count": total, "files": shown});
    let hint = mark_truncated(&mut result, query, total);
    Outcome::done(format!("{result}{hint}"))
}

fn search_contents(query: &Query, guard: &FileGuard, cancel: &Cancel) -> Outcome {
    let matcher = match RegexMatcher::new_line_matcher(&query.pattern) {
        Ok(matcher) => matcher,
        Err(error) => {
            return Outcome::failed(format!(
                "Search failed: `{}` is not a regular expression: {error}",
                query.pattern
            ));
        }
    };
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .before_context(query.context)
        .after_context(query.context)
        .binary_detection(BinaryDetection::quit(0))
        .build();
    let mut hits = Hits { query, found: Vec::new(), counts: Vec::new(), total: 0, path: String::new() };
    let mut paths: Vec<PathBuf> = files(query, guard, cancel).collect();
    paths.sort();
    for path in paths {
        if cancel.is_cancelled() || hits.total >= MOST_COUNTED {
            break;
        }
        hits.path = query.show(&path);
        hits.counts.push((hits.path.clone(), 0));
        // A file that cannot be read is like one without matches.
        let _ = searcher.search_path(&matcher, &path, &mut hits);
    }
    hits.into_outcome()
}

/// Collects what the searcher finds.
struct Hits<'a> {
    query: &'a Query,
    found: Vec<Value>,
    counts: Vec<(String, usize)>,
    total: usize,
    path: String,
}

impl Hits<'_> {
    fn push(&mut self, line: Option<u64>, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let what = Redaction { assignments: Assignments::ConfigStyle, phone_numbers: PhoneNumbers::Keep };
        let content =
            redact(head(text.trim_end_matches(['\n', '\r']), MOST_CONTENT_CHARS), what).into_owned();
        self.found.push(json!({"path": self.path, "line": line.unwrap_or(0), "content": content}));
    }

    fn into_outcome(self) -> Outcome {
        let query = self.query;
        let with_hits = self.counts.iter().filter(|(_, count)| *count > 0);
        let (mut result, total) = match query.mode {
            Mode::Lines => (json!({"total_count": self.total, "matches": self.found}), self.total),
            Mode::Files => {
                let names: Vec<&String> =
                    with_hits.clone().map(|(path, _)| path).skip(query.offset).take(query.limit).collect();
                let total = with_hits.count();
                (json!({"total_count": total, "files": names}), total)
            }
            Mode::Counts => {
                let counts: Map<String, Value> = with_hits
                    .clone()
                    .skip(query.offset)
                    .take(query.limit)
                    .map(|(path, count)| (path.clone(), json!(count)))
                    .collect();
                (json!({"total_count": self.total, "counts": counts}), with_hits.count())
            }
        };
        let hint = mark_truncated(&mut result, query, total);
        Outcome::done(format!("{result}{hint}"))
    }
}

impl Sink for Hits<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        let wanted = self.query.offset..self.query.offset.saturating_add(self.query.limit);
        if self.query.mode == Mode::Lines && wanted.contains(&self.total) {
            self.push(found.line_number(), found.bytes());
        }
        self.total += 1;
        if let Some((_, count)) = self.counts.last_mut() {
            *count += 1;
        }
        Ok(self.total < MOST_COUNTED)
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if self.query.mode == Mode::Lines && self.found.len() < MOST_RESULTS {
            self.push(around.line_number(), around.bytes());
        }
        Ok(true)
    }
}

impl Query {
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

fn mark_truncated(result: &mut Value, query: &Query, total: usize) -> String {
    let next = query.offset.saturating_add(query.limit);
    if total <= next {
        return String::new();
    }
    if let Some(object) = result.as_object_mut() {
        object.insert("truncated".to_owned(), json!(true));
    }
    format!("\n\n[Hint: Results truncated. Use offset={next} to see more, or a narrower pattern.]")
}
