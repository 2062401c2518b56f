//! `checkpoint.json`: which prompts of a run are done.
//!
//! Invariant: a file that cannot be read, and one of another run, count for nothing; members that this release does not know are
//! written back.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use hermes_text::JsonTree;

use super::dataset::{DatasetEntry, PromptHash};
use crate::error::Error;
use crate::file::replace_file;

const KNOWN: [&str; 5] = ["run_name", "completed_prompts", "batch_stats", "last_updated", "prompt_hashes"];

/// What came of the prompts of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BatchStats {
    pub(super) processed: u64,
    pub(super) skipped: u64,
    pub(super) discarded: u64,
}

/// The state of a run. The hashes of prompts that this process completed are those of the dataset.
#[derive(Debug, Clone, Default)]
pub struct RunCheckpoint {
    run_name: String,
    completed: BTreeSet<usize>,
    /// The hashes that the file had, where the prompt was not completed again.
    loaded: BTreeMap<usize, PromptHash>,
    /// The completed prompts of a file without hashes.
    unhashed: BTreeSet<usize>,
    batches: BTreeMap<usize, BatchStats>,
    others: Vec<(String, JsonTree)>,
}

impl RunCheckpoint {
    pub fn new(run_name: &str) -> Self {
        Self { run_name: run_name.to_owned(), ..Self::default() }
    }

    /// Reads the file of a run. Returns a warning where there is one that cannot be used.
    pub fn load(path: &Path, run_name: &str) -> (Self, Option<String>) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return (Self::new(run_name), None),
            Err(error) => {
                return (Self::new(run_name), Some(format!("{} is not used: {error}", path.display())));
            }
        };
        let unusable =
            |reason: &str| (Self::new(run_name), Some(format!("{} is not used: {reason}", path.display())));
        let Ok(JsonTree::Object(members)) = JsonTree::parse(&text) else {
            return unusable("it is not a JSON object");
        };
        let value = JsonTree::Object(members);
        match value.get("run_name").and_then(JsonTree::as_str) {
            Some(name) if name == run_name => {}
            _ => return unusable("it belongs to another run"),
        }
        let number = |value: &JsonTree| value.as_u64().and_then(|n| usize::try_from(n).ok());
        let completed = value.get("completed_prompts").and_then(JsonTree::as_array).unwrap_or_default();
        let mut hashes: BTreeMap<usize, PromptHash> = BTreeMap::new();
        if let Some(JsonTree::Object(members)) = value.get("prompt_hashes") {
            hashes.extend(members.iter().filter_map(|(index, hash)| {
                Some((index.parse().ok()?, hash.as_str().and_then(hash_from_hex)?))
            }));
        }
        let completed: BTreeSet<usize> = completed.iter().filter_map(number).collect();
        let unhashed = completed.iter().copied().filter(|at| !hashes.contains_key(at)).collect();
        hashes.retain(|at, _| completed.contains(at));
        let mut batches = BTreeMap::new();
        if let Some(JsonTree::Object(members)) = value.get("batch_stats") {
            for (batch, stats) in members {
                let Ok(batch) = batch.parse() else { continue };
                let count = |name: &str| stats.get(name).and_then(JsonTree::as_u64).unwrap_or_default();
                let stats = BatchStats {
                    processed: count("processed"),
                    skipped: count("skipped"),
                    discarded: count("discarded_no_reasoning"),
                };
                batches.insert(batch, stats);
            }
        }
        let others = match value {
            JsonTree::Object(members) => {
                members.into_iter().filter(|(name, _)| !KNOWN.contains(&name.as_str())).collect()
            }
            _ => Vec::new(),
        };
        (Self { run_name: run_name.to_owned(), completed, loaded: hashes, unhashed, batches, others }, None)
    }

    /// Tells whether the prompt with this number and this text is done. Where the file has no text for it, the number counts.
    pub(super) fn has(&self, index: usize, hash: &PromptHash) -> bool {
        self.unhashed.contains(&index)
            || self.completed.contains(&index) && self.loaded.get(&index).is_none_or(|known| known == hash)
    }

    /// Notes that a prompt of the dataset is done.
    pub(super) fn complete(&mut self, index: usize) {
        self.completed.insert(index);
        self.loaded.remove(&index);
        self.unhashed.remove(&index);
    }

    pub(super) fn set_batch(&mut self, batch: usize, stats: BatchStats) {
        self.batches.insert(batch, stats);
    }

    fn write(&self, out: &mut impl Write, entries: &[DatasetEntry], now: &str) -> io::Result<()> {
        let name = JsonTree::text(self.run_name.as_str());
        write!(out, "{{\n  \"run_name\": {name},\n  \"completed_prompts\": [")?;
        for (at, index) in self.completed.iter().enumerate() {
            write!(out, "{}\n    {index}", if at > 0 { "," } else { "" })?;
        }
        write!(out, "{}", if self.completed.is_empty() { "]" } else { "\n  ]" })?;
        let batches = self.batches.iter().map(|(batch, stats)| {
            let stats = JsonTree::object([
                ("processed", stats.processed.into()),
                ("skipped", stats.skipped.into()),
                ("discarded_no_reasoning", stats.discarded.into()),
            ]);
            (batch.to_string(), stats)
        });
        let batches = JsonTree::Object(batches.collect());
        write!(out, ",\n  \"batch_stats\": {batches},\n  \"last_updated\": {}", JsonTree::from(now))?;
        write!(out, ",\n  \"prompt_hashes\": {{")?;
        let mut first = true;
        for index in self.completed.iter().filter(|index| !self.unhashed.contains(index)) {
            let of_dataset = || entries.get(*index).map(|entry| &entry.hash);
            let Some(hash) = self.loaded.get(index).or_else(of_dataset) else { continue };
            write!(out, "{}\n    \"{index}\": \"{}\"", if first { "" } else { "," }, hex(hash))?;
            first = false;
        }
        write!(out, "{}", if first { "}" } else { "\n  }" })?;
        for (name, value) in &self.others {
            write!(out, ",\n  {}: {value}", JsonTree::from(name.as_str()))?;
        }
        write!(out, "\n}}")
    }

    /// Replaces the file. `entries` are those of the dataset.
    pub(super) fn save(&self, path: &Path, entries: &[DatasetEntry], now: &str) -> Result<(), Error> {
        replace_file(path, |out| self.write(out, entries, now))
    }
}

/// Writes bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| DIGITS.get(usize::from(half))).copied().map(char::from).collect()
}

fn hash_from_hex(text: &str) -> Option<PromptHash> {
    let mut hash = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (at, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(hash)
}
