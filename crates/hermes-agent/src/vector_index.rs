//! The vectors of what was said: computed in the background after turns, compared before them.
//!
//! Invariants: no turn waits for a vector of a message, at most one pass runs at a time, and a failing endpoint is said
//! once and left alone for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_store::{Error, RecallScope, SimilarMessage, Store, UnindexedMessage};
use hermes_types::{Cancel, Clock, MessageId, TextEmbedder};

/// The most messages in one request.
const MOST_AT_ONCE: usize = 64;
/// The most requests in one pass; the next turn begins the next pass.
const MOST_REQUESTS: usize = 16;
/// How long a failing endpoint is left alone.
const PAUSE: Duration = Duration::from_mins(5);
/// The most statements that are compared with those found by words.
const MOST_SIMILAR: usize = 40;

/// The vectors of a home.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct VectorIndex {
    embedder: Arc<dyn TextEmbedder>,
    store: Store,
    clock: Arc<dyn Clock>,
    cancel: Cancel,
    pub(crate) min_similarity: f64,
    is_running: AtomicBool,
    state: Mutex<VectorIndexState>,
}

#[derive(Default)]
struct VectorIndexState {
    /// Until when, on the monotonic clock, the endpoint is left alone.
    paused_until: Option<Duration>,
    was_told: bool,
    notice: Option<String>,
}

impl VectorIndex {
    pub fn new(
        embedder: Arc<dyn TextEmbedder>,
        store: Store,
        clock: Arc<dyn Clock>,
        min_similarity: f64,
        cancel: Cancel,
    ) -> Self {
        let (is_running, state) = (AtomicBool::new(false), Mutex::default());
        Self { embedder, store, clock, cancel, min_similarity, is_running, state }
    }

    /// Computes the vectors that are missing, in the background. Must be called within a runtime.
    pub fn update_later(self: &Arc<Self>) {
        if self.is_paused() || self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let index = self.clone();
        hermes_task::spawn_named("memory-vectors", &self.cancel, async move {
            index.update().await;
            index.is_running.store(false, Ordering::Release);
        });
    }

    /// Computes vectors that are missing, up to the bound of one pass. Returns how many were stored.
    pub async fn update(&self) -> usize {
        let mut stored = 0;
        for _ in 0..MOST_REQUESTS {
            match self.update_some().await {
                Ok(0) => break,
                Ok(count) => stored += count,
                Err(reason) => {
                    self.note_failure(&reason);
                    break;
                }
            }
        }
        stored
    }

    async fn update_some(&self) -> Result<usize, String> {
        let model = self.embedder.model();
        let missing = self.store.messages_without_vectors(model, MOST_AT_ONCE).await;
        let missing: Vec<UnindexedMessage> = missing.map_err(|error| error.to_string())?;
        if missing.is_empty() {
            return Ok(0);
        }
        let texts = missing.iter().map(|message| message.text.clone()).collect();
        let vectors = self.embedder.embed(texts).await.map_err(|error| error.to_string())?;
        if vectors.len() != missing.len() {
            return Err("the endpoint returned another number of vectors".to_owned());
        }
        let count = vectors.len();
        let rows: Vec<(MessageId, Vec<f32>)> =
            missing.into_iter().map(|message| message.id).zip(vectors).collect();
        self.store.store_vectors(model, rows).await.map_err(|error| error.to_string())?;
        Ok(count)
    }

    /// Finds statements that mean something like a text.
    pub(crate) async fn similar(
        &self,
        text: &str,
        allowed: RecallScope,
    ) -> Result<Vec<SimilarMessage>, Error> {
        if self.is_paused() {
            return Ok(Vec::new());
        }
        let vector = match self.embedder.embed(vec![text.to_owned()]).await {
            Ok(vectors) => vectors.into_iter().next().unwrap_or_default(),
            Err(error) => {
                self.note_failure(&error.to_string());
                return Ok(Vec::new());
            }
        };
        self.store.similar_messages(self.embedder.model(), &vector, allowed, MOST_SIMILAR).await
    }

    fn is_paused(&self) -> bool {
        let now = self.clock.monotonic();
        self.state().paused_until.is_some_and(|until| now < until)
    }

    fn note_failure(&self, reason: &str) {
        tracing::warn!(reason, "no vectors are computed for a while");
        let mut state = self.state();
        state.paused_until = Some(self.clock.monotonic() + PAUSE);
        if !state.was_told {
            state.was_told = true;
            state.notice =
                Some(format!("Recall by meaning does not work: {reason}. Recall by words goes on"));
        }
    }

    pub(crate) fn take_notice(&self) -> Option<String> {
        self.state().notice.take()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, VectorIndexState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
