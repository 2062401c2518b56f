//! The agent's memory: two small files of entries.
//!
//! `MEMORY.md` holds the agent's own notes, `USER.md` what it knows about the user. A line with a single `§`
//! separates entries. Invariants: a change is applied to the file as read under the lock, and the file is
//! replaced as a whole; a limit applies to the result of a change; readers take no lock.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::lock::{FileLock, LockTimeout};
use hermes_config::{Home, make_private, write};
use hermes_guard::{InjectionFinding, TextOrigin, find_injections};
use hermes_text::{head, with_commas};
use hermes_types::Clock;
use thiserror::Error;

use crate::memory_history::{self, HistoryRecorder, MemoryAuthor, MemoryRecord};
use crate::memory_origin::{self, Origins};

const DELIMITER: &str = "\n§\n";
const RULE_WIDTH: usize = 46;
const PREVIEW: usize = 80;
/// The character of the line above and below the header of a block.
pub const USAGE_RULE: char = '═';

/// Names one of the two memory files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFile {
    Memory,
    User,
}

impl MemoryFile {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::User => "user",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Memory, Self::User].into_iter().find(|target| target.as_str() == text)
    }

    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Memory => "MEMORY.md",
            Self::User => "USER.md",
        }
    }

    fn header(self) -> &'static str {
        match self {
            Self::Memory => "MEMORY (your personal notes)",
            Self::User => "USER PROFILE (who the user is)",
        }
    }
}

/// The maximum number of characters of each file, delimiters included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    pub memory: usize,
    pub user: usize,
}

/// A requested change to a memory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryChange {
    Add { content: String },
    Replace { old_text: String, content: String },
    Remove { old_text: String },
}

/// The content of a file after a change was applied or found unnecessary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryState {
    pub entries: Vec<String>,
    /// The usage, such as `67% — 1,474/2,200 chars`.
    pub usage: String,
    pub message: &'static str,
}

/// The reason why a change was refused, worded for the model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemoryRefusal {
    #[error("{0}")]
    Incomplete(&'static str),
    #[error("{words}")]
    Full { words: String, entries: Vec<String>, usage: String },
    #[error("No entry matched '{0}'.")]
    NoMatch(String),
    #[error("Multiple entries matched '{old_text}'. Be more specific.")]
    Ambiguous { old_text: String, previews: Vec<String> },
    #[error("{0}")]
    Blocked(String),
    /// The file holds content that this program did not write and would lose.
    #[error("{0}")]
    Foreign(String),
    #[error("the memory file cannot be used: {0}")]
    File(String),
}

/// Reads and changes memory files: those of a home, or those about one person.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    folder: PathBuf,
    limits: MemoryLimits,
    recorder: Option<HistoryRecorder>,
    /// Where the words of the next changes came from, if from others than the person.
    origin: Option<String>,
}

impl MemoryStore {
    pub fn new(home: &Home, limits: MemoryLimits) -> Self {
        Self::in_folder(home.memories(), limits)
    }

    /// Opens the files in a folder of their own, such as that of one person.
    pub fn in_folder(folder: PathBuf, limits: MemoryLimits) -> Self {
        Self { folder, limits, recorder: None, origin: None }
    }

    /// Records each change, so that it can be undone.
    #[must_use]
    pub fn recorded(self, author: MemoryAuthor, clock: Arc<dyn Clock>) -> Self {
        Self { recorder: Some(HistoryRecorder { author, clock }), ..self }
    }

    /// Marks what is written next with the sources of words that the model read before; none for the person's own.
    #[must_use]
    pub fn from_sources(&self, sources: &[String]) -> Self {
        Self { origin: memory_origin::describe(sources), ..self.clone() }
    }

    /// Returns where an entry came from, if the model had read the words of others before it wrote it.
    pub fn origin(&self, target: MemoryFile, entry: &str) -> Option<String> {
        memory_origin::read(&self.folder, target.file()).remove(entry)
    }

    /// Returns the recorded changes, oldest first.
    pub fn history(&self) -> Vec<MemoryRecord> {
        memory_history::read(&self.folder)
    }

    /// Takes back a recorded change. Refused when the file was changed since, unless this was the last change to it.
    pub fn undo(&self, number: u64) -> Result<MemoryRecord, MemoryRefusal> {
        let records = self.history();
        let found = records.iter().find(|record| record.number == number);
        let record = found.ok_or(MemoryRefusal::Incomplete("There is no change with this number."))?.clone();
        let Some(target) = MemoryFile::parse(&record.target) else {
            return Err(MemoryRefusal::Incomplete(
                "The change is about a file that this release does not know.",
            ));
        };
        let (_lock, path) = self.lock(target)?;
        let entries = read(&path).map(|text| split(&text)).unwrap_or_default();
        if entries != record.after {
            return Err(MemoryRefusal::Incomplete(
                "The file was changed since; undo the later changes first.",
            ));
        }
        let origins = self.origins_put_back(target, &record.before);
        self.replace_with(target, &path, &entries, &record.before, &origins)?;
        Ok(record)
    }

    /// Replaces all entries, as a person edited them.
    pub fn replace_all(&self, target: MemoryFile, text: &str) -> Result<MemoryState, MemoryRefusal> {
        let entries = split(text);
        let limit = self.limit(target);
        for entry in &entries {
            check_words(&MemoryChange::Add { content: entry.clone() })?;
        }
        let (_lock, path) = self.lock(target)?;
        let before = read(&path).map(|text| split(&text)).unwrap_or_default();
        if length(&entries) > limit {
            return Err(MemoryRefusal::Full {
                words: format!(
                    "The text has {} characters; the limit is {}.",
                    with_commas(length(&entries)),
                    with_commas(limit)
                ),
                usage: format!("{}/{}", with_commas(length(&entries)), with_commas(limit)),
                entries: before,
            });
        }
        self.replace(target, &path, &before, &entries)?;
        Ok(self.state_of(target, entries, ""))
    }

    /// Removes the profile of a person, also from the recorded changes. Returns whether there was anything.
    pub fn forget_profile(&self) -> Result<bool, MemoryRefusal> {
        let (_lock, path) = self.lock(MemoryFile::User)?;
        let recorded = memory_history::remove(&self.folder, MemoryFile::User.as_str());
        let had_records = recorded.map_err(|error| file_error(&error))?;
        let had_origins = memory_origin::remove(&self.folder, MemoryFile::User.file());
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(had_records || had_origins),
            Err(error) => Err(file_error(&error)),
        }
    }

    /// Returns the entries on disk. A missing or unreadable file has none.
    pub fn entries(&self, target: MemoryFile) -> Vec<String> {
        read(&self.path(target)).map(|text| split(&text)).unwrap_or_default()
    }

    /// Returns the state of a file without changing it.
    pub fn state(&self, target: MemoryFile) -> MemoryState {
        self.state_of(target, self.entries(target), "")
    }

    /// Renders the block for the prompt. An entry that would be refused today is shown as blocked.
    pub fn prompt_block(&self, target: MemoryFile) -> Option<String> {
        let entries = self.entries(target);
        if entries.is_empty() {
            return None;
        }
        let usage = usage(length(&entries), self.limit(target));
        let origins = memory_origin::read(&self.folder, target.file());
        let shown: Vec<String> = entries
            .into_iter()
            .map(|entry| match origins.get(&entry) {
                Some(origin) => format!("{} [written after reading: {origin}]", show_if_harmless(entry)),
                None => show_if_harmless(entry),
            })
            .collect();
        let rule: String = std::iter::repeat_n(USAGE_RULE, RULE_WIDTH).collect();
        Some(format!("{rule}\n{} [{usage}]\n{rule}\n{}", target.header(), shown.join(DELIMITER)))
    }

    /// Applies a change, or returns why it was refused. Nothing is written unless the whole change is accepted.
    pub fn apply(&self, target: MemoryFile, change: &MemoryChange) -> Result<MemoryState, MemoryRefusal> {
        self.apply_all(target, std::slice::from_ref(change))
    }

    /// Applies several changes as one: the limit applies to the final result, and one refusal refuses all.
    pub fn apply_all(
        &self,
        target: MemoryFile,
        changes: &[MemoryChange],
    ) -> Result<MemoryState, MemoryRefusal> {
        for change in changes {
            check_words(change)?;
        }
        let (_lock, path) = self.lock(target)?;
        let text = read(&path).unwrap_or_default();
        let mut entries = split(&text);
        let before = entries.clone();
        let limit = self.limit(target);
        let mut message = "";
        for change in changes {
            if !matches!(change, MemoryChange::Add { .. }) {
                refuse_foreign(&path, &text, &before, limit)?;
            }
            message = apply_change(&mut entries, change)?;
        }
        if length(&entries) > limit && length(&entries) > length(&before) {
            return Err(too_long(target, changes, &before, &entries, limit));
        }
        self.replace(target, &path, &before, &entries)?;
        Ok(self.state_of(target, entries, message))
    }

    /// Takes the lock of a file.
    fn lock(&self, target: MemoryFile) -> Result<(FileLock, PathBuf), MemoryRefusal> {
        let path = self.path(target);
        make_private(&self.folder).map_err(|error| file_error(&error))?;
        let lock = FileLock::acquire(&path.with_added_extension("lock"), LockTimeout::SETTINGS);
        Ok((lock.map_err(|error| file_error(&error))?, path))
    }

    /// Replaces the entries of a locked file and records the change, before the file changes: a record whose change
    /// did not happen is refused by `undo`.
    fn replace(
        &self,
        target: MemoryFile,
        path: &Path,
        before: &[String],
        after: &[String],
    ) -> Result<(), MemoryRefusal> {
        if before == after {
            return Ok(());
        }
        let origins = self.origins_after(target, before, after);
        self.replace_with(target, path, before, after, &origins)
    }

    /// Replaces the entries of a locked file, whose origins are these from now on.
    fn replace_with(
        &self,
        target: MemoryFile,
        path: &Path,
        before: &[String],
        after: &[String],
        origins: &Origins,
    ) -> Result<(), MemoryRefusal> {
        if let Some(recorder) = &self.recorder {
            let mut added = after.iter().filter(|entry| !before.contains(entry));
            let origin = added.find_map(|entry| origins.get(entry)).cloned();
            recorder
                .record(&self.folder, target.as_str(), before, after, origin)
                .map_err(|error| file_error(&error))?;
        }
        memory_origin::write(&self.folder, target.file(), origins).map_err(|error| file_error(&error))?;
        write::replace(path, after.join(DELIMITER).as_bytes()).map_err(|error| file_error(&error))
    }

    /// Replaces the entries of a file by what a function makes of them and their origins; `None` leaves them as they are. Returns the
    /// entries before.
    pub(crate) fn rewrite(
        &self,
        target: MemoryFile,
        change: impl FnOnce(&[String], &Origins) -> Result<Option<(Vec<String>, Origins)>, MemoryRefusal>,
    ) -> Result<Option<(Vec<String>, MemoryState)>, MemoryRefusal> {
        let (_lock, path) = self.lock(target)?;
        let text = read(&path).unwrap_or_default();
        let before = split(&text);
        refuse_foreign(&path, &text, &before, self.limit(target))?;
        let origins = memory_origin::read(&self.folder, target.file());
        let Some((after, origins)) = change(&before, &origins)? else { return Ok(None) };
        self.replace_with(target, &path, &before, &after, &origins)?;
        Ok(Some((before, self.state_of(target, after, ""))))
    }

    /// Returns the origins of entries that are put back: those that they were written with.
    fn origins_put_back(&self, target: MemoryFile, entries: &[String]) -> Origins {
        let mut origins = memory_origin::read(&self.folder, target.file());
        let recorded = self.history();
        for entry in entries {
            let mut added = recorded.iter().rev().filter(|record| record.target == target.as_str());
            let origin = added.find(|record| record.added().any(|added| added == entry));
            if let Some(origin) = origin.and_then(|record| record.origin.clone()) {
                origins.entry(entry.clone()).or_insert(origin);
            }
        }
        origins.retain(|entry, _| entries.contains(entry));
        origins
    }

    /// Returns the origins after a change: an entry that takes the place of another keeps that one's.
    fn origins_after(&self, target: MemoryFile, before: &[String], after: &[String]) -> Origins {
        let mut origins = memory_origin::read(&self.folder, target.file());
        let inherited = before
            .iter()
            .filter(|entry| !after.contains(entry))
            .find_map(|entry| origins.get(entry))
            .cloned();
        let recorded = self.history();
        for entry in after.iter().filter(|entry| !before.contains(entry)) {
            // An entry that is put back has the origin that it was written with.
            let earlier = || {
                let mut added = recorded.iter().rev().filter(|record| record.target == target.as_str());
                added.find(|record| record.added().any(|added| added == entry))?.origin.clone()
            };
            if let Some(origin) = self.origin.clone().or_else(|| inherited.clone()).or_else(earlier) {
                origins.insert(entry.clone(), origin);
            }
        }
        origins.retain(|entry, _| after.contains(entry));
        origins
    }

    fn state_of(&self, target: MemoryFile, entries: Vec<String>, message: &'static str) -> MemoryState {
        let usage = usage(length(&entries), self.limit(target));
        MemoryState { entries, usage, message }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn limit(&self, target: MemoryFile) -> usize {
        match target {
            MemoryFile::Memory => self.limits.memory,
            MemoryFile::User => self.limits.user,
        }
    }

    fn path(&self, target: MemoryFile) -> PathBuf {
        self.folder.join(target.file())
    }
}

fn file_error(error: &dyn std::fmt::Display) -> MemoryRefusal {
    MemoryRefusal::File(error.to_string())
}

/// Refuses to change a file that a rewrite would damage, such as one edited by hand, and saves a copy of it.
fn refuse_foreign(path: &Path, text: &str, entries: &[String], limit: usize) -> Result<(), MemoryRefusal> {
    let round_trips = text.trim() == entries.join(DELIMITER).trim();
    let oversized = entries.iter().any(|entry| entry.chars().count() > limit);
    if (round_trips || has_only_duplicates(text, entries)) && !oversized {
        return Ok(());
    }
    let copy = path.with_added_extension("bak");
    if !copy.exists() {
        write::replace(&copy, text.as_bytes()).map_err(|error| MemoryRefusal::File(error.to_string()))?;
    }
    Err(MemoryRefusal::Foreign(format!(
        "{} was edited by hand in a way that a change would damage; a copy is at {}. Ask the user to tidy it.",
        path.display(),
        copy.display()
    )))
}

fn read(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn split(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for entry in text.split(DELIMITER).map(str::trim).filter(|entry| !entry.is_empty()) {
        if !entries.iter().any(|known| known == entry) {
            entries.push(entry.to_owned());
        }
    }
    entries
}

/// Tells whether parsing dropped only repeated and empty entries, which loses nothing.
fn has_only_duplicates(text: &str, entries: &[String]) -> bool {
    text.split(DELIMITER).map(str::trim).all(|part| part.is_empty() || entries.iter().any(|e| e == part))
}

pub(crate) fn length(entries: &[String]) -> usize {
    let chars: usize = entries.iter().map(|entry| entry.chars().count()).sum();
    chars + entries.len().saturating_sub(1) * DELIMITER.chars().count()
}

fn usage(used: usize, limit: usize) -> String {
    let percent = used.saturating_mul(100).checked_div(limit).unwrap_or(100).min(100);
    format!("{percent}% — {}/{} chars", with_commas(used), with_commas(limit))
}

pub(crate) fn check_words(change: &MemoryChange) -> Result<(), MemoryRefusal> {
    let content = match change {
        MemoryChange::Add { content } if as_entry(content).is_empty() => {
            return Err(MemoryRefusal::Incomplete("Content is required for 'add' action."));
        }
        MemoryChange::Replace { old_text, .. } if old_text.trim().is_empty() => {
            return Err(MemoryRefusal::Incomplete("old_text is required for 'replace' action."));
        }
        MemoryChange::Replace { content, .. } if as_entry(content).is_empty() => {
            return Err(MemoryRefusal::Incomplete("content is required for 'replace' action."));
        }
        MemoryChange::Remove { old_text } if old_text.trim().is_empty() => {
            return Err(MemoryRefusal::Incomplete("old_text is required for 'remove' action."));
        }
        MemoryChange::Add { content } | MemoryChange::Replace { content, .. } => content,
        MemoryChange::Remove { .. } => return Ok(()),
    };
    match find_injections(content, TextOrigin::Memory).first() {
        None => Ok(()),
        Some(InjectionFinding::Pattern(id)) => Err(MemoryRefusal::Blocked(format!(
            "Blocked: content matches threat pattern '{id}'. Memory is shown to you in every session and must not hold orders or paths to secrets."
        ))),
        Some(InjectionFinding::Invisible(c)) => Err(MemoryRefusal::Blocked(format!(
            "Blocked: content contains invisible unicode character U+{:04X} (possible injection).",
            u32::from(*c)
        ))),
    }
}

fn apply_change(entries: &mut Vec<String>, change: &MemoryChange) -> Result<&'static str, MemoryRefusal> {
    match change {
        MemoryChange::Add { content } => {
            let content = as_entry(content);
            if entries.contains(&content) {
                return Ok("Entry already exists (no duplicate added).");
            }
            entries.push(content);
            Ok("Entry added.")
        }
        MemoryChange::Replace { old_text, content } => {
            let at = find(entries, old_text)?;
            let content = as_entry(content);
            if let Some(entry) = entries.get_mut(at) {
                *entry = content;
            }
            Ok("Entry replaced.")
        }
        MemoryChange::Remove { old_text } => {
            let at = find(entries, old_text)?;
            entries.remove(at);
            Ok("Entry removed.")
        }
    }
}

/// Removes lines that hold only `§`, because such a line would split the entry on the next read.
pub(crate) fn as_entry(content: &str) -> String {
    content.lines().filter(|line| line.trim() != "§").collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn find(entries: &[String], old_text: &str) -> Result<usize, MemoryRefusal> {
    let wanted = old_text.trim();
    let found: Vec<(usize, &String)> =
        entries.iter().enumerate().filter(|(_, entry)| entry.contains(wanted)).collect();
    match found.as_slice() {
        [] => Err(MemoryRefusal::NoMatch(wanted.to_owned())),
        [(at, _)] => Ok(*at),
        [(at, first), rest @ ..] if rest.iter().all(|(_, entry)| entry == first) => Ok(*at),
        several => Err(MemoryRefusal::Ambiguous {
            old_text: wanted.to_owned(),
            previews: several.iter().map(|(_, entry)| preview(entry)).collect(),
        }),
    }
}

fn preview(entry: &str) -> String {
    let kept = head(entry, PREVIEW);
    if kept.len() < entry.len() { format!("{kept}...") } else { kept.to_owned() }
}

fn too_long(
    target: MemoryFile,
    changes: &[MemoryChange],
    before: &[String],
    after: &[String],
    limit: usize,
) -> MemoryRefusal {
    let used = length(before);
    let name = if target == MemoryFile::Memory { "Memory" } else { "User profile" };
    let words = match changes {
        [MemoryChange::Add { content }] => format!(
            "{name} at {}/{} chars. Adding this entry ({} chars) would exceed the limit. Replace or remove entries first.",
            with_commas(used),
            with_commas(limit),
            content.trim().chars().count()
        ),
        _ => format!(
            "Replacement would put memory at {}/{} chars. Shorten it or remove other entries first.",
            with_commas(length(after)),
            with_commas(limit)
        ),
    };
    MemoryRefusal::Full {
        words,
        entries: before.to_vec(),
        usage: format!("{}/{}", with_commas(used), with_commas(limit)),
    }
}

fn show_if_harmless(entry: String) -> String {
    match find_injections(&entry, TextOrigin::Memory).first() {
        None => entry,
        Some(finding) => format!("[BLOCKED: this entry matched {finding} and is not shown]"),
    }
}
