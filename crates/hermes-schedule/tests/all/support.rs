//! Helpers that the tests of this crate share.

use std::path::PathBuf;

use hermes_config::Home;
use hermes_schedule::{Job, JobStore, NewJob, Schedule, Zone, parse, parse_instant};
use hermes_types::Timestamp;
use tempfile::TempDir;

pub(crate) fn at(text: &str) -> Timestamp {
    parse_instant(text).unwrap_or_else(|| panic!("{text}"))
}

pub(crate) fn zone(name: &str) -> Zone {
    Zone::named(name).unwrap()
}

/// Returns the current time of the tests, a Wednesday.
pub(crate) fn now() -> Timestamp {
    at("2026-03-04T10:07:30+00:00")
}

pub(crate) fn schedule(text: &str) -> Schedule {
    parse(text, now(), zone("UTC")).unwrap()
}

/// Returns the next times of a schedule as wall-clock times of a zone.
pub(crate) fn next(text: &str, from: &str, zone: Zone, count: usize) -> Vec<String> {
    let from = at(from);
    let schedule = parse(text, from, zone).unwrap();
    let mut times = Vec::new();
    let mut last = from;
    for _ in 0..count {
        let Some(next) = schedule.next(Some(last), last, zone) else { break };
        times.push(zone.iso(next));
        last = next;
    }
    times
}

pub(crate) struct JobsFixture {
    pub(crate) folder: TempDir,
    pub(crate) jobs: JobStore,
}

impl JobsFixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let jobs = JobStore::new(Home::new(folder.path()), zone("UTC"));
        Self { folder, jobs }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("cron/jobs.json")
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::create_dir_all(self.folder.path().join("cron")).unwrap();
        std::fs::write(self.file(), text).unwrap();
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    pub(crate) fn create(&self, schedule: &str) -> Job {
        self.jobs.create(new(schedule), now()).unwrap()
    }
}

pub(crate) fn new(schedule: &str) -> NewJob {
    NewJob { prompt: "look at the mail".into(), schedule: schedule.into(), ..NewJob::default() }
}
