//! Approvals of shell hooks: `shell-hooks-allowlist.json`.
//!
//! An approval is for one command at one event, and for its script as it was: a script that was changed since is not
//! approved. Other releases read and write the same file; what they added is kept.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_config::lock::{FileLock, LockTimeout};
use hermes_config::{Env, Home, write};
use hermes_types::{CivilTime, Timestamp};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::shell_hook::ShellHook;

/// The longest script that is compared by its content.
const LONGEST_SCRIPT: u64 = 4 * 1024 * 1024;
const APPROVALS: &str = "approvals";

/// Says whether a hook may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookApprovalState {
    Approved,
    /// Its script was changed after the approval.
    Changed,
    Missing,
}

/// The file with the approvals.
#[derive(Debug, Clone)]
pub struct HookApprovals {
    path: PathBuf,
    entries: Vec<Value>,
    rest: Map<String, Value>,
}

impl HookApprovals {
    /// Reads the file. One that cannot be read approves nothing.
    pub fn load(home: &Home) -> Self {
        let path = home.shell_hooks_allowlist();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut rest = match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        };
        let entries = match rest.remove(APPROVALS) {
            Some(Value::Array(entries)) => entries,
            _ => Vec::new(),
        };
        Self { path, entries, rest }
    }

    pub fn state(&self, hook: &ShellHook, env: &Env) -> HookApprovalState {
        let Some(entry) = self.entries.iter().rev().find(|entry| is_for(entry, hook)) else {
            return HookApprovalState::Missing;
        };
        let script = script_of(hook, env);
        let same = match entry.get("script_sha256").and_then(Value::as_str) {
            Some(sum) => script.as_deref().and_then(sum_of).as_deref() == Some(sum),
            None => match entry.get("script_mtime_at_approval") {
                Some(Value::String(then)) => script.as_deref().and_then(modified_at).as_deref() == Some(then),
                // A command without a script of its own.
                _ => true,
            },
        };
        if same { HookApprovalState::Approved } else { HookApprovalState::Changed }
    }

    /// Returns when a hook was approved.
    pub fn approved_at(&self, hook: &ShellHook) -> Option<&str> {
        self.entries.iter().rev().find(|entry| is_for(entry, hook))?.get("approved_at")?.as_str()
    }

    /// Approves hooks, and writes the file.
    pub fn approve(
        home: &Home,
        hooks: &[&ShellHook],
        env: &Env,
        now: Timestamp,
    ) -> Result<(), hermes_config::Error> {
        let _lock = lock(home)?;
        let mut all = Self::load(home);
        for hook in hooks {
            all.entries.retain(|entry| !is_for(entry, hook));
            let script = script_of(hook, env);
            let mut entry = json!({
                "event": hook.event.name(),
                "command": hook.command,
                "approved_at": iso_time(now),
                "script_mtime_at_approval": script.as_deref().and_then(modified_at),
            });
            if let (Some(sum), Some(entry)) = (script.as_deref().and_then(sum_of), entry.as_object_mut()) {
                entry.insert("script_sha256".to_owned(), sum.into());
            }
            all.entries.push(entry);
        }
        all.write()
    }

    /// Removes the approvals of a command at all events, and returns how many there were.
    pub fn revoke(home: &Home, command: &str) -> Result<usize, hermes_config::Error> {
        let _lock = lock(home)?;
        let mut all = Self::load(home);
        let before = all.entries.len();
        all.entries.retain(|entry| entry.get("command").and_then(Value::as_str) != Some(command));
        let removed = before - all.entries.len();
        if removed > 0 {
            all.write()?;
        }
        Ok(removed)
    }

    fn write(self) -> Result<(), hermes_config::Error> {
        let Self { path, entries, mut rest } = self;
        rest.insert(APPROVALS.to_owned(), Value::Array(entries));
        write::replace(&path, format!("{:#}\n", Value::Object(rest)).as_bytes())
    }
}

fn lock(home: &Home) -> Result<FileLock, hermes_config::Error> {
    home.ensure()?;
    FileLock::acquire(&home.join(".shell-hooks.lock"), LockTimeout::SETTINGS)
}

fn is_for(entry: &Value, hook: &ShellHook) -> bool {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    text("event") == Some(hook.event.name()) && text("command") == Some(&hook.command)
}

/// Returns the first word that names a file by its path: the script itself, or the one an interpreter gets.
fn script_of(hook: &ShellHook, env: &Env) -> Option<PathBuf> {
    let words = hook.words(env)?;
    words.iter().filter(|word| word.contains('/')).map(PathBuf::from).find(|path| path.is_file())
}

fn sum_of(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok()?.len();
    let bytes = (size <= LONGEST_SCRIPT).then(|| fs::read(path).ok())??;
    Some(data_encoding::HEXLOWER.encode(&Sha256::digest(&bytes)))
}

fn modified_at(path: &Path) -> Option<String> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(iso_time(Timestamp(since.as_secs_f64().floor())))
}

fn iso_time(at: Timestamp) -> String {
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::utc(at);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}
