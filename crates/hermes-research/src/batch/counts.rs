//! What is counted of conversations.

use std::collections::BTreeMap;
use std::ops::AddAssign;

/// The calls of one tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolCounts {
    pub count: u64,
    pub success: u64,
    pub failure: u64,
}

impl AddAssign for ToolCounts {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.success += other.success;
        self.failure += other.failure;
    }
}

/// The turns of the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReasoningCounts {
    pub turns: u64,
    pub with_reasoning: u64,
}

impl AddAssign for ReasoningCounts {
    fn add_assign(&mut self, other: Self) {
        self.turns += other.turns;
        self.with_reasoning += other.with_reasoning;
    }
}

/// What one conversation adds to the statistics of its run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ItemCounts {
    /// The tools that were called.
    pub tools: BTreeMap<String, ToolCounts>,
    pub reasoning: ReasoningCounts,
}
