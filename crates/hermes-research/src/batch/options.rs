//! How a run is to be done.

use std::path::PathBuf;
use std::str::FromStr;

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct BatchOptions {
    pub run_name: String,
    /// The folder of the run's files.
    pub folder: PathBuf,
    pub batch_size: usize,
    /// The most conversations at once.
    pub workers: usize,
    pub resume: ResumePolicy,
    pub shard: Option<BatchShard>,
    /// Says whether each conversation is announced.
    pub verbose: bool,
    /// The most characters of a prompt in an announcement.
    pub preview_chars: usize,
    /// The model's name in statistics.
    pub model: String,
}

/// Says which prompts are taken as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumePolicy {
    /// Those with the same number and the same text.
    ByIndex,
    /// Also those with the same text elsewhere; what is left is cut into new batches.
    ByContent,
}

/// Says whether conversations without any reasoning are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningFilter {
    Required,
    Off,
}

/// The part of a run that one of several processes does: every batch whose number leaves this remainder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShard {
    pub index: usize,
    pub count: usize,
}

impl BatchShard {
    pub(crate) fn has(self, batch: usize) -> bool {
        batch % self.count == self.index
    }

    /// Returns what the names of the shard's own files contain.
    pub(crate) fn suffix(self) -> String {
        format!("_{}_of_{}", self.index, self.count)
    }
}

impl FromStr for BatchShard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Self { index: index.trim().parse().ok()?, count: count.trim().parse().ok()? })
        });
        parts.filter(|shard| shard.index < shard.count).ok_or_else(|| {
            format!("`{text}` is not a shard; write I/N with I from 0 to N-1, for example 0/4")
        })
    }
}
