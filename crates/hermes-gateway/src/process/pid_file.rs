//! `gateway.pid` and `gateway.lock`.
//!
//! Invariant: the process that holds the lock is the gateway of this home; the pid file is only information for
//! others.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use hermes_config::{Home, write};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

/// The error when another gateway runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlreadyRunning {
    /// The pid of that gateway, if known.
    pub pid: Option<u32>,
}

/// The exclusive claim on a home, held until dropped.
#[derive(Debug)]
pub struct HomeClaim {
    _lock: File,
    file: PathBuf,
}

/// Claims the home until the claim is dropped or this process ends.
pub fn claim(home: &Home, argv: &[String]) -> hermes_config::Result<Result<HomeClaim, AlreadyRunning>> {
    let path = home.join("gateway.lock");
    let opened =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
    let lock = opened.map_err(|source| hermes_config::Error::unwritable(&path, source))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(Err(AlreadyRunning { pid: running_pid(home) }));
    }
    // A gateway that does not use the lock has written only its pid.
    if let Some(pid) = running_pid(home) {
        return Ok(Err(AlreadyRunning { pid: Some(pid) }));
    }
    let file = home.join("gateway.pid");
    let pid = std::process::id();
    let record = json!({
        "pid": pid, "kind": "hermes-gateway", "argv": argv, "start_time": start_time(pid),
    });
    write::replace(&file, record.to_string().as_bytes())?;
    Ok(Ok(HomeClaim { _lock: lock, file }))
}

impl Drop for HomeClaim {
    fn drop(&mut self) {
        // A file that is left over is recognized as stale.
        let _ = fs::remove_file(&self.file);
    }
}

/// Returns the pid of this home's gateway, if one runs. Removes the file of a dead one.
pub fn running_pid(home: &Home) -> Option<u32> {
    let file = home.join("gateway.pid");
    let text = fs::read_to_string(&file).ok()?;
    let record: Value = serde_json::from_str(text.trim()).ok()?;
    let number = record.get("pid").and_then(Value::as_u64).or_else(|| record.as_u64());
    let pid = number.and_then(|pid| u32::try_from(pid).ok());
    if pid == Some(std::process::id()) {
        return None;
    }
    let alive = pid.filter(|pid| is_gateway(*pid, &record));
    if alive.is_none() {
        let _ = fs::remove_file(&file);
    }
    alive
}

/// Sends a signal to the gateway of this home and returns its pid.
pub fn signal_running(home: &Home, signal: Signal) -> Option<u32> {
    let pid = running_pid(home)?;
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    kill_process(number, signal).ok()?;
    Some(pid)
}

/// Tells whether the process is alive, the one that was recorded, and a gateway by its command line.
fn is_gateway(pid: u32, record: &Value) -> bool {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    if test_kill_process(number).is_err() {
        return false;
    }
    let recorded = record.get("start_time").and_then(Value::as_u64);
    let is_ours = record.get("kind").and_then(Value::as_str) == Some("hermes-gateway");
    match (recorded, start_time(pid)) {
        (Some(recorded), Some(now)) if recorded != now => return false,
        // The start time matches, so this is the process that wrote the file, whatever its program is called.
        (Some(_), Some(_)) if is_ours => return true,
        _ => {}
    }
    if let Ok(bytes) = fs::read(format!("/proc/{pid}/cmdline")) {
        return looks_like_gateway(&String::from_utf8_lossy(&bytes).replace('\0', " "));
    }
    let argv = record.get("argv").and_then(Value::as_array).into_iter().flatten();
    let argv: Vec<&str> = argv.filter_map(Value::as_str).collect();
    is_ours && looks_like_gateway(&argv.join(" "))
}

fn looks_like_gateway(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let named = |word: &&str| {
        let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("hermes"))
    };
    (words.contains(&"gateway") && words.iter().any(named))
        || line.contains("hermes_cli.main gateway")
        || line.contains("gateway/run.py")
}

/// Returns the start time of a process in the kernel's clock ticks.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    stat_field(pid, 19)?.parse().ok()
}

/// Tells whether a process no longer runs: stopped, as with Ctrl+Z, or a zombie.
pub(super) fn is_stopped_or_zombie(pid: u32) -> bool {
    stat_field(pid, 0).is_some_and(|state| matches!(state.as_str(), "T" | "t" | "Z" | "X"))
}

/// Returns a field of `/proc/<pid>/stat`, counted after the process name.
fn stat_field(pid: u32, field: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it is in brackets and may contain anything.
    stat.rsplit(')').next()?.split_whitespace().nth(field).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_has_one_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let first = claim(&home, &["hermes".into(), "gateway".into(), "run".into()]).unwrap().unwrap();
        assert!(claim(&home, &[]).unwrap().is_err());
        let text = fs::read_to_string(folder.path().join("gateway.pid")).unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["pid"], std::process::id());
        assert_eq!(record["kind"], "hermes-gateway");
        drop(first);
        assert!(!folder.path().join("gateway.pid").exists());
        assert!(claim(&home, &[]).unwrap().is_ok());
    }

    #[test]
    fn a_number_of_the_dead_is_swept_away() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path());
        let file = folder.path().join("gateway.pid");
        for text in ["2147483646", "{\"pid\": 2147483646}", "nonsense", "{\"pid\": 1, \"start_time\": 5}"] {
            fs::write(&file, text).unwrap();
            assert_eq!(running_pid(&home), None, "{text}");
        }
    }

    #[test]
    fn gateways_are_known_by_their_command_line() {
        assert!(looks_like_gateway("/usr/local/bin/hermes gateway run"));
        assert!(looks_like_gateway("python -m hermes_cli.main gateway run"));
        assert!(!looks_like_gateway("vim gateway.txt"));
        assert!(!looks_like_gateway("hermes chat"));
    }
}
