//! The same request twice is run once, also when this process dies in between.
//!
//! A request with a key is on disk before its turn begins, and closed with its answer. While it runs, repeats wait for the
//! same end. After a crash, a repeat gets the answer, goes on with the turn that was cut off, or hears that it was cut off
//! twice. Invariant: a turn with a key does not end with its client, because the key is how its answer is fetched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use hermes_store::{Horizon, KeyedRequest, RequestClaim};
use hermes_types::{Cancel, Frontend, Message, Timestamp, TurnId, TurnState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::app::App;
use crate::error::ApiError;
use crate::field::Object;
use crate::follow::Listener;
use crate::run::{self, Asked, Ran};
use crate::said::{Finish, Said};

/// How long an answer is given again.
const ANSWERED: Duration = Duration::from_mins(5);
/// How long a request that was cut off can be repeated; and, after a start, one that was answered before it.
const LEFT: Duration = Duration::from_hours(24);
const LONGEST_KEY: usize = 256;

/// The request as its client names it, if it does.
pub(crate) fn request(
    path: &str,
    headers: &HeaderMap,
    body: &Object,
    fields: &[&str],
) -> Result<Option<KeyedRequest>, ApiError> {
    let Some(given) = headers.get("idempotency-key").filter(|given| !given.is_empty()) else {
        return Ok(None);
    };
    let key = given.to_str().ok().filter(|key| key.len() <= LONGEST_KEY).ok_or_else(|| {
        let words = format!("Idempotency-Key must be at most {LONGEST_KEY} visible ASCII characters");
        ApiError::field("Idempotency-Key", words)
    })?;
    Ok(Some(KeyedRequest {
        path: path.to_owned(),
        key: key.to_owned(),
        fingerprint: fingerprint(body, fields),
    }))
}

fn fingerprint(body: &Object, fields: &[&str]) -> String {
    let mut digest = Sha256::new();
    for field in fields {
        digest.update(body.get(*field).unwrap_or(&Value::Null).to_string().as_bytes());
        digest.update([0]);
    }
    run::hex(&digest.finalize())
}

/// What is known of a request now; it is written down if that is nothing.
pub(crate) async fn claim(
    app: &App,
    request: &KeyedRequest,
    turn: &TurnId,
) -> Result<RequestClaim, ApiError> {
    let now = app.gateway.clock.now();
    Ok(app.gateway.store.claim_request(request, turn, horizon(now, app.started_at), now).await?)
}

/// Clients of a server that was away get their time to come back.
fn horizon(now: Timestamp, started: Timestamp) -> Horizon {
    let answered = if now.since(started) < ANSWERED { LEFT } else { ANSWERED };
    Horizon { answered: now.minus(answered), open: now.minus(LEFT) }
}

type Ended = Option<Result<Arc<Ran>, ApiError>>;

/// Requests with a key that are being worked on here.
#[derive(Default)]
pub(crate) struct Running {
    known: Mutex<HashMap<KeyedRequest, watch::Receiver<Ended>>>,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, HashMap<KeyedRequest, watch::Receiver<Ended>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of the request; and where to say it, for whoever came first.
    fn enter(&self, request: &KeyedRequest) -> (watch::Receiver<Ended>, Option<watch::Sender<Ended>>) {
        let mut known = self.lock();
        if let Some(ended) = known.get(request) {
            return (ended.clone(), None);
        }
        let (sender, ended) = watch::channel(None);
        known.insert(request.clone(), ended.clone());
        (ended, Some(sender))
    }
}

/// Takes a request out of the list however its work ends.
struct Leave {
    app: App,
    request: KeyedRequest,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.app.keyed.lock().remove(&self.request);
    }
}

/// Runs the request, or waits for the run it belongs to, or gives what that came to.
pub(crate) async fn once(
    app: &App,
    request: KeyedRequest,
    asked: Asked,
    listener: Listener,
    room: OwnedSemaphorePermit,
) -> Result<Arc<Ran>, ApiError> {
    let (mut ended, first) = app.keyed.enter(&request);
    match first {
        Some(told) => {
            let leave = Leave { app: app.clone(), request };
            drop(app.tasks.spawn_cooperative("an API turn with a key", move |cancel| async move {
                let _room = room;
                let ran = work(&leave.app, &leave.request, asked, &listener, &cancel).await;
                // Nobody may be waiting.
                told.send_replace(Some(ran.map(Arc::new)));
            }));
        }
        None => drop(listener),
    }
    let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
    ended.unwrap_or_else(|| Err(ApiError::internal("The turn ended unexpectedly")))
}

async fn work(
    app: &App,
    request: &KeyedRequest,
    asked: Asked,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<Ran, ApiError> {
    let turn = TurnId::generate();
    match claim(app, request, &turn).await? {
        RequestClaim::New => {
            let ran = run::turn(app, turn.clone(), asked, frontend, cancel).await;
            keep(app, &turn, ran).await
        }
        RequestClaim::Known { answer: Some(answer), .. } => load(app, &answer).await,
        RequestClaim::Known { turn: begun, answer: None } => {
            match go_on(app, &begun, &asked, frontend, cancel).await {
                Ok(None) => {
                    let store = &app.gateway.store;
                    if !store.pass_request_on(&begun, &turn, app.gateway.clock.now()).await? {
                        return Err(run::in_use());
                    }
                    let ran = run::turn(app, turn.clone(), asked, frontend, cancel).await;
                    keep(app, &turn, ran).await
                }
                Ok(Some(ran)) => keep(app, &begun, Ok(ran)).await,
                Err(error) => keep(app, &begun, Err(error)).await,
            }
        }
    }
}

/// Brings a turn to its end that this process has not begun. Nothing, when it has ended and came to nothing.
pub(crate) async fn go_on(
    app: &App,
    id: &TurnId,
    asked: &Asked,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<Option<Ran>, ApiError> {
    let Some(turn) = app.gateway.store.turn(id).await? else {
        return run::turn(app, id.clone(), asked.clone(), frontend, cancel).await.map(Some);
    };
    match turn.state {
        TurnState::Running => run::resume(app, &turn, asked, frontend, cancel).await.map(Some),
        TurnState::Done => run::find_ended(app, &turn).await.map(Some),
        TurnState::Parked => Err(ApiError::cut_off_twice()),
        TurnState::Failed | TurnState::Interrupted => Ok(None),
    }
}

/// An answer as it is kept: its messages are in the transcript.
#[derive(Serialize, Deserialize)]
struct Kept {
    said: Said,
    first: usize,
    end: usize,
}

/// Keeps an answer. A failure is none: the next request runs, unless the turn can still be gone on with.
async fn keep(app: &App, turn: &TurnId, ran: Result<Ran, ApiError>) -> Result<Ran, ApiError> {
    let store = &app.gateway.store;
    if let Some(ran) = ran.as_ref().ok().filter(|ran| ran.said.finish != Finish::Error) {
        let kept = Kept { said: ran.said.clone(), first: ran.first, end: ran.messages.len() };
        let text = serde_json::to_string(&kept).map_err(|error| ApiError::internal(error.to_string()))?;
        store.answer_request(turn, text, app.gateway.clock.now()).await?;
    } else {
        let state = store.turn(turn).await?.map(|turn| turn.state);
        if !matches!(state, Some(TurnState::Running | TurnState::Parked)) {
            store.forget_request(turn).await?;
        }
    }
    ran
}

async fn load(app: &App, text: &str) -> Result<Ran, ApiError> {
    let unreadable = |error: serde_json::Error| {
        ApiError::internal(format!("The answer kept under this Idempotency-Key cannot be read: {error}"))
    };
    let Kept { said, first, end } = serde_json::from_str(text).map_err(unreadable)?;
    let rows = app.gateway.store.transcript(&said.session).await?;
    let messages: Vec<Message> = rows.into_iter().take(end).map(|row| row.message).collect();
    Ok(Ran { said, first: first.min(messages.len()), messages })
}
