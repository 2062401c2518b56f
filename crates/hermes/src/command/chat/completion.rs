//! Completions that depend on the file system: `@` references and paths.
//!
//! Bounded in how much it looks at, because it runs between two keys.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_config::{Env, expand_tilde};
use hermes_tui::{CompletionItem, CompletionSource};
use hermes_types::Clock;
use ignore::WalkBuilder;

/// The most entries of a folder that are offered.
const MAX_ENTRIES: usize = 30;
/// The most entries of a folder that are looked at.
const MAX_LISTED: usize = 5_000;
/// The most files below the working folder that a word without a folder is compared with.
const MAX_FILES: usize = 20_000;
const MAX_WALK: Duration = Duration::from_millis(60);
/// How long the list of files below the working folder is used again.
const KEEP_FILES: Duration = Duration::from_secs(5);

const REFERENCES: [(&str, &str); 6] = [
    ("@diff", "changes not staged"),
    ("@staged", "staged changes"),
    ("@file:", "a file"),
    ("@folder:", "the list of a folder"),
    ("@git:", "the last commits, as @git:3"),
    ("@url:", "a web page"),
];

/// Completes paths below a working folder.
pub(super) struct FileCompletion {
    folder: PathBuf,
    env: Env,
    clock: Arc<dyn Clock>,
    files: Mutex<Option<(Duration, Vec<String>)>>,
}

impl FileCompletion {
    pub(super) fn new(folder: PathBuf, env: Env, clock: Arc<dyn Clock>) -> Self {
        Self { folder, env, clock, files: Mutex::default() }
    }

    /// Lists a folder's entries whose names begin with the last part of a typed path.
    fn entries(&self, typed: &str, prefix: &str, kind: EntryKind) -> Vec<CompletionItem> {
        let (parent, start) = typed.rsplit_once('/').map_or(("", typed), |(parent, start)| (parent, start));
        let shown = if typed.contains('/') { format!("{parent}/") } else { String::new() };
        let folder = match shown.as_str() {
            "" => self.folder.clone(),
            path => match expand_tilde(path, &self.env) {
                Ok(path) => self.folder.join(path),
                Err(_) => return Vec::new(),
            },
        };
        let start = start.to_lowercase();
        let listed = fs::read_dir(&folder).into_iter().flatten().flatten().take(MAX_LISTED);
        let mut found: Vec<(bool, String, String)> = listed
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let hidden = name.starts_with('.') && !start.starts_with('.');
                if hidden || !name.to_lowercase().starts_with(&start) || name.contains(char::is_whitespace) {
                    return None;
                }
                let data = fs::metadata(entry.path()).ok()?;
                if kind == EntryKind::Folder && !data.is_dir() {
                    return None;
                }
                let detail = if data.is_dir() { "dir".to_owned() } else { format_size(data.len()) };
                Some((!data.is_dir(), name, detail))
            })
            .collect();
        found.sort();
        let item = |(is_file, name, detail): (bool, String, String)| {
            let tail = if is_file { "" } else { "/" };
            CompletionItem { insert: format!("{prefix}{shown}{name}{tail}"), label: name + tail, detail }
        };
        found.into_iter().take(MAX_ENTRIES).map(item).collect()
    }

    /// Returns the files below the working folder, without hidden and ignored ones.
    fn with_files<T>(&self, work: impl FnOnce(&[String]) -> T) -> T {
        let mut kept = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        if kept.as_ref().is_none_or(|(at, _)| now.saturating_sub(*at) >= KEEP_FILES) {
            *kept = Some((now, walk(&self.folder, &*self.clock)));
        }
        work(kept.as_ref().map_or(&[], |(_, files)| files))
    }

    /// Completes what follows an `@`.
    fn references(&self, word: &str) -> Vec<CompletionItem> {
        for (prefix, kind) in [("@file:", EntryKind::Any), ("@folder:", EntryKind::Folder)] {
            if let Some(path) = word.strip_prefix(prefix) {
                return self.entries(path, prefix, kind);
            }
        }
        let item = |(name, about): (&str, &str)| CompletionItem {
            insert: name.to_owned(),
            label: name.to_owned(),
            detail: about.to_owned(),
        };
        let typed = word.trim_start_matches('@');
        let mut items: Vec<CompletionItem> =
            REFERENCES.into_iter().filter(|(name, _)| name.starts_with(word)).map(item).collect();
        if typed.contains('/') || typed.is_empty() {
            items.extend(self.entries(typed, "@file:", EntryKind::Any));
            return items;
        }
        let wanted = typed.to_lowercase();
        items.extend(self.with_files(|files| {
            let has_letters = |path: &&String| is_subsequence(&wanted, &path.to_lowercase());
            let item = |path: &String| CompletionItem {
                insert: format!("@file:{path}"),
                label: path.clone(),
                detail: String::new(),
            };
            files.iter().filter(has_letters).map(item).take(200).collect::<Vec<_>>()
        }));
        items
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Any,
    Folder,
}

impl CompletionSource for FileCompletion {
    fn candidates(&self, word: &str) -> Vec<CompletionItem> {
        if word.starts_with('@') { self.references(word) } else { self.entries(word, "", EntryKind::Any) }
    }
}

fn walk(folder: &Path, clock: &dyn Clock) -> Vec<String> {
    let end = clock.monotonic().saturating_add(MAX_WALK);
    let found = WalkBuilder::new(folder).require_git(false).build();
    found
        .take_while(|_| clock.monotonic() < end)
        .flatten()
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter_map(|entry| entry.path().strip_prefix(folder).ok()?.to_str().map(str::to_owned))
        .filter(|path| !path.contains(char::is_whitespace))
        .take(MAX_FILES)
        .collect()
}

fn is_subsequence(wanted: &str, text: &str) -> bool {
    let mut rest = text.chars();
    wanted.chars().all(|letter| rest.any(|c| c == letter))
}

/// Formats a size, for example `12B`, `3K` or `1.2M`.
fn format_size(bytes: u64) -> String {
    match bytes {
        0..=1_023 => format!("{bytes}B"),
        1_024..=1_048_575 => format!("{}K", bytes / 1_024),
        _ => format!("{}.{}M", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserted(completion: &FileCompletion, word: &str) -> Vec<String> {
        completion.candidates(word).into_iter().map(|item| item.insert).collect()
    }

    #[test]
    fn references_and_paths_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["src/main.rs", "src/.hidden", "notes.txt", "target/out.txt"] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::write(folder.path().join(".gitignore"), "target\n").unwrap();
        let completion = FileCompletion::new(
            folder.path().to_owned(),
            Env::default(),
            Arc::new(hermes_task::SystemClock::new()),
        );
        assert_eq!(inserted(&completion, "@srmain"), ["@file:src/main.rs"]);
        assert_eq!(inserted(&completion, "@file:src/"), ["@file:src/main.rs"]);
        assert_eq!(inserted(&completion, "@folder:s"), ["@folder:src/"]);
        assert_eq!(inserted(&completion, "./NO"), ["./notes.txt"]);
        assert_eq!(inserted(&completion, "@di"), ["@diff"]);
        assert!(inserted(&completion, "@out").is_empty(), "an ignored file is not offered");
        assert!(inserted(&completion, "./no-such/x").is_empty());
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [(12, "12B"), (3_500, "3K"), (1_300_000, "1.2M")] {
            assert_eq!(format_size(bytes), text);
        }
    }
}
