//! Tests of schedules and of the job file.
#![expect(clippy::unwrap_used, reason = "a failure is what a test reports")]

mod clocks;
mod grammar;
mod jobs;
mod reading;
mod scanning;
mod screening;
mod support;
mod targets;
