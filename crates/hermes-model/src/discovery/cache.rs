//! Cached responses on disk, dated by their files.
//!
//! A file's modification time is when its response was fetched, by our clock. A time in the future counts as
//! missing: the clock was wrong then, or is now. A failed fetch is not repeated for five minutes; meanwhile the
//! stale copy is used.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use hermes_config::{Home, write};
use hermes_types::{Cancel, Timestamp};
use sha2::{Digest as _, Sha256};

use super::LIST_TTL;
use super::models::ListFreshness;
use super::query::{DiscoveryQuery, QueryError};
use crate::credential::CredentialContext;

const FAILURE_COOLDOWN: Duration = Duration::from_mins(5);

/// The recent failures, by file.
#[derive(Debug, Default)]
pub(super) struct ModelListCache {
    failed: Mutex<HashMap<PathBuf, Duration>>,
}

impl ModelListCache {
    /// Returns the copy on disk while it is fresh, else a new response, else the stale copy.
    pub(super) async fn fetch(
        &self,
        means: &CredentialContext,
        path: &Path,
        question: DiscoveryQuery,
        cancel: &Cancel,
    ) -> Option<Vec<u8>> {
        self.try_fetch(means, path, question, ListFreshness::Recent, cancel).await.ok()
    }

    /// Does the same as `fetch`, but returns the reason when there is nothing at all.
    pub(super) async fn try_fetch(
        &self,
        means: &CredentialContext,
        path: &Path,
        question: DiscoveryQuery,
        wanted: ListFreshness,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, QueryError> {
        let fresh = age(path, means.clock.now()).is_some_and(|age| age < LIST_TTL);
        let stale = || std::fs::read(path).map_err(|_| QueryError::Unreachable);
        if wanted == ListFreshness::Recent && (fresh || self.has_failed(path, means.clock.monotonic())) {
            return stale();
        }
        match question.send(means, cancel).await {
            Ok(body) => {
                write_copy(path, &body, means.clock.now());
                Ok(body)
            }
            Err(silence) => {
                // A cancellation says nothing about the server.
                if !cancel.is_cancelled() {
                    self.failed().insert(path.to_owned(), means.clock.monotonic());
                }
                stale().map_err(|_| silence)
            }
        }
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Duration>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_failed(&self, path: &Path, now: Duration) -> bool {
        self.failed().get(path).is_some_and(|then| now.saturating_sub(*then) < FAILURE_COOLDOWN)
    }
}

/// Returns the cache file of the list at a URL. The name contains no part of the URL, which may contain a secret.
pub(super) fn list_path(home: &Home, url: &str) -> Option<PathBuf> {
    let mut name = String::new();
    for byte in Sha256::digest(url.as_bytes()).iter().take(12) {
        // Writing to a `String` cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    match home.folder("cache/models") {
        Ok(folder) => Some(folder.join(format!("{name}.json"))),
        Err(error) => {
            tracing::debug!(%error, "lists of models are not kept");
            None
        }
    }
}

fn age(path: &Path, now: Timestamp) -> Option<Duration> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let then = Timestamp(modified.as_secs_f64());
    (then.seconds() <= now.seconds() + 1.0).then(|| now.since(then))
}

fn write_copy(path: &Path, body: &[u8], now: Timestamp) {
    let dated = Duration::try_from_secs_f64(now.seconds()).unwrap_or_default();
    let kept = write::replace(path, body).map_err(|error| error.to_string()).and_then(|()| {
        let file = File::options().write(true).open(path).map_err(|error| error.to_string())?;
        file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + dated)).map_err(|error| error.to_string())
    });
    if let Err(error) = kept {
        tracing::debug!(path = %path.display(), %error, "an answer is not kept");
    }
}
