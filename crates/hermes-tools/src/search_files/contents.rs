//! Lines by a regular expression.

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use hermes_text::head;
use hermes_types::{Cancel, Outcome};
use serde_json::{Map, Value, json};

use super::walk::Walk;
use super::{Found, Mode, Query};
use crate::file::Files;

const MOST_CONTENT_CHARS: usize = 500;
pub(super) const ONE_LINE: &str = "Lines are searched one by one, so a pattern with \\n finds nothing.";

pub(super) fn search(query: &Query, files: &Files, cancel: &Cancel) -> Result<Found, Outcome> {
    let matcher = matcher(&query.pattern)?;
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .before_context(query.context)
        .after_context(query.context)
        .binary_detection(BinaryDetection::quit(0))
        .build();
    let mut hits = Hits { query, rows: Vec::new(), counts: Vec::new() };
    let mut walk = Walk::new(query, &files.guard, cancel);
    for path in walk.by_ref() {
        hits.counts.push((query.show(&path), 0));
        // A file that cannot be read is like one without matches.
        let _ = searcher.search_path(&matcher, &path, &mut hits);
        if hits.counts.last().is_some_and(|(_, count)| *count == 0) {
            hits.counts.pop();
        }
        if hits.is_enough() {
            break;
        }
    }
    let nothing = hits.counts.is_empty();
    let warning =
        walk.cut_short().or_else(|| (nothing && query.pattern.contains(r"\n")).then(|| ONE_LINE.to_owned()));
    let (result, next) = hits.into_result(files);
    Ok(Found { result, next, warning, omitted: walk.omitted })
}

fn matcher(pattern: &str) -> Result<RegexMatcher, Outcome> {
    // A pattern that asks for a line break is no mistake of the expression, it only finds nothing.
    RegexMatcher::new_line_matcher(pattern)
        .or_else(
            |error| {
                if pattern.contains(r"\n") { RegexMatcherBuilder::new().build(pattern) } else { Err(error) }
            },
        )
        .map_err(|error| {
            Outcome::failed(format!("Search failed: `{pattern}` is not a regular expression: {error}"))
        })
}

pub(super) struct Row {
    /// Which of the counted files it is in.
    pub(super) file: usize,
    pub(super) line: u64,
    pub(super) content: String,
}

/// Collects what the searcher finds.
pub(super) struct Hits<'a> {
    pub(super) query: &'a Query,
    pub(super) rows: Vec<Row>,
    pub(super) counts: Vec<(String, usize)>,
}

impl Hits<'_> {
    fn is_enough(&self) -> bool {
        match self.query.mode {
            Mode::Lines => self.rows.len() >= self.query.enough(),
            Mode::Files | Mode::Counts => self.counts.len() >= self.query.enough(),
        }
    }

    fn push(&mut self, line: Option<u64>, bytes: &[u8]) {
        if self.query.mode != Mode::Lines {
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        self.rows.push(Row { file: self.counts.len() - 1, line: line.unwrap_or(0), content: shown(&text) });
    }

    pub(super) fn into_result(self, files: &Files) -> (Map<String, Value>, Option<usize>) {
        let mut result = Map::new();
        let mut put = |name: &str, value: Value| result.insert(name.to_owned(), value);
        let next = match self.query.mode {
            Mode::Lines => {
                let (page, total, next) = self.query.page(self.rows);
                let matches = page.into_iter().filter_map(|row| {
                    let (path, _) = self.counts.get(row.file)?;
                    Some(json!({"path": path, "line": row.line, "content": files.masked(row.content)}))
                });
                put("total_count", json!(total));
                put("matches", Value::Array(matches.collect()));
                next
            }
            Mode::Files => {
                let (page, total, next) = self.query.page(self.counts);
                put("total_count", json!(total));
                put("files", json!(page.into_iter().map(|(path, _)| path).collect::<Vec<_>>()));
                next
            }
            Mode::Counts => {
                let (page, _, next) = self.query.page(self.counts);
                put("total_count", json!(page.iter().map(|(_, count)| count).sum::<usize>()));
                put("counts", Value::Object(page.into_iter().map(|(path, n)| (path, json!(n))).collect()));
                next
            }
        };
        (result, next)
    }
}

/// A line as it is shown.
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
        // A list of files needs one match in each; counts need them all.
        Ok(self.query.mode == Mode::Counts || (self.query.mode == Mode::Lines && !self.is_enough()))
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.push(around.line_number(), around.bytes());
        Ok(true)
    }
}
