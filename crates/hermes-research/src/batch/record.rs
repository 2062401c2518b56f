//! The record of one conversation, as a line of a batch file.

use std::collections::BTreeMap;

use hermes_text::JsonTree;

use super::counts::{ItemCounts, ToolCounts};
use super::dataset::{PromptHash, prompt_hash};
use crate::trajectory::TrajectoryTurn;

/// What a record says, in the order of its keys.
pub(super) struct Record<'a> {
    pub(super) prompt_index: usize,
    pub(super) turns: &'a [TrajectoryTurn],
    pub(super) batch: usize,
    pub(super) timestamp: String,
    pub(super) model: &'a str,
    pub(super) completed: bool,
    pub(super) partial: bool,
    pub(super) api_calls: u32,
    pub(super) toolsets: &'a [&'a str],
    pub(super) tools: &'a BTreeMap<String, ToolCounts>,
}

impl Record<'_> {
    /// Returns the line. Every registered tool is in it, so that all lines have one schema.
    pub(super) fn to_json(&self, registered: &[String]) -> JsonTree {
        let unregistered = self.tools.keys().filter(|name| !registered.contains(name));
        let names: Vec<&String> = registered.iter().chain(unregistered).collect();
        let counts = |name: &String| self.tools.get(name).copied().unwrap_or_default();
        let stats = names.iter().map(|name| ((*name).clone(), counts_json(counts(name))));
        let errors = names.iter().map(|name| ((*name).clone(), counts(name).failure.into()));
        let metadata = JsonTree::object([
            ("batch_num", self.batch.into()),
            ("timestamp", self.timestamp.as_str().into()),
            ("model", self.model.into()),
        ]);
        JsonTree::object([
            ("prompt_index", self.prompt_index.into()),
            ("conversations", self.turns.iter().map(TrajectoryTurn::to_json).collect()),
            ("metadata", metadata),
            ("completed", self.completed.into()),
            ("partial", self.partial.into()),
            ("api_calls", self.api_calls.into()),
            ("toolsets_used", self.toolsets.iter().copied().collect()),
            ("tool_stats", JsonTree::Object(stats.collect())),
            ("tool_error_counts", JsonTree::Object(errors.collect())),
        ])
    }
}

fn counts_json(counts: ToolCounts) -> JsonTree {
    JsonTree::object([
        ("count", counts.count.into()),
        ("success", counts.success.into()),
        ("failure", counts.failure.into()),
    ])
}

/// What a record says about which prompt it belongs to.
pub(super) struct RecordIdentity {
    pub(super) index: Option<usize>,
    pub(super) hash: PromptHash,
}

impl RecordIdentity {
    /// Reads a line. `None` for one that is not a record, and for one of a conversation that failed.
    pub(super) fn read(line: &str) -> Option<Self> {
        let value = JsonTree::parse(line).ok()?;
        if value.get("failed").and_then(JsonTree::as_bool) == Some(true) {
            return None;
        }
        let turns = value.get("conversations").and_then(JsonTree::as_array)?;
        let human = turns.iter().filter_map(TrajectoryTurn::from_json).find(|turn| turn.from == "human")?;
        let index = value.get("prompt_index").and_then(JsonTree::as_u64);
        Some(Self { index: index.and_then(|n| usize::try_from(n).ok()), hash: prompt_hash(&human.value) })
    }
}

/// A record with what a queue stores beside it.
pub(crate) struct RecordLine {
    pub(crate) index: Option<usize>,
    pub(crate) hash: PromptHash,
    pub(crate) line: String,
    pub(crate) counts: ItemCounts,
}

impl RecordLine {
    /// Reads a line. `None` for one that is not a record, and for one of a conversation that failed.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let RecordIdentity { index, hash } = RecordIdentity::read(line)?;
        let value = JsonTree::parse(line).ok()?;
        let mut counts = ItemCounts::default();
        if let Some(JsonTree::Object(tools)) = value.get("tool_stats") {
            for (name, stats) in tools {
                let count = |name: &str| stats.get(name).and_then(JsonTree::as_u64).unwrap_or_default();
                let stats = ToolCounts {
                    count: count("count"),
                    success: count("success"),
                    failure: count("failure"),
                };
                if stats.count > 0 {
                    counts.tools.insert(name.clone(), stats);
                }
            }
        }
        let turns = value.get("conversations").and_then(JsonTree::as_array)?;
        for turn in turns.iter().filter_map(TrajectoryTurn::from_json).filter(|turn| turn.from == "gpt") {
            counts.reasoning.turns += 1;
            // A turn without reasoning has an empty block.
            counts.reasoning.with_reasoning += u64::from(!turn.value.starts_with("<think>\n</think>"));
        }
        Some(Self { index, hash, line: line.to_owned(), counts })
    }
}
