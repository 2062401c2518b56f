//! Shortens trajectories to a number of tokens: turns in the middle are replaced by a summary.
//!
//! `region` decides what is replaced, `summary` asks a model, `run` goes through files. Invariants: the first turns, which say what is
//! to be done and how, and the last ones are kept word for word; a file is never in memory as a whole; the input is never changed.

mod config;
mod metrics;
mod region;
mod run;
mod sample;
mod selection;
mod summary;

pub use config::{NoticeSettings, ProtectedTurns, SummarySettings, TrajectoryLimits};
pub use metrics::{CompressionMetrics, CompressionTotals, ReplacedTurns};
pub use region::{RegionChoice, choose_region};
pub use run::{CompressionJob, CompressionTarget, TokenCounter, TrajectoryCompression, dry_run};
pub use sample::{SampleGenerator, SampleShare};
pub use selection::{SelectionReport, TrajectorySelection, merge_folder};
pub use summary::{SummaryModel, summary_input};
