//! Requests without a key that acted and then came to nothing, for a minute.
//!
//! Client libraries repeat a request by themselves when its connection broke or its answer was a failure. Without a key such a
//! repeat is told by its bytes: the same body on the same path, soon after. Invariant: a request whose turn ended well, or
//! did nothing, is never taken for a repeat.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_types::{Clock, TurnId, TurnState};

use crate::app::App;
use crate::error::ApiError;
use crate::run;

/// How long a repeat is recognised.
const FOR: Duration = Duration::from_mins(1);
const MOST: usize = 10_000;

/// What is remembered.
#[derive(Default)]
pub(crate) struct Repeats {
    known: Arc<Mutex<HashMap<String, (TurnId, Duration)>>>,
}

/// A request that runs. When it is dropped before its end, its client has left.
pub(crate) struct Watched {
    known: Arc<Mutex<HashMap<String, (TurnId, Duration)>>>,
    clock: Arc<dyn Clock>,
    request: Option<(String, TurnId)>,
}

impl Repeats {
    pub(crate) fn watch(&self, fingerprint: String, turn: TurnId, clock: Arc<dyn Clock>) -> Watched {
        Watched { known: self.known.clone(), clock, request: Some((fingerprint, turn)) }
    }

    fn find(&self, fingerprint: &str, now: Duration) -> Option<TurnId> {
        let known = lock(&self.known);
        let (turn, at) = known.get(fingerprint)?;
        (now.saturating_sub(*at) < FOR).then(|| turn.clone())
    }
}

impl Watched {
    /// Notes how the request ended: only one that acted and failed is of interest.
    pub(crate) fn ended(&mut self, acted_and_failed: bool) {
        if let Some((fingerprint, turn)) = self.request.take().filter(|_| acted_and_failed) {
            self.note(fingerprint, turn);
        }
    }

    fn note(&self, fingerprint: String, turn: TurnId) {
        let now = self.clock.monotonic();
        let mut known = lock(&self.known);
        known.retain(|_, (_, at)| now.saturating_sub(*at) < FOR);
        if known.len() < MOST {
            known.insert(fingerprint, (turn, now));
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some((fingerprint, turn)) = self.request.take() {
            self.note(fingerprint, turn);
        }
    }
}

/// Refuses a request that repeats one which acted and came to nothing.
pub(crate) async fn refuse_repeat(app: &App, fingerprint: &str) -> Result<(), ApiError> {
    let Some(turn) = app.repeats.find(fingerprint, app.gateway.clock.monotonic()) else { return Ok(()) };
    let Some(past) = run::past_turn(app, &turn).await? else { return Ok(()) };
    match past.turn.state {
        // Its client has left, and it is being stopped.
        TurnState::Running => Err(run::in_use()),
        TurnState::Failed | TurnState::Interrupted | TurnState::Parked if past.has_acted() => {
            Err(ApiError::repeated(&past))
        }
        TurnState::Done | TurnState::Failed | TurnState::Interrupted | TurnState::Parked => Ok(()),
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
