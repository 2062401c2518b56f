//! The same request twice is run once.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_types::Clock;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use crate::error::ApiError;
use crate::field::Object;
use crate::run::Ran;

const KEPT: Duration = Duration::from_mins(5);
const MOST: usize = 1000;

type Shared = Arc<OnceCell<Result<Arc<Ran>, ApiError>>>;

struct Known {
    fingerprint: String,
    at: Duration,
    answer: Shared,
}

/// Answers by the key their client gave them.
pub(crate) struct Answers {
    clock: Arc<dyn Clock>,
    known: Mutex<HashMap<String, Known>>,
}

impl Answers {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, known: Mutex::default() }
    }

    /// Runs the work, or gives what the same key and the same request came to before. Requests at the same time share
    /// one run.
    pub(crate) async fn once<F>(
        &self,
        key: Option<&str>,
        fingerprint: &str,
        work: impl FnOnce() -> F,
    ) -> Result<Arc<Ran>, ApiError>
    where
        F: Future<Output = Result<Ran, ApiError>>,
    {
        let Some(key) = key.filter(|key| !key.is_empty()) else { return work().await.map(Arc::new) };
        let answer = self.cell(key, fingerprint);
        let done = answer.get_or_init(|| async { work().await.map(Arc::new) }).await.clone();
        if done.is_err() {
            // A failure is no answer to keep: the next attempt runs.
            self.forget(key, &answer);
        }
        done
    }

    fn cell(&self, key: &str, fingerprint: &str) -> Shared {
        let now = self.clock.monotonic();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, entry| now.saturating_sub(entry.at) < KEPT);
        if let Some(entry) = known.get(key).filter(|entry| entry.fingerprint == fingerprint) {
            return entry.answer.clone();
        }
        while known.len() >= MOST {
            let oldest = known.iter().min_by_key(|(_, entry)| entry.at).map(|(key, _)| key.clone());
            match oldest {
                Some(oldest) => known.remove(&oldest),
                None => break,
            };
        }
        let answer = Shared::default();
        known.insert(
            key.to_owned(),
            Known { fingerprint: fingerprint.to_owned(), at: now, answer: answer.clone() },
        );
        answer
    }

    fn forget(&self, key: &str, answer: &Shared) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(key).is_some_and(|entry| Arc::ptr_eq(&entry.answer, answer)) {
            known.remove(key);
        }
    }
}

/// What makes two requests the same.
pub(crate) fn fingerprint(body: &Object, fields: &[&str]) -> String {
    let mut digest = Sha256::new();
    for field in fields {
        digest.update(body.get(*field).unwrap_or(&Value::Null).to_string().as_bytes());
        digest.update([0]);
    }
    let bytes = digest.finalize();
    bytes.iter().fold(String::new(), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    })
}
