//! The recorded changes to memory files.
//!
//! `history.jsonl` beside the files holds one change per line: the entries before and after it. Invariant: a change is
//! recorded before the file is replaced, and the oldest records are dropped when the file grows too long.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hermes_config::write;
use hermes_types::Clock;
use serde::{Deserialize, Serialize};

use crate::iso_time;

const FILE: &str = "history.jsonl";
/// The number of changes kept.
const KEPT: usize = 200;

/// Who changed a memory file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryAuthor {
    /// The model, by its tool.
    Agent,
    /// A person, by a command.
    User,
    /// The pass that tidies the files.
    Consolidation,
}

/// A recorded change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRecord {
    /// Identifies the change.
    pub number: u64,
    pub at: String,
    pub by: MemoryAuthor,
    /// `memory` or `user`.
    pub target: String,
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// Where the added entries came from, if the model had read the words of others before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl MemoryRecord {
    /// Returns the entries that the change added.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.after.iter().filter(|entry| !self.before.contains(entry)).map(String::as_str)
    }

    /// Returns the entries that the change removed.
    pub fn removed(&self) -> impl Iterator<Item = &str> {
        self.before.iter().filter(|entry| !self.after.contains(entry)).map(String::as_str)
    }
}

/// Adds records.
#[derive(Debug, Clone)]
pub(crate) struct HistoryRecorder {
    pub(crate) author: MemoryAuthor,
    pub(crate) clock: Arc<dyn Clock>,
}

impl HistoryRecorder {
    /// Records a change to a file of this folder. The caller holds the file's lock.
    pub(crate) fn record(
        &self,
        folder: &Path,
        target: &str,
        before: &[String],
        after: &[String],
        origin: Option<String>,
    ) -> hermes_config::Result<()> {
        let mut records = read(folder);
        let number = records.last().map_or(1, |last| last.number + 1);
        records.push(MemoryRecord {
            number,
            at: iso_time(self.clock.now()),
            by: self.author,
            target: target.to_owned(),
            before: before.to_vec(),
            after: after.to_vec(),
            origin,
        });
        let surplus = records.len().saturating_sub(KEPT);
        write_all(folder, records.iter().skip(surplus))
    }
}

/// Removes the records of one file. Returns whether there were any.
pub(crate) fn remove(folder: &Path, target: &str) -> hermes_config::Result<bool> {
    let records = read(folder);
    let has_any = records.iter().any(|record| record.target == target);
    if has_any {
        write_all(folder, records.iter().filter(|record| record.target != target))?;
    }
    Ok(has_any)
}

fn write_all<'a>(
    folder: &Path,
    records: impl Iterator<Item = &'a MemoryRecord>,
) -> hermes_config::Result<()> {
    let lines = records.filter_map(|record| serde_json::to_string(record).ok());
    let text: String = lines.map(|line| line + "\n").collect();
    write::replace(&folder.join(FILE), text.as_bytes())
}

/// Returns the recorded changes, oldest first. Lines that cannot be read are left out.
pub(crate) fn read(folder: &Path) -> Vec<MemoryRecord> {
    let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
