//! A run of the agent over a dataset: one conversation for each prompt, one record for each conversation.
//!
//! `run` schedules, `rollout` holds one conversation, `records` writes and reads what came of them. Invariant: the batch files are
//! the truth about which prompts are done; the checkpoint adds what left no record.

mod checkpoint;
mod counts;
mod dataset;
mod distribution;
mod frontend;
mod merge;
mod options;
mod plan;
mod progress;
mod record;
mod records;
mod rollout;
mod run;
mod statistics;

pub use checkpoint::RunCheckpoint;
pub(crate) use checkpoint::hex;
pub use counts::{ItemCounts, ReasoningCounts, ToolCounts};
pub(crate) use dataset::prompt_hash;
pub use dataset::{Dataset, DatasetEntry, DatasetProblem, DatasetRow};
pub use distribution::{
    DISTRIBUTIONS, DistributionSampler, ToolsetDistribution, describe_distributions, find_distribution,
};
pub(crate) use merge::check as check_record;
pub use merge::{MergeReport, merge_batches};
pub use options::{BatchOptions, BatchShard, ReasoningFilter, ResumePolicy};
pub use progress::{BatchObserver, BatchProgress, ProgressSnapshot};
pub(crate) use record::RecordLine;
pub(crate) use records::{batch_files, each_line};
pub use rollout::{
    RolloutAgents, RolloutContext, RolloutError, RolloutOutcome, RolloutRunner, RolloutSettings,
};
pub use run::{BatchRun, BatchSummary};
pub use statistics::RunStatistics;
