//! Earlier inputs: moving through them, searching them, and the format of the file they are kept in.
//!
//! Reads and writes no file.

use std::fmt::Write as _;

use hermes_types::CivilTime;

/// The store of earlier inputs. The file is shared with other programs, and belongs to the caller.
pub trait InputHistory: Send + Sync {
    /// Returns the earlier inputs, oldest first.
    fn load(&self) -> Vec<String>;

    /// Adds an input. A failure must not disturb the chat.
    fn append(&self, text: &str);
}

/// Reads the history file: consecutive lines that begin with `+` are one entry, any other line ends it.
pub fn parse_history(file: &str) -> Vec<String> {
    let mut entries = Vec::new();
    let mut entry: Option<String> = None;
    for line in file.split('\n') {
        match (line.strip_prefix('+'), &mut entry) {
            (Some(line), Some(entry)) => {
                entry.push('\n');
                entry.push_str(line);
            }
            (Some(line), none) => *none = Some(line.to_owned()),
            (None, _) => entries.extend(entry.take()),
        }
    }
    entries.extend(entry);
    entries
}

/// Formats an entry for the end of the history file.
pub fn format_history_entry(text: &str, local_time: &CivilTime) -> String {
    let CivilTime { year, month, day, hour, minute, second } = local_time;
    let mut entry = format!("\n# {year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}\n");
    for line in text.split('\n') {
        let _ = writeln!(entry, "+{line}");
    }
    entry
}

/// The earlier inputs of a chat, and the place in them.
#[derive(Debug, Clone, Default)]
pub(crate) struct HistoryBrowser {
    entries: Vec<String>,
    at: Option<usize>,
    /// What was being typed before the first step back.
    draft: String,
}

impl HistoryBrowser {
    pub(crate) fn new(entries: Vec<String>) -> Self {
        Self { entries, ..Self::default() }
    }

    /// Adds an input, unless it repeats the last one; tells whether it did.
    pub(crate) fn add(&mut self, text: &str) -> bool {
        self.at = None;
        let is_new = !text.trim().is_empty() && self.entries.last().is_none_or(|last| last != text);
        if is_new {
            self.entries.push(text.to_owned());
        }
        is_new
    }

    /// Returns the entry before the current one that differs from what is shown.
    pub(crate) fn older(&mut self, shown: &str) -> Option<String> {
        let from = self.at.unwrap_or(self.entries.len());
        let at = (0..from).rev().find(|at| self.entries.get(*at).is_some_and(|entry| entry != shown))?;
        if self.at.is_none() {
            shown.clone_into(&mut self.draft);
        }
        self.at = Some(at);
        self.entries.get(at).cloned()
    }

    /// Returns the entry after the current one; after the last one comes what was being typed.
    pub(crate) fn newer(&mut self) -> Option<String> {
        let at = self.at? + 1;
        if let Some(entry) = self.entries.get(at) {
            self.at = Some(at);
            return Some(entry.clone());
        }
        self.at = None;
        Some(std::mem::take(&mut self.draft))
    }

    pub(crate) fn reset(&mut self) {
        self.at = None;
    }

    /// Returns the rest of the newest entry that begins with the text.
    pub(crate) fn suggestion(&self, text: &str) -> Option<&str> {
        if text.is_empty() || text.contains('\n') {
            return None;
        }
        let rest = |entry: &'_ String| entry.starts_with(text) && entry.len() > text.len();
        let entry = self.entries.iter().rev().take(2_000).find(|entry| rest(entry))?;
        entry.get(text.len()..)?.lines().next().filter(|rest| !rest.is_empty())
    }

    /// Returns the index of the newest entry before `from` that contains the text, without regard to case.
    fn find_before(&self, text: &str, from: usize) -> Option<usize> {
        let wanted = text.to_lowercase();
        let entries = self.entries.get(..from.min(self.entries.len()))?;
        entries.iter().rposition(|entry| entry.to_lowercase().contains(&wanted))
    }
}

/// A search through the history, step by step.
#[derive(Debug, Clone, Default)]
pub(crate) struct HistorySearch {
    pub(crate) query: String,
    found: Option<usize>,
}

impl HistorySearch {
    pub(crate) fn found<'a>(&self, history: &'a HistoryBrowser) -> Option<&'a str> {
        history.entries.get(self.found?).map(String::as_str)
    }

    /// Searches again from the newest entry, because the query changed.
    pub(crate) fn restart(&mut self, history: &HistoryBrowser) {
        self.found = if self.query.is_empty() { None } else { history.find_before(&self.query, usize::MAX) };
    }

    /// Goes to the next older entry that matches.
    pub(crate) fn next_older(&mut self, history: &HistoryBrowser) {
        if let Some(older) = self.found.and_then(|found| history.find_before(&self.query, found)) {
            self.found = Some(older);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_leniently() {
        for (file, entries) in [
            ("\n# 2026-01-02 03:04:05\n+one\n+two\n\n# x\n+three\n", vec!["one\ntwo", "three"]),
            ("+a\ngarbage\n+b", vec!["a", "b"]),
            ("", vec![]),
            ("\n#\n+\n+\n", vec!["\n"]),
        ] {
            assert_eq!(parse_history(file), entries, "{file:?}");
        }
    }

    #[test]
    fn steps_back_and_forth_return_to_the_draft() {
        let mut history = HistoryBrowser::new(vec!["one".into(), "two".into()]);
        assert_eq!(history.older("draft").as_deref(), Some("two"));
        assert_eq!(history.older("two").as_deref(), Some("one"));
        assert_eq!(history.older("one"), None);
        assert_eq!(history.newer().as_deref(), Some("two"));
        assert_eq!(history.newer().as_deref(), Some("draft"));
        assert_eq!(history.newer(), None);
    }
}
