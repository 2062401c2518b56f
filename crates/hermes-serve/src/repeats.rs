//! Remembers, for a minute, requests without a key that called tools and then failed.
//!
//! Client libraries repeat a request when its connection broke or its response was a failure. Without a key such
//! a repeat is recognized by its bytes: the same body on the same path, soon after. Invariant: a request whose
//! turn succeeded, or called no tools, is never taken for a repeat.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_types::{Clock, TurnId, TurnState};

use crate::app::App;
use crate::error::ApiError;
use crate::run;

/// The time a repeat is recognized.
const REPEAT_WINDOW: Duration = Duration::from_mins(1);
const MAX_ENTRIES: usize = 10_000;

/// The remembered requests.
#[derive(Default)]
pub(crate) struct RepeatDetector {
    known: Arc<Mutex<HashMap<String, (TurnId, Duration)>>>,
}

/// A running request. When it is dropped before its end, its client has left.
pub(crate) struct TrackedRequest {
    known: Arc<Mutex<HashMap<String, (TurnId, Duration)>>>,
    clock: Arc<dyn Clock>,
    request: Option<(String, TurnId)>,
}

impl RepeatDetector {
    pub(crate) fn track(&self, fingerprint: String, turn: TurnId, clock: Arc<dyn Clock>) -> TrackedRequest {
        TrackedRequest { known: self.known.clone(), clock, request: Some((fingerprint, turn)) }
    }

    fn find(&self, fingerprint: &str, now: Duration) -> Option<TurnId> {
        let known = lock(&self.known);
        let (turn, at) = known.get(fingerprint)?;
        (now.saturating_sub(*at) < REPEAT_WINDOW).then(|| turn.clone())
    }
}

impl TrackedRequest {
    /// Records how the request ended: only one that called tools and failed is remembered.
    pub(crate) fn record_end(&mut self, acted_and_failed: bool) {
        if let Some((fingerprint, turn)) = self.request.take().filter(|_| acted_and_failed) {
            self.remember(fingerprint, turn);
        }
    }

    fn remember(&self, fingerprint: String, turn: TurnId) {
        let now = self.clock.monotonic();
        let mut known = lock(&self.known);
        known.retain(|_, (_, at)| now.saturating_sub(*at) < REPEAT_WINDOW);
        if known.len() < MAX_ENTRIES {
            known.insert(fingerprint, (turn, now));
        }
    }
}

impl Drop for TrackedRequest {
    fn drop(&mut self) {
        if let Some((fingerprint, turn)) = self.request.take() {
            self.remember(fingerprint, turn);
        }
    }
}

/// Rejects a request that repeats one which called tools and failed.
pub(crate) async fn refuse_repeat(app: &App, fingerprint: &str) -> Result<(), ApiError> {
    let Some(turn) = app.repeats.find(fingerprint, app.clock.monotonic()) else { return Ok(()) };
    let Some(past) = run::past_turn(app, &turn).await? else { return Ok(()) };
    match past.turn.state {
        // The client has left, and the turn is being stopped.
        TurnState::Running => Err(run::session_in_use()),
        TurnState::Failed | TurnState::Interrupted | TurnState::Parked if past.has_acted() => {
            Err(ApiError::repeated(&past))
        }
        TurnState::Done | TurnState::Failed | TurnState::Interrupted | TurnState::Parked => Ok(()),
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
