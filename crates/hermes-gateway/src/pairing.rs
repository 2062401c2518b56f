//! Pairing codes by which an unknown user gets access.
//!
//! The files have the format of existing homes, one pair per platform. Invariants: a code comes from the system's
//! random number generator, is never logged and expires after an hour; after a few wrong codes, further attempts
//! are locked out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use hermes_config::lock::{FileLock, LockTimeout};
use hermes_config::{Home, write};
use hermes_types::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Letters and digits that are not mistaken for one another.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const LENGTH: usize = 8;
const VALID_FOR: f64 = 3600.0;
const BETWEEN_REQUESTS: f64 = 600.0;
/// The number of pending requests beyond which the oldest is dropped, so that strangers cannot block others.
const MAX_PENDING: usize = 100;
const MAX_FAILURES: u64 = 5;
const LOCKED_FOR: f64 = 3600.0;

/// A pending request for access.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairingRequest {
    pub user_id: String,
    #[serde(default)]
    pub user_name: Option<String>,
    pub created_at: f64,
    /// The hash of the code, as newer programs store it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    salt: Option<String>,
}

/// A user who was approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovedUser {
    #[serde(default)]
    pub user_name: Option<String>,
    pub approved_at: f64,
}

/// The reason why no code was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeRefusal {
    LockedOut,
    TooSoon,
}

/// The result of entering a code.
#[derive(Debug, Clone, PartialEq)]
pub enum PairingResult {
    Approved { user_id: String, user_name: Option<String> },
    UnknownCode,
    LockedOut,
}

/// The pending and approved users of all platforms. Cheap to clone; every call reads the files, because other
/// processes change them too.
#[derive(Debug, Clone)]
pub struct PairingStore {
    home: Home,
    folder: PathBuf,
}

type PendingRequests = BTreeMap<String, PairingRequest>;
type ApprovedUsers = BTreeMap<String, ApprovedUser>;
type PairingLimits = BTreeMap<String, Value>;

impl PairingStore {
    pub fn new(home: &Home) -> Self {
        Self { home: home.clone(), folder: home.pairing() }
    }

    pub fn is_approved(&self, platform: &str, user_id: &str) -> bool {
        self.approved_users(platform).contains_key(user_id)
    }

    /// Issues a new code for a user, or returns why there is none.
    pub fn request(
        &self,
        platform: &str,
        user_id: &str,
        user_name: Option<&str>,
        now: Timestamp,
    ) -> hermes_config::Result<Result<String, CodeRefusal>> {
        let _lock = self.lock()?;
        let now = now.seconds();
        let mut pending = self.valid_pending(platform, now);
        let mut limits = self.limits();
        if is_locked(&limits, platform, now) {
            return Ok(Err(CodeRefusal::LockedOut));
        }
        let asked = format!("{platform}:{user_id}");
        let last = limits.get(&asked).and_then(Value::as_f64);
        if last.is_some_and(|last| now - last < BETWEEN_REQUESTS) {
            return Ok(Err(CodeRefusal::TooSoon));
        }
        // A new request replaces the user's earlier one, so that nobody takes more than one entry.
        pending.retain(|_, request| request.user_id != user_id);
        while pending.len() >= MAX_PENDING {
            let oldest = pending.iter().min_by(|a, b| a.1.created_at.total_cmp(&b.1.created_at));
            let Some(oldest) = oldest.map(|(code, _)| code.clone()) else { break };
            pending.remove(&oldest);
        }
        let Some(code) = random_code() else { return Ok(Err(CodeRefusal::LockedOut)) };
        let request = PairingRequest {
            user_id: user_id.to_owned(),
            user_name: user_name.map(str::to_owned),
            created_at: now,
            hash: None,
            salt: None,
        };
        pending.insert(code.clone(), request);
        limits.insert(asked, Value::from(now));
        save(&self.pending_file(platform), &pending)?;
        save(&self.limits_file(), &limits)?;
        Ok(Ok(code))
    }

    /// Approves a user by their code.
    pub fn approve(
        &self,
        platform: &str,
        code: &str,
        now: Timestamp,
    ) -> hermes_config::Result<PairingResult> {
        let _lock = self.lock()?;
        let now = now.seconds();
        let mut limits = self.limits();
        if is_locked(&limits, platform, now) {
            return Ok(PairingResult::LockedOut);
        }
        let mut pending = self.valid_pending(platform, now);
        let code = code.trim().to_uppercase();
        let Some(key) = find(&pending, &code) else {
            record_failure(&mut limits, platform, now);
            save(&self.limits_file(), &limits)?;
            return Ok(PairingResult::UnknownCode);
        };
        let Some(request) = pending.remove(&key) else { return Ok(PairingResult::UnknownCode) };
        let mut people = self.approved_users(platform);
        let person = ApprovedUser { user_name: request.user_name.clone(), approved_at: now };
        people.insert(request.user_id.clone(), person);
        // The user is saved first: a code that is left over can only approve the same user again.
        save(&self.approved_file(platform), &people)?;
        save(&self.pending_file(platform), &pending)?;
        Ok(PairingResult::Approved { user_id: request.user_id, user_name: request.user_name })
    }

    /// Revokes a user's access. Returns whether they had it.
    pub fn revoke(&self, platform: &str, user_id: &str) -> hermes_config::Result<bool> {
        let _lock = self.lock()?;
        let mut people = self.approved_users(platform);
        if people.remove(user_id).is_none() {
            return Ok(false);
        }
        save(&self.approved_file(platform), &people)?;
        Ok(true)
    }

    /// Drops every pending request. Returns their number.
    pub fn clear_pending(&self, now: Timestamp) -> hermes_config::Result<usize> {
        let _lock = self.lock()?;
        let mut count = 0;
        for platform in self.platforms("-pending.json") {
            count += self.valid_pending(&platform, now.seconds()).len();
            save(&self.pending_file(&platform), &PendingRequests::new())?;
        }
        Ok(count)
    }

    /// Returns the pending requests: platform, code, request.
    pub fn pending(&self, now: Timestamp) -> Vec<(String, String, PairingRequest)> {
        let of = |platform: String| {
            let pending = self.valid_pending(&platform, now.seconds());
            pending.into_iter().map(move |(code, request)| (platform.clone(), code, request))
        };
        self.platforms("-pending.json").into_iter().flat_map(of).collect()
    }

    /// Returns all approved users: platform, id, user.
    pub fn approved(&self) -> Vec<(String, String, ApprovedUser)> {
        let of = |platform: String| {
            let people = self.approved_users(&platform);
            people.into_iter().map(move |(id, person)| (platform.clone(), id, person))
        };
        self.platforms("-approved.json").into_iter().flat_map(of).collect()
    }

    fn platforms(&self, ending: &str) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(ending).map(str::to_owned))
            .collect();
        names.sort_unstable();
        names
    }

    fn lock(&self) -> hermes_config::Result<FileLock> {
        self.home.folder(&self.folder)?;
        FileLock::acquire(&self.folder.join(".lock"), LockTimeout::SETTINGS)
    }

    fn valid_pending(&self, platform: &str, now: f64) -> PendingRequests {
        let mut pending: PendingRequests = read(&self.pending_file(platform));
        pending.retain(|_, request| now - request.created_at < VALID_FOR);
        pending
    }

    fn approved_users(&self, platform: &str) -> ApprovedUsers {
        read(&self.approved_file(platform))
    }

    fn limits(&self) -> PairingLimits {
        read(&self.limits_file())
    }

    fn pending_file(&self, platform: &str) -> PathBuf {
        self.folder.join(format!("{platform}-pending.json"))
    }

    fn approved_file(&self, platform: &str) -> PathBuf {
        self.folder.join(format!("{platform}-approved.json"))
    }

    fn limits_file(&self) -> PathBuf {
        self.folder.join("_rate_limits.json")
    }
}

fn save<T: Serialize>(path: &Path, value: &T) -> hermes_config::Result<()> {
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| "{}".to_owned());
    write::replace(path, text.as_bytes())
}

fn read<T: DeserializeOwned + Default>(path: &Path) -> T {
    let Ok(text) = fs::read_to_string(path) else { return T::default() };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        tracing::warn!(file = %path.display(), %error, "this file cannot be read; the users in it are denied");
        T::default()
    })
}

/// Finds a request by the code itself or by its hash.
fn find(pending: &PendingRequests, code: &str) -> Option<String> {
    let matches = |(key, request): &(&String, &PairingRequest)| match (&request.hash, &request.salt) {
        (Some(hash), Some(salt)) => {
            let mut digest = Sha256::new();
            digest.update(HEXLOWER_PERMISSIVE.decode(salt.as_bytes()).unwrap_or_default());
            digest.update(code.as_bytes());
            is_equal(&HEXLOWER.encode(&digest.finalize()), hash)
        }
        _ => is_equal(key, code),
    };
    pending.iter().find(matches).map(|(key, _)| key.clone())
}

/// Compares in constant time, so that the duration does not tell how much was right.
fn is_equal(left: &str, right: &str) -> bool {
    bool::from(left.as_bytes().ct_eq(right.as_bytes()))
}

fn is_locked(limits: &PairingLimits, platform: &str, now: f64) -> bool {
    limits.get(&format!("_lockout:{platform}")).and_then(Value::as_f64).is_some_and(|until| now < until)
}

fn record_failure(limits: &mut PairingLimits, platform: &str, now: f64) {
    let key = format!("_failures:{platform}");
    let failures = limits.get(&key).and_then(Value::as_u64).unwrap_or(0) + 1;
    if failures >= MAX_FAILURES {
        limits.insert(format!("_lockout:{platform}"), Value::from(now + LOCKED_FOR));
        limits.insert(key, Value::from(0));
    } else {
        limits.insert(key, Value::from(failures));
    }
}

/// Generates a code. Returns `None` when the system provides no random numbers; then nobody can be paired.
fn random_code() -> Option<String> {
    let mut bytes = [0_u8; LENGTH];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok()?;
    (filled == LENGTH).then(|| {
        bytes
            .iter()
            .filter_map(|byte| ALPHABET.get(usize::from(byte % 32)))
            .map(|byte| char::from(*byte))
            .collect()
    })
}
