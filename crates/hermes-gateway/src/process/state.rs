//! `gateway_state.json`: the gateway's state, for other programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use hermes_config::{Home, write};
use hermes_types::{CivilTime, Timestamp, random_hex};
use serde::{Deserialize, Serialize};

/// The state of a platform.
#[derive(Debug, Clone, Serialize)]
pub struct PlatformState {
    /// The state's name: `connected`, `disconnected`, `fatal` or `retrying`.
    pub state: String,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
    pub updated_at: String,
}

#[derive(Debug, Clone, Serialize)]
struct StateDocument {
    pid: u32,
    /// A random id of this start of the gateway, whose pid may stay the same when it restarts.
    instance: String,
    kind: &'static str,
    argv: Vec<String>,
    /// The start time in the kernel's clock ticks; together with the pid it identifies the process.
    start_time: Option<u64>,
    #[serde(rename = "gateway_state")]
    phase: String,
    exit_reason: Option<String>,
    platforms: BTreeMap<String, PlatformState>,
    updated_at: String,
}

/// What the state file says about one start of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GatewayInstance {
    /// The id of that start; empty in files of other programs.
    #[serde(rename = "instance", default)]
    pub id: String,
    #[serde(rename = "gateway_state")]
    pub phase: String,
    #[serde(rename = "exit_reason", default)]
    pub reason: Option<String>,
    /// The command line, with the program's name.
    #[serde(default)]
    pub argv: Vec<String>,
}

/// Returns what the state file of a home says, if there is a readable one.
pub fn instance(home: &Home) -> Option<GatewayInstance> {
    serde_json::from_str(&std::fs::read_to_string(home.join("gateway_state.json")).ok()?).ok()
}

/// The state file, written in full at each change.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    state: Mutex<StateDocument>,
}

impl StateFile {
    pub fn new(home: &Home, now: Timestamp) -> Self {
        let state = StateDocument {
            pid: std::process::id(),
            instance: random_hex(16),
            kind: "hermes-gateway",
            argv: std::env::args().collect(),
            start_time: super::pid_file::start_time(std::process::id()),
            phase: "starting".to_owned(),
            exit_reason: None,
            platforms: BTreeMap::new(),
            updated_at: utc(now),
        };
        let file = Self { path: home.join("gateway_state.json"), state: Mutex::new(state) };
        file.change(now, |_| {});
        file
    }

    /// Sets the phase: `starting`, `running`, `draining`, `startup_failed` or `stopped`.
    pub fn set(&self, state: &str, reason: Option<String>, now: Timestamp) {
        self.change(now, |file| {
            state.clone_into(&mut file.phase);
            file.exit_reason = reason;
        });
    }

    pub fn platform(&self, name: &str, state: &str, error: Option<(&str, String)>, now: Timestamp) {
        let (error_code, error_message) = error.map(|(code, message)| (code.to_owned(), message)).unzip();
        let entry =
            PlatformState { state: state.to_owned(), error_code, error_message, updated_at: utc(now) };
        self.change(now, |file| {
            file.platforms.insert(name.to_owned(), entry);
        });
    }

    fn change(&self, now: Timestamp, change: impl FnOnce(&mut StateDocument)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        state.updated_at = utc(now);
        let text = serde_json::to_string_pretty(&*state).unwrap_or_default();
        if let Err(error) = write::replace(&self.path, text.as_bytes()) {
            tracing::warn!(%error, "the state of the gateway could not be written");
        }
    }
}

fn utc(at: Timestamp) -> String {
    format!("{}+00:00", CivilTime::utc(at))
}
