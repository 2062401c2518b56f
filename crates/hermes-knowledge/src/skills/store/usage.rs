//! When skills were created, loaded, changed and used with success: `skills/.usage.json`.
//!
//! The file is a mapping from names to records; keys that this release does not know are kept. It is data for people
//! and proposals, so that a failure to write it fails nothing.

use std::fs;

use hermes_config::lock::{FileLock, LockTimeout};
use hermes_config::{Home, write};
use hermes_types::Timestamp;
use serde_json::{Map, Value, json};

use super::data_folder;
use super::history::iso_time;

const FILE: &str = "skills/.usage.json";

/// Something that happened to a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillUsageEvent<'a> {
    Created {
        by: &'a str,
    },
    /// It was loaded by the model or called by the user.
    Loaded,
    Patched,
    /// A turn that loaded it came to its end.
    Succeeded,
    Deleted,
}

/// What is known about the use of a skill. Times are ISO 8601.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillUsage {
    pub created_by: Option<String>,
    pub created_at: Option<String>,
    pub use_count: u64,
    pub last_used_at: Option<String>,
    pub success_count: u64,
    pub last_success_at: Option<String>,
    pub patch_count: u64,
    /// Set if the curator leaves it alone.
    pub pinned: bool,
    pub last_patched_at: Option<String>,
}

impl SkillUsage {
    /// Returns the last time anything happened.
    pub fn last_activity(&self) -> Option<&str> {
        [&self.created_at, &self.last_used_at, &self.last_patched_at]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .max()
    }
}

/// Records an event. A home that cannot be written keeps what it has.
pub fn record_skill_usage(home: &Home, name: &str, event: SkillUsageEvent<'_>, at: Timestamp) {
    record(home, name, event, at);
}

pub(super) fn record(home: &Home, name: &str, event: SkillUsageEvent<'_>, at: Timestamp) {
    if let Err(error) = try_record(home, name, event, at) {
        tracing::debug!(%error, skill = name, "the use of a skill was not recorded");
    }
}

fn try_record(
    home: &Home,
    name: &str,
    event: SkillUsageEvent<'_>,
    at: Timestamp,
) -> Result<(), hermes_config::Error> {
    home.folder("skills/.hub")?;
    let _lock = FileLock::acquire(&data_folder(home).join(".usage.lock"), LockTimeout::SETTINGS)?;
    let mut all = read_all(home);
    if event == SkillUsageEvent::Deleted {
        all.remove(name);
    } else {
        let entry = all.entry(name).or_insert_with(|| json!({}));
        if let Some(entry) = entry.as_object_mut() {
            apply(entry, event, &iso_time(at));
        }
    }
    let text = format!("{:#}\n", Value::Object(all));
    write::replace(&home.join(FILE), text.as_bytes())
}

/// Changes the record of a skill.
pub(super) fn change(
    home: &Home,
    name: &str,
    change: impl FnOnce(&mut Map<String, Value>),
) -> Result<(), hermes_config::Error> {
    home.folder("skills/.hub")?;
    let _lock = FileLock::acquire(&data_folder(home).join(".usage.lock"), LockTimeout::SETTINGS)?;
    let mut all = read_all(home);
    if let Some(entry) = all.entry(name).or_insert_with(|| json!({})).as_object_mut() {
        change(entry);
    }
    let text = format!("{:#}\n", Value::Object(all));
    write::replace(&home.join(FILE), text.as_bytes())
}

fn apply(entry: &mut Map<String, Value>, event: SkillUsageEvent<'_>, at: &str) {
    let count = |entry: &mut Map<String, Value>, key: &str| {
        let before = entry.get(key).and_then(Value::as_u64).unwrap_or_default();
        entry.insert(key.to_owned(), json!(before + 1));
    };
    let mut set = |key: &str, value: Value| drop(entry.insert(key.to_owned(), value));
    match event {
        SkillUsageEvent::Created { by } => {
            set("created_by", json!(by));
            set("created_at", json!(at));
        }
        SkillUsageEvent::Loaded => {
            set("last_used_at", json!(at));
            count(entry, "use_count");
        }
        SkillUsageEvent::Patched => {
            set("last_patched_at", json!(at));
            count(entry, "patch_count");
        }
        SkillUsageEvent::Succeeded => {
            set("last_success_at", json!(at));
            count(entry, "success_count");
        }
        SkillUsageEvent::Deleted => {}
    }
}

/// Returns what is known about a skill.
pub fn skill_usage(home: &Home, name: &str) -> SkillUsage {
    read_all(home).get(name).map(parse).unwrap_or_default()
}

/// Returns what is known about all skills.
pub fn all_skill_usage(home: &Home) -> Vec<(String, SkillUsage)> {
    read_all(home).iter().map(|(name, entry)| (name.clone(), parse(entry))).collect()
}

fn parse(entry: &Value) -> SkillUsage {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let count = |key: &str| entry.get(key).and_then(Value::as_u64).unwrap_or_default();
    SkillUsage {
        created_by: text("created_by"),
        created_at: text("created_at"),
        use_count: count("use_count"),
        last_used_at: text("last_used_at"),
        success_count: count("success_count"),
        last_success_at: text("last_success_at"),
        patch_count: count("patch_count"),
        pinned: entry.get("pinned") == Some(&Value::Bool(true)),
        last_patched_at: text("last_patched_at"),
    }
}

pub(super) fn read_all(home: &Home) -> Map<String, Value> {
    let text = fs::read_to_string(home.join(FILE)).unwrap_or_default();
    match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}
