//! `processes.json`: the running background processes, stored for the next start.
//!
//! Several programs may share one home, so records of other programs are kept while those run. A missing or
//! damaged file means that no process runs.

use std::fs;
use std::time::Duration;

use hermes_config::{Home, write};
use hermes_exec::RecoveredProcess;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::watch::{ExitNotice, WatchOptions};

/// The stored record of a running process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ProcessRecord {
    pub(super) session_id: String,
    #[serde(default)]
    pub(super) command: String,
    #[serde(default)]
    pub(super) pid: Option<u32>,
    #[serde(default)]
    pub(super) cwd: String,
    #[serde(default)]
    pub(super) started_at: f64,
    #[serde(default)]
    pub(super) task_id: String,
    #[serde(default)]
    pub(super) session_key: String,
    #[serde(default)]
    pub(super) watcher_interval: usize,
    /// Whether the end of the process is reported.
    #[serde(default)]
    pub(super) notify_on_complete: bool,
    /// The start time of the process as the kernel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pid_started: Option<u64>,
    /// The process id of the Hermes that manages it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner_pid: Option<u32>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl ProcessRecord {
    /// Returns the notices that were wanted of this process.
    pub(super) fn notices(&self) -> WatchOptions {
        WatchOptions {
            interval: (self.watcher_interval > 0).then(|| Duration::from_secs(self.watcher_interval as u64)),
            at_end: if self.notify_on_complete { ExitNotice::Notify } else { ExitNotice::Silent },
            patterns: Vec::new(),
        }
    }

    /// Tells whether another Hermes of this home still manages the process.
    pub(super) fn has_living_owner(&self) -> bool {
        self.owner_pid
            .is_some_and(|pid| pid != std::process::id() && RecoveredProcess::find(pid, None).is_some())
    }
}

pub(super) fn read(home: &Home) -> Vec<ProcessRecord> {
    let text = fs::read_to_string(home.processes()).unwrap_or_default();
    let values: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
    values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// Replaces the records of this program: `ours` are running, and all ids in `known` belong to it.
pub(super) fn write(home: &Home, ours: &[ProcessRecord], known: &[String]) -> hermes_config::Result<()> {
    let mut records: Vec<ProcessRecord> = read(home)
        .into_iter()
        .filter(|record| !known.contains(&record.session_id) && record.has_living_owner())
        .collect();
    records.extend(ours.iter().cloned());
    if records.is_empty() && !home.processes().exists() {
        return Ok(());
    }
    home.ensure()?;
    let text = serde_json::to_string_pretty(&records).unwrap_or_else(|_| "[]".to_owned());
    write::replace(&home.processes(), text.as_bytes())
}
