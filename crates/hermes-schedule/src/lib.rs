//! Scheduled jobs: when they run, and the file they live in.
//!
//! Holds the grammar of schedules, the rules of what is due and what was missed, the screening of prompts, the grammar of
//! delivery targets, and `jobs.json` with everything that may be done to a job. Runs nothing, sends nothing and reads no
//! clock: the time comes in. Invariants: nothing a person or a model writes as a schedule panics; two instants are compared
//! as instants, never as texts; the file is changed under its lock, on the state it has then, and what is not known about a
//! job survives.

mod document;
mod error;
mod expression;
mod file;
mod grammar;
mod job;
mod jobs;
mod running;
mod scan;
mod schedule;
mod screen;
mod script;
mod target;
mod tick_lock;
mod view;
mod zone;

pub use document::{Documents, Run as DocumentedRun};
pub use error::{Error, Result};
pub use grammar::parse;
pub use job::{Job, JobId, JobState, Origin, Repeat, RunStatus};
pub use jobs::{Change, Jobs, Listed, NewJob, Pause};
pub use running::{Recorded, earliest};
pub use scan::{Due, Finding, scan};
pub use schedule::{Plan, Schedule};
pub use screen::screen;
pub use script::{JobScript, Language};
pub use target::{PLATFORMS, Target, targets};
pub use tick_lock::TickLock;
pub use view::{repeat_words, view};
pub use zone::{Zone, parse_instant};
