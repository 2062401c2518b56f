//! Searches the files of a remote environment with its own programs: `rg` if installed, otherwise `find` and
//! `grep`.
//!
//! Ignore files are honored only by `rg`. Results are subject to the same rules as those of this machine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hermes_exec::shell_quote;
use hermes_types::ToolOutcome;
use serde_json::{Map, json};

use super::contents::{Hits, MatchRow, ONE_LINE, shown};
use super::{FileSearchResult, OutputMode, Query};
use crate::file::{ReadRefusal, RemoteFs};

/// The maximum number of bytes fetched.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The length to which lines are cut in the environment; the displayed part is shorter.
const MOST_LINE_BYTES: usize = 2100;
/// The exit code of the script for an invalid regular expression.
const BAD_PATTERN: i32 = 41;

pub(super) fn contents(query: &Query, disk: &RemoteFs) -> Result<FileSearchResult, ToolOutcome> {
    let (bytes, code) =
        disk.output_of(&contents_script(query), MOST_BYTES).map_err(|error| failed(&error))?;
    let text = String::from_utf8_lossy(&bytes);
    if code == BAD_PATTERN {
        let reason = text.trim();
        let pattern = &query.pattern;
        return Err(ToolOutcome::failed(format!(
            "Search failed: `{pattern}` is not a regular expression: {reason}"
        )));
    }
    let mut found = OutputCollector {
        query,
        disk,
        hits: Hits { query, rows: Vec::new(), counts: Vec::new() },
        omitted: 0,
        last: None,
    };
    match query.mode {
        OutputMode::Lines => text.lines().for_each(|line| found.line(line)),
        OutputMode::Files => text.split('\0').for_each(|path| found.file(path.trim_start_matches('\n'), 1)),
        OutputMode::Counts => text.lines().for_each(|line| found.count(line)),
    }
    let nothing = found.hits.counts.is_empty();
    let warning = (nothing && query.pattern.contains(r"\n")).then(|| ONE_LINE.to_owned());
    let omitted = found.omitted;
    let (result, next) = found.hits.into_result(disk.files());
    Ok(FileSearchResult { result, next, warning, omitted })
}

pub(super) fn names(query: &Query, disk: &RemoteFs) -> Result<FileSearchResult, ToolOutcome> {
    let (bytes, _) = disk.output_of(&names_script(query), MOST_BYTES).map_err(|error| failed(&error))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut omitted = 0;
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in text.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from) {
        match disk.files().guard.name_refusal(&path) {
            None | Some(ReadRefusal::Binary { .. }) => paths.push(path),
            Some(_) => omitted += 1,
        }
    }
    let (page, total, next) = query.page(paths);
    let shown: Vec<String> = page.iter().map(|path| query.show(path)).collect();
    let mut result = Map::new();
    result.insert("total_count".to_owned(), json!(total));
    result.insert("files".to_owned(), json!(shown));
    Ok(FileSearchResult { result, next, warning: None, omitted })
}

/// Parses the output of the programs: a path, a NUL and the rest of the line.
struct OutputCollector<'a> {
    query: &'a Query,
    disk: &'a RemoteFs,
    hits: Hits<'a>,
    omitted: usize,
    /// The file of the last line, and whether it may be shown.
    last: Option<(String, bool)>,
}

impl OutputCollector<'_> {
    /// Parses `path NUL number : text` for a match, or with `-` instead of the colon for a context line.
    fn line(&mut self, line: &str) {
        let Some((path, rest)) = line.split_once('\0') else { return };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (Some(number), Some(content)) = (rest.get(..digits), rest.get(digits + 1..)) else { return };
        if !self.enter(path) {
            return;
        }
        let Some((_, count)) = self.hits.counts.last_mut() else { return };
        *count += 1;
        let row = MatchRow {
            file: self.hits.counts.len() - 1,
            line: number.parse().unwrap_or(0),
            content: shown(content),
        };
        self.hits.rows.push(row);
    }

    fn count(&mut self, line: &str) {
        let Some((path, count)) = line.split_once('\0') else { return };
        if let Ok(count @ 1..) = count.trim_start_matches(':').trim().parse() {
            self.file(path, count);
        }
    }

    fn file(&mut self, path: &str, count: usize) {
        if !path.is_empty()
            && self.enter(path)
            && let Some((_, known)) = self.hits.counts.last_mut()
        {
            *known = count;
        }
    }

    /// Tells whether the lines of this file may be shown. Adds a count for a new file.
    fn enter(&mut self, path: &str) -> bool {
        if let Some((last, allowed)) = &self.last
            && last == path
        {
            return *allowed;
        }
        let allowed = matches!(
            self.disk.files().guard.name_refusal(Path::new(path)),
            None | Some(ReadRefusal::Binary { .. })
        );
        if allowed {
            self.hits.counts.push((self.query.show(Path::new(path)), 0));
        } else {
            self.omitted += 1;
        }
        self.last = Some((path.to_owned(), allowed));
        allowed
    }
}

fn contents_script(query: &Query) -> String {
    let (root, pattern) = (word(&query.root), shell_quote(&query.pattern));
    let enough = query.enough();
    let glob = query.glob.as_ref().map(|glob| shell_quote(glob.glob().glob()));
    let around = if query.context > 0 { format!("-C {}", query.context) } else { String::new() };
    let (rg, grep, cut) = match query.mode {
        OutputMode::Lines => {
            let cut = format!("grep -av '^--$' | head -n {enough} | cut -b 1-{MOST_LINE_BYTES}");
            (format!("-n {around}"), format!("-n {around}"), cut)
        }
        OutputMode::Files => ("-l".to_owned(), "-l".to_owned(), "cat".to_owned()),
        OutputMode::Counts => {
            ("-c".to_owned(), "-c".to_owned(), format!("grep -av '[^0-9]0$' | head -n {enough}"))
        }
    };
    let rg_glob = glob.as_ref().map(|glob| format!("-g {glob}")).unwrap_or_default();
    let mut script = String::new();
    // Writing to a `String` cannot fail.
    let _ = write!(
        script,
        "if command -v rg >/dev/null 2>&1; then\n\
         rg -e {pattern} /dev/null >/dev/null 2>/tmp/hermes-rg.$$; c=$?; said=$(cat /tmp/hermes-rg.$$); rm -f /tmp/hermes-rg.$$\n\
         [ $c -le 1 ] || {{ printf %s \"$said\"; exit {BAD_PATTERN}; }}\n\
         rg --no-config --color never --no-heading --no-messages --no-require-git --null -H --sort path {rg} {rg_glob} \
         -e {pattern} -- {root} 2>/dev/null | {cut}\n\
         else\n\
         kind=-E; if echo 1 | grep -qP '\\d' 2>/dev/null; then kind=-P; fi\n\
         said=$(grep $kind -e {pattern} </dev/null 2>&1); [ $? -le 1 ] || {{ printf %s \"$said\"; exit {BAD_PATTERN}; }}\n\
         {} | sort -z | xargs -0 grep -sIHZ $kind {grep} -e {pattern} -- 2>/dev/null | {cut}\n\
         fi; exit 0",
        files_of(&query.root, glob.as_deref(), "-print0"),
    );
    script
}

fn names_script(query: &Query) -> String {
    let name = query.pattern.rsplit('/').next().unwrap_or(&query.pattern);
    let name = shell_quote(&if name.starts_with('*') { name.to_owned() } else { format!("*{name}") });
    let root = word(&query.root);
    let with_time = files_of(&query.root, Some(&name), r"-printf '%T@\t%p\0'");
    let plain = files_of(&query.root, Some(&name), "-print0");
    // Newest first, if the programs in the environment can sort by time.
    format!(
        "if command -v rg >/dev/null 2>&1; then rg --no-config --files --null --no-messages --no-require-git \
         --sortr modified -g {name} -- {root} 2>/dev/null\n\
         elif find / -maxdepth 0 -printf '' 2>/dev/null; then {with_time} | sort -zrn | cut -zf2-\n\
         else {plain} | sort -z; fi; exit 0"
    )
}

/// Returns a command that lists all files below a folder except hidden ones, or the file itself if the root is
/// a file.
fn files_of(root: &Path, name: Option<&str>, print: &str) -> String {
    let root = word(root);
    let wanted = name.map(|name| format!("\\( -name {name} -o -path {name} \\)")).unwrap_or_default();
    format!(
        "if [ -f {root} ]; then find {root} {print} 2>/dev/null; else \
         find {root}/ -mindepth 1 -name '.*' -prune -o -type f {wanted} {print} 2>/dev/null; fi"
    )
}

fn word(path: &Path) -> String {
    shell_quote(&path.to_string_lossy())
}

fn failed(error: &std::io::Error) -> ToolOutcome {
    ToolOutcome::failed(format!("Search failed: {error}"))
}
