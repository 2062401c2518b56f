//! Locks on what only one gateway of a machine may use, such as a bot's token: two pollers would take each
//! other's messages.
//!
//! The locks are files in a folder of the user, shared with other programs. Invariant: the file name reveals
//! nothing of the token, and a lock whose holder is gone can be taken.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hermes_config::{Env, user_home};
use hermes_types::{CivilTime, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::pid_file::{is_stopped_or_zombie, start_time};

/// The reason why a lock was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockError {
    /// Another gateway of this machine holds the lock.
    Held {
        pid: u64,
    },
    Io(String),
}

/// A lock that is held until dropped.
#[derive(Debug)]
pub struct ScopedLock {
    path: PathBuf,
}

impl Drop for ScopedLock {
    fn drop(&mut self) {
        // A file that is left over is recognized as stale.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the folder of this user's locks.
pub fn lock_folder(env: &Env) -> Option<PathBuf> {
    if let Some(folder) = env.get("HERMES_GATEWAY_LOCK_DIR") {
        return Some(PathBuf::from(folder));
    }
    let state = match env.get("XDG_STATE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => user_home(env).ok()?.join(".local/state"),
    };
    Some(state.join("hermes/gateway-locks"))
}

/// Takes the lock on `identity`, which is a secret and is not written anywhere.
pub fn lock(folder: &Path, scope: &str, identity: &str, now: Timestamp) -> Result<ScopedLock, LockError> {
    let io = |error: std::io::Error| LockError::Io(format!("{}: {error}", folder.display()));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io)?;
    let hash = short_hash(identity);
    let path = folder.join(format!("{scope}-{hash}.lock"));
    let pid = std::process::id();
    let record = json!({
        "pid": pid,
        "kind": "hermes-gateway",
        "argv": std::env::args().collect::<Vec<_>>(),
        "start_time": start_time(pid),
        "scope": scope,
        "identity_hash": hash,
        "metadata": {},
        "updated_at": format!("{}+00:00", CivilTime::utc(now)),
    });
    // Two attempts: the first may find the lock of a dead process.
    for _ in 0..2 {
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        match created {
            Ok(mut file) => {
                file.write_all(record.to_string().as_bytes()).map_err(io)?;
                return Ok(ScopedLock { path });
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match holder(&path) {
                Some(holder) if holder != u64::from(pid) => return Err(LockError::Held { pid: holder }),
                _ => fs::remove_file(&path).or_else(ignore_missing).map_err(io)?,
            },
            Err(error) => return Err(io(error)),
        }
    }
    Err(LockError::Io(format!("{} changes under our hands", path.display())))
}

fn ignore_missing(error: std::io::Error) -> Result<(), std::io::Error> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Returns the live process that holds a lock.
fn holder(path: &Path) -> Option<u64> {
    let record: Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let pid = record.get("pid").and_then(Value::as_u64)?;
    let number = u32::try_from(pid).ok()?;
    let began = start_time(number)?;
    let recorded = record.get("start_time").and_then(Value::as_u64);
    let same = recorded.is_none_or(|recorded| recorded == began);
    (same && !is_stopped_or_zombie(number)).then_some(pid)
}

fn short_hash(identity: &str) -> String {
    let digest = Sha256::digest(identity.as_bytes());
    let mut hex = String::new();
    for byte in digest.iter().take(8) {
        // Writing to a `String` cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_767_323_045.0);

    #[test]
    fn one_holder_at_a_time_and_none_when_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(folder.path(), "telegram-bot-token", "123:secret", NOW).unwrap();
        let name = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().file_name();
        let name = name.to_string_lossy().into_owned();
        assert_eq!(name, format!("telegram-bot-token-{}.lock", short_hash("123:secret")));
        let text = fs::read_to_string(folder.path().join(&name)).unwrap();
        assert!(!text.contains("secret"), "{text}");
        drop(held);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn one_that_ended_and_was_not_waited_for_holds_nothing() {
        #[expect(clippy::disallowed_methods, reason = "the test needs a process that has ended")]
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while !is_stopped_or_zombie(child.id()) {
            std::thread::yield_now();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("s-{}.lock", short_hash("id")));
        let dead = json!({"pid": child.id(), "start_time": start_time(child.id())});
        fs::write(&path, dead.to_string()).unwrap();
        assert!(lock(folder.path(), "s", "id", NOW).is_ok());
        child.wait().unwrap();
    }

    #[test]
    fn a_lock_of_the_living_holds_and_one_of_the_dead_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("s-{}.lock", short_hash("id")));
        let init = json!({"pid": 1, "start_time": start_time(1)});
        fs::write(&path, init.to_string()).unwrap();
        assert_eq!(lock(folder.path(), "s", "id", NOW).unwrap_err(), LockError::Held { pid: 1 });
        for dead in ["", "{}", "{\"pid\": 2147483646}", "{\"pid\": 1, \"start_time\": 5}"] {
            fs::write(&path, dead).unwrap();
            assert!(lock(folder.path(), "s", "id", NOW).is_ok(), "{dead}");
        }
    }
}
