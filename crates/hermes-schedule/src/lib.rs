//! Scheduled jobs: when they run, and the file that stores them.
//!
//! Holds the grammar of schedules, the rules for due and missed runs, the screening of prompts, the grammar of
//! delivery targets, and `jobs.json` with every operation on a job. Runs nothing, sends nothing and reads no clock:
//! the caller passes the time in. Invariants: no schedule that a user or a model writes causes a panic; instants
//! are compared as instants, never as texts; the file is changed under its lock, on its current content, and
//! unknown fields of a job survive.

mod document;
mod error;
mod expression;
mod file;
mod grammar;
mod job;
mod jobs;
mod record;
mod scan;
mod schedule;
mod screen;
mod script;
mod target;
mod tick_lock;
mod view;
mod zone;

pub use document::{RunDocuments, RunRecord as DocumentedRun};
pub use error::{Error, Result};
pub use grammar::parse;
pub use job::{Job, JobId, JobOrigin, JobRepeat, JobState, RunStatus};
pub use jobs::{JobChange, JobFilter, JobStore, NewJob, PauseChange};
pub use record::{RecordOutcome, earliest_next_run};
pub use scan::{DueInstants, ScanFinding, scan};
pub use schedule::{Schedule, ScheduleKind};
pub use screen::screen;
pub use script::{JobScript, ScriptLanguage};
pub use target::{DeliveryTarget, parse_targets};
pub use tick_lock::TickLock;
pub use view::{describe_repeat, job_summary};
pub use zone::{Zone, parse_instant};
