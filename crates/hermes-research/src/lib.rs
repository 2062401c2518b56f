//! Training data: runs of the agent over a dataset, trajectories and their compression, environments for reinforcement learning.
//!
//! Holds no provider, no tool and no terminal: agents and tools come through the port [`RolloutAgents`], what is shown through
//! [`BatchObserver`] and [`EnvironmentObserver`]. Invariants: nothing of a run reaches the user's database; a record is written with one write, and only after
//! its conversation ended; a prompt has at most one record, however often the process was killed.

mod batch;
mod compress;
mod environment;
mod error;
mod file;
mod queue;
mod software_task;
mod trajectory;

pub use batch::{
    BatchObserver, BatchOptions, BatchProgress, BatchRun, BatchShard, BatchSummary, DISTRIBUTIONS, Dataset,
    DatasetEntry, DatasetProblem, DatasetRow, DistributionSampler, ItemCounts, MergeReport, ProgressSnapshot,
    ReasoningCounts, ReasoningFilter, ResumePolicy, RolloutAgents, RolloutContext, RolloutError,
    RolloutOutcome, RolloutRunner, RolloutSettings, RunCheckpoint, RunStatistics, ToolCounts,
    ToolsetDistribution, describe_distributions, find_distribution, merge_batches,
};
pub use compress::{
    CompressionJob, CompressionMetrics, CompressionTarget, CompressionTotals, NoticeSettings, ProtectedTurns,
    RegionChoice, ReplacedTurns, SampleGenerator, SampleShare, SelectionReport, SummaryModel,
    SummarySettings, TokenCounter, TrajectoryCompression, TrajectoryLimits, TrajectorySelection,
    choose_region, dry_run, merge_folder, summary_input,
};
#[cfg(feature = "tokenizers")]
pub use environment::TokenizerFile;
pub use environment::{
    AgentLoopResult, ChatTokenizer, CommandResult, DataEnvironment, EnvironmentFlags, EnvironmentMeans,
    EnvironmentMode, EnvironmentObserver, EnvironmentReport, EnvironmentRun, EnvironmentSettings,
    EvaluatedItem, EvaluationPriority, FlagValue, ImageReuse, InferenceServerSettings, ItemPlace,
    JudgedRollout, ModelJudge, ModelServers, ProgramEnvironment, RolloutToolError, RolloutTools,
    SHIPPED_ENVIRONMENTS, ServerType, SettingLayers, ShippedEnvironment, SpecialTokens, TaskImageBuilder,
    TrainingEnvironment,
};
pub use error::Error;
pub use queue::{
    GiveBack, ImportReport, ItemClose, ItemRecord, ItemResult, LeasedItem, QueueItem, QueueOptions,
    QueueStatus, QueueWorker, RunQueue, WorkerSummary, export_run, import_run, queue_items,
};
pub use software_task::{SoftwareTaskResult, SoftwareTaskRunner, software_tasks};
pub use trajectory::{
    SessionTrajectory, TrajectoryTurn, count_reasoning, count_tools, has_reasoning, iso_time, trajectory_of,
};
