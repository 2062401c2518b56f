//! Token counts, costs, and the limit on both.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Token counts in categories that do not overlap: `input` excludes tokens read from or written to a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// The part of `output` that was spent on reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Returns the number of tokens sent, cached or not, which is what fills the context window.
    pub fn prompt(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    pub fn total(self) -> u64 {
        self.prompt().saturating_add(self.output)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// The certainty of an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostStatus {
    Actual,
    Estimated,
    Included,
    Unknown,
}

impl CostStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Actual => "actual",
            Self::Estimated => "estimated",
            Self::Included => "included",
            Self::Unknown => "unknown",
        }
    }
}

/// The cost of a call, in millionths of a US dollar so that sums are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The amount; absent when no price is known.
    pub micro_usd: Option<u64>,
    pub status: CostStatus,
}

impl Cost {
    pub const UNKNOWN: Self = Self { micro_usd: None, status: CostStatus::Unknown };
}

/// The most a turn and everything it starts may spend. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendingCap {
    pub micro_usd: Option<u64>,
    pub tokens: Option<u64>,
}
