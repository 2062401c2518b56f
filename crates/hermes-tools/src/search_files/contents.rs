//! Searches the lines of files for a regular expression.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use hermes_exec::SandboxAccess;
use hermes_text::head;
use hermes_types::{Cancel, ToolOutcome};
use serde_json::{Map, Value, json};

use super::walk::{WalkResult, threads};
use super::{FileSearchResult, OutputMode, Query};
use crate::file::FileTools;

/// The number of files in the first round. It is small so that frequent matches are found quickly; later rounds
/// grow.
const FIRST_ROUND: usize = 256;
const LONGEST_ROUND: usize = 8192;
/// The number of files that a thread takes at once.
const STEP: usize = 16;
/// The size above which a file is searched in pieces.
const MOST_BUFFERED: usize = 16 * 1024 * 1024;
const FIRST_BUFFER: usize = 64 * 1024;
const KEY: &[u8] = b"PRIVATE KEY";
const MOST_CONTENT_CHARS: usize = 500;
pub(super) const ONE_LINE: &str = "Lines are searched one by one, so a pattern with \\n finds nothing.";

pub(super) fn search(
    query: &Query,
    files: &FileTools,
    access: Option<&SandboxAccess>,
    cancel: &Cancel,
) -> Result<FileSearchResult, ToolOutcome> {
    let matcher = matcher(&query.pattern)?;
    let walked = WalkResult::walk(query, files, access, cancel);
    let tells_at_once =
        ![r"\A", r"\z", "(?", r"\s", r"\n", "[^"].iter().any(|part| query.pattern.contains(part));
    let hits =
        ContentSearch { query, files, matcher: &matcher, walked: &walked, cancel, tells_at_once }.all();
    let nothing = hits.counts.is_empty();
    let warning = walked
        .truncation_notice()
        .or_else(|| (nothing && query.pattern.contains(r"\n")).then(|| ONE_LINE.to_owned()));
    let (result, next) = hits.into_result(files);
    Ok(FileSearchResult { result, next, warning, omitted: walked.omitted })
}

/// Searches files with several threads in rounds, so that it can stop when enough matches were found.
struct ContentSearch<'a> {
    query: &'a Query,
    files: &'a FileTools,
    matcher: &'a RegexMatcher,
    walked: &'a WalkResult,
    cancel: &'a Cancel,
    /// Tells whether the expression has the same meaning for a whole text as for its lines.
    tells_at_once: bool,
}

impl<'a> ContentSearch<'a> {
    fn all(&self) -> Hits<'a> {
        let mut hits = Hits { query: self.query, rows: Vec::new(), counts: Vec::new() };
        let mut from = 0;
        let mut length = FIRST_ROUND;
        while from < self.walked.len() && !hits.is_enough() && !self.cancel.is_cancelled() {
            let to = (from + length).min(self.walked.len());
            self.round(from..to).into_iter().for_each(|(_, found)| hits.append(found));
            from = to;
            length = (length * 2).min(LONGEST_ROUND);
        }
        hits
    }

    /// Searches these files and returns their matches in order.
    fn round(&self, range: Range<usize>) -> Vec<(usize, Hits<'a>)> {
        let (next, end) = (AtomicUsize::new(range.start), range.end);
        let found: Mutex<Vec<(usize, Hits<'a>)>> = Mutex::default();
        let work = || {
            let mut one = FileSearcher::new(self);
            let mut mine = Vec::new();
            loop {
                let start = next.fetch_add(STEP, Ordering::Relaxed);
                if start >= end || self.cancel.is_cancelled() {
                    break;
                }
                let step = start..(start + STEP).min(end);
                mine.extend(step.filter_map(|at| one.search(&self.walked.path(at)?).map(|hits| (at, hits))));
            }
            found.lock().unwrap_or_else(PoisonError::into_inner).append(&mut mine);
        };
        let others = if range.len() > STEP { threads() - 1 } else { 0 };
        std::thread::scope(|scope| {
            for _ in 0..others {
                // If a thread cannot be started, fewer threads do the work.
                let _ = std::thread::Builder::new().name("search_files".to_owned()).spawn_scoped(scope, work);
            }
            work();
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_unstable_by_key(|(at, _)| *at);
        found
    }
}

/// The searcher and the buffer of one thread.
struct FileSearcher<'s, 'a> {
    search: &'s ContentSearch<'a>,
    searcher: Searcher,
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that belong to the file.
    length: usize,
}

impl<'s, 'a> FileSearcher<'s, 'a> {
    fn new(search: &'s ContentSearch<'a>) -> Self {
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(search.query.context)
            .after_context(search.query.context)
            .binary_detection(BinaryDetection::quit(0))
            .build();
        Self { search, searcher, buffer: Vec::new(), length: 0 }
    }

    /// Searches a file. An unreadable file counts as one without matches.
    fn search(&mut self, path: &Path) -> Option<Hits<'a>> {
        let query = self.search.query;
        let mut file = File::open(path).ok()?;
        let mut hits = Hits { query, rows: Vec::new(), counts: vec![(String::new(), 0)] };
        if self.fill(&mut file)? {
            // Most files have no match, and this test is cheaper than the searcher.
            if self.search.tells_at_once && !self.search.matcher.is_match(self.text()).unwrap_or(true) {
                return None;
            }
            let text = self.buffer.get(..self.length).unwrap_or_default();
            let _ = self.searcher.search_slice(self.search.matcher, text, &mut hits);
        } else {
            let _ = self.searcher.search_path(self.search.matcher, path, &mut hits);
        }
        let (name, count) = hits.counts.first_mut()?;
        if *count == 0 {
            return None;
        }
        *name = query.show(path);
        self.mask(&mut hits);
        Some(hits)
    }

    /// Reads a file into the buffer with as few calls as possible. Returns whether the whole file was read, or
    /// `None` if it is unreadable.
    fn fill(&mut self, file: &mut File) -> Option<bool> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                if length >= MOST_BUFFERED {
                    self.length = length;
                    return Some(false);
                }
                self.buffer.resize((length * 2).clamp(FIRST_BUFFER, MOST_BUFFERED), 0);
            }
            let count = file.read(self.buffer.get_mut(length..)?).ok()?;
            if count == 0 {
                self.length = length;
                return Some(true);
            }
            length += count;
        }
    }

    fn text(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }

    /// Masks lines of private keys, which can only be recognized in the whole file.
    fn mask(&self, hits: &mut Hits<'_>) {
        let holds_key = self.text().windows(KEY.len()).any(|part| part == KEY);
        if !holds_key || hits.rows.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(self.text());
        let masked = self.search.files.masked(&text);
        let lines: Vec<&str> = masked.lines().collect();
        for row in &mut hits.rows {
            let line = usize::try_from(row.line).ok().and_then(|line| lines.get(line.checked_sub(1)?));
            row.content = line.map_or_else(|| "***".to_owned(), |line| shown(line));
        }
    }
}

fn matcher(pattern: &str) -> Result<RegexMatcher, ToolOutcome> {
    // A pattern with a line break is a valid expression that finds nothing.
    RegexMatcherBuilder::new()
        .multi_line(true)
        .line_terminator(Some(b'\n'))
        .build(pattern)
        .or_else(
            |error| {
                if pattern.contains(r"\n") { RegexMatcherBuilder::new().build(pattern) } else { Err(error) }
            },
        )
        .map_err(|error| {
            ToolOutcome::failed(format!("Search failed: `{pattern}` is not a regular expression: {error}"))
        })
}

pub(super) struct MatchRow {
    /// The index of the file in the counts.
    pub(super) file: usize,
    pub(super) line: u64,
    pub(super) content: String,
}

/// Collects the matches of the searcher.
pub(super) struct Hits<'a> {
    pub(super) query: &'a Query,
    pub(super) rows: Vec<MatchRow>,
    pub(super) counts: Vec<(String, usize)>,
}

impl Hits<'_> {
    fn append(&mut self, other: Hits<'_>) {
        let before = self.counts.len();
        self.counts.extend(other.counts);
        self.rows.extend(other.rows.into_iter().map(|row| MatchRow { file: row.file + before, ..row }));
    }

    fn is_enough(&self) -> bool {
        match self.query.mode {
            OutputMode::Lines => self.rows.len() >= self.query.enough(),
            OutputMode::Files | OutputMode::Counts => self.counts.len() >= self.query.enough(),
        }
    }

    fn push(&mut self, line: Option<u64>, bytes: &[u8]) {
        if self.query.mode != OutputMode::Lines {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        self.rows.push(MatchRow {
            file: self.counts.len() - 1,
            line: line.unwrap_or(0),
            content: shown(&text),
        });
    }

    pub(super) fn into_result(self, files: &FileTools) -> (Map<String, Value>, Option<usize>) {
        let mut result = Map::new();
        let mut put = |name: &str, value: Value| result.insert(name.to_owned(), value);
        let next = match self.query.mode {
            OutputMode::Lines => {
                let (page, total, next) = self.query.page(self.rows);
                let matches = page.into_iter().filter_map(|row| {
                    let (path, _) = self.counts.get(row.file)?;
                    Some(json!({"path": path, "line": row.line, "content": files.masked(&row.content)}))
                });
                put("total_count", json!(total));
                put("matches", Value::Array(matches.collect()));
                next
            }
            OutputMode::Files => {
                let (page, total, next) = self.query.page(self.counts);
                put("total_count", json!(total));
                put("files", json!(page.into_iter().map(|(path, _)| path).collect::<Vec<_>>()));
                next
            }
            OutputMode::Counts => {
                let (page, _, next) = self.query.page(self.counts);
                put("total_count", json!(page.iter().map(|(_, count)| count).sum::<usize>()));
                put("counts", Value::Object(page.into_iter().map(|(path, n)| (path, json!(n))).collect()));
                next
            }
        };
        (result, next)
    }
}

/// Shortens a line for display.
pub(super) fn shown(line: &str) -> String {
    head(line.trim_end_matches(['\n', '\r']), MOST_CONTENT_CHARS).to_owned()
}

impl Sink for Hits<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.push(found.line_number(), found.bytes());
        if let Some((_, count)) = self.counts.last_mut() {
            *count += 1;
        }
        // A list of files needs one match per file; counts need all of them.
        Ok(self.query.mode == OutputMode::Counts
            || (self.query.mode == OutputMode::Lines && !self.is_enough()))
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.push(around.line_number(), around.bytes());
        Ok(true)
    }
}
