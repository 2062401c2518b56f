//! A job as `jobs.json` stores it.

use std::fmt;

use hermes_types::{Timestamp, random_hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schedule::Schedule;
use crate::zone::parse_instant;

/// A job's id: 12 lower-case hex digits, although other programs may have written something else.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(String);

impl JobId {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn generate() -> Self {
        Self(random_hex(12))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether a text has the format of an id.
    pub fn has_id_format(text: &str) -> bool {
        text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A job. The fields are in the order in which they are written; unknown fields are kept after them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub prompt: Option<String>,
    #[serde(default)]
    pub skills: Option<Vec<String>>,
    /// The first skill, for older releases that read the file.
    #[serde(default)]
    pub skill: Option<String>,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub provider: Option<String>,
    #[serde(default)]
    pub base_url: Option<String>,
    pub schedule: Schedule,
    #[serde(default)]
    pub schedule_display: Option<String>,
    #[serde(default)]
    pub repeat: Option<JobRepeat>,
    #[serde(default)]
    pub enabled: Option<bool>,
    #[serde(default)]
    pub state: Option<String>,
    #[serde(default)]
    pub paused_at: Option<String>,
    #[serde(default)]
    pub paused_reason: Option<String>,
    #[serde(default)]
    pub created_at: Option<String>,
    #[serde(default)]
    pub next_run_at: Option<String>,
    #[serde(default)]
    pub last_run_at: Option<String>,
    #[serde(default)]
    pub last_status: Option<String>,
    #[serde(default)]
    pub last_error: Option<String>,
    /// The delivery targets: a string, or the list that newer releases write.
    #[serde(default)]
    pub deliver: Option<Value>,
    #[serde(default)]
    pub origin: Option<JobOrigin>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The limit on the number of runs, and the count of completed runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobRepeat {
    /// The number of runs; absent means no limit.
    #[serde(default)]
    pub times: Option<u64>,
    #[serde(default)]
    pub completed: u64,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The chat a job was created in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobOrigin {
    pub platform: String,
    pub chat_id: String,
    #[serde(default)]
    pub chat_name: Option<String>,
    #[serde(default)]
    pub thread_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    Scheduled,
    Paused,
    Completed,
    /// The schedule gives no next time.
    Error,
}

impl JobState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Error => "error",
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunStatus {
    Ok,
    Failed(String),
}

impl Job {
    pub fn name(&self) -> &str {
        self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or("cron job")
    }

    pub fn prompt(&self) -> &str {
        self.prompt.as_deref().unwrap_or_default()
    }

    /// Returns the job's skills; files of older releases have at most one.
    pub fn skills(&self) -> Vec<String> {
        match &self.skills {
            Some(skills) => skills.clone(),
            None => self.skill.iter().filter(|skill| !skill.trim().is_empty()).cloned().collect(),
        }
    }

    pub(crate) fn set_skills(&mut self, skills: Vec<String>) {
        self.skill = skills.first().cloned();
        self.skills = Some(skills);
    }

    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }

    pub fn state(&self) -> &str {
        let usual = if self.is_enabled() { JobState::Scheduled } else { JobState::Paused };
        self.state.as_deref().unwrap_or(usual.as_str())
    }

    pub fn is_paused(&self) -> bool {
        self.state() == JobState::Paused.as_str()
    }

    pub(crate) fn set_state(&mut self, state: JobState) {
        self.state = Some(state.as_str().to_owned());
    }

    pub fn display(&self) -> &str {
        self.schedule_display.as_deref().or(self.schedule.display()).unwrap_or("N/A")
    }

    /// Returns the delivery targets as they are written.
    pub fn deliver(&self) -> String {
        match &self.deliver {
            Some(Value::String(text)) if !text.trim().is_empty() => text.trim().to_owned(),
            Some(list @ Value::Array(_)) => list.to_string(),
            _ => "local".to_owned(),
        }
    }

    pub fn next_run(&self) -> Option<Timestamp> {
        self.next_run_at.as_deref().and_then(parse_instant)
    }

    pub fn last_run(&self) -> Option<Timestamp> {
        self.last_run_at.as_deref().and_then(parse_instant)
    }

    /// Tells whether the job consists of its script alone, without a prompt for a model.
    pub fn is_script_only(&self) -> bool {
        self.more.get("no_agent") == Some(&Value::Bool(true))
    }

    /// Returns the toolsets that the job names, if it names any.
    pub fn toolsets(&self) -> Option<Vec<String>> {
        let names = self.more.get("enabled_toolsets")?.as_array()?;
        let names: Vec<String> = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        (!names.is_empty()).then_some(names)
    }

    /// Returns a field of newer releases as text.
    pub fn extra(&self, name: &str) -> Option<&str> {
        self.more.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}
