//! Runs a repeated request once, also when this process dies in between.
//!
//! A request with a key is on disk before its turn begins, and closed with its answer. While it runs, repeats
//! wait for the same result. After a crash, a repeat gets the answer, resumes the turn that was cut off, or is
//! told that it was cut off twice. Invariant: a keyed turn does not end with its client, because the key is how
//! its answer is fetched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use data_encoding::HEXLOWER;
use hermes_store::{KeyedRequest, RequestClaim, RequestRetention};
use hermes_types::{Cancel, Frontend, Message, Timestamp, TurnId, TurnState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::app::App;
use crate::error::ApiError;
use crate::field::BodyObject;
use crate::follow::ApiFrontend;
use crate::repeats;
use crate::run::{self, ApiTurnRequest, CompletedTurn};
use crate::turn_answer::{ApiFinishReason, TurnAnswer};

/// The time an answer is returned again.
const ANSWER_RETENTION: Duration = Duration::from_mins(5);
/// The time a request that was cut off can be repeated; after a start, also the time for one that was answered
/// before it.
const INTERRUPTED_RETENTION: Duration = Duration::from_hours(24);
const LONGEST_KEY: usize = 256;

/// The state of a request before its turn.
pub(crate) enum RequestTicket {
    /// A request without a key.
    Plain {
        turn: TurnId,
        fingerprint: String,
    },
    Keyed(KeyedTicket),
}

/// A request with a key.
pub(crate) struct KeyedTicket {
    pub(crate) turn: TurnId,
    request: KeyedRequest,
    status: RequestStatus,
}

/// The progress of a request with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestStatus {
    /// The request is new.
    New,
    /// The request was started before and has no answer.
    Begun,
    Answered(String),
}

impl RequestTicket {
    /// Returns the turn that answers the request; the same for every repeat.
    pub(crate) fn turn(&self) -> &TurnId {
        match self {
            Self::Plain { turn, .. } => turn,
            Self::Keyed(ticket) => &ticket.turn,
        }
    }

    /// Tells whether the request is seen for the first time.
    pub(crate) fn is_new(&self) -> bool {
        match self {
            Self::Plain { .. } => true,
            Self::Keyed(ticket) => ticket.status == RequestStatus::New,
        }
    }
}

impl KeyedTicket {
    pub(crate) fn into_parts(self) -> (TurnId, RequestStatus) {
        (self.turn, self.status)
    }
}

/// The parts of a request by which a repeat is recognized.
pub(crate) struct RequestIdentity<'a> {
    pub(crate) path: &'static str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a BodyObject,
    /// The fields that must be equal in two requests with the same key.
    pub(crate) fields: &'a [&'a str],
}

/// Stores a request with a key, or looks up its progress. Rejects a request without a key when it repeats one
/// that called tools and failed.
pub(crate) async fn admit(app: &App, identity: &RequestIdentity<'_>) -> Result<RequestTicket, ApiError> {
    let turn = TurnId::generate();
    let Some(request) = request(identity)? else {
        let fingerprint = full_fingerprint(identity);
        repeats::refuse_repeat(app, &fingerprint).await?;
        return Ok(RequestTicket::Plain { turn, fingerprint });
    };
    let (turn, standing) = match claim(app, &request, &turn).await? {
        RequestClaim::New => (turn, RequestStatus::New),
        RequestClaim::Known { turn, answer: Some(answer) } => (turn, RequestStatus::Answered(answer)),
        RequestClaim::Known { turn: begun, answer: None } => {
            if app.running_requests.is_running(&request) || !ended_without_effect(app, &begun).await? {
                (begun, RequestStatus::Begun)
            } else if app.store.reassign_request(&begun, &turn, app.clock.now()).await? {
                (turn, RequestStatus::New)
            } else {
                return Err(run::session_in_use());
            }
        }
    };
    Ok(RequestTicket::Keyed(KeyedTicket { turn, request, status: standing }))
}

/// Tells whether a turn has ended without an answer and without calling tools: then it may run again.
async fn ended_without_effect(app: &App, turn: &TurnId) -> Result<bool, ApiError> {
    let store = &app.store;
    let state = store.turn(turn).await?.map(|turn| turn.state);
    Ok(matches!(state, Some(TurnState::Failed | TurnState::Interrupted))
        && store.tool_calls(turn).await?.is_empty())
}

/// Returns the keyed request, if the client gave a key.
fn request(identity: &RequestIdentity<'_>) -> Result<Option<KeyedRequest>, ApiError> {
    let Some(given) = identity.headers.get("idempotency-key").filter(|given| !given.is_empty()) else {
        return Ok(None);
    };
    let key = given.to_str().ok().filter(|key| key.len() <= LONGEST_KEY).ok_or_else(|| {
        let words = format!("Idempotency-Key must be at most {LONGEST_KEY} visible ASCII characters");
        ApiError::invalid_field("Idempotency-Key", words)
    })?;
    Ok(Some(KeyedRequest {
        path: identity.path.to_owned(),
        key: key.to_owned(),
        fingerprint: fingerprint(identity.body, identity.fields),
    }))
}

/// Computes a digest of everything that determines what a request asks for.
fn full_fingerprint(identity: &RequestIdentity<'_>) -> String {
    let mut digest = Sha256::new();
    let session = identity.headers.get("x-hermes-session-id").map_or(&[][..], |value| value.as_bytes());
    for part in [identity.path.as_bytes(), session] {
        digest.update(part);
        digest.update([0]);
    }
    for (name, value) in identity.body {
        digest.update(name.as_bytes());
        digest.update([0]);
        digest.update(value.to_string().as_bytes());
        digest.update([0]);
    }
    HEXLOWER.encode(&digest.finalize())
}

fn fingerprint(body: &BodyObject, fields: &[&str]) -> String {
    let mut digest = Sha256::new();
    for field in fields {
        digest.update(body.get(*field).unwrap_or(&Value::Null).to_string().as_bytes());
        digest.update([0]);
    }
    HEXLOWER.encode(&digest.finalize())
}

/// Looks up a request and stores it if it is new.
async fn claim(app: &App, request: &KeyedRequest, turn: &TurnId) -> Result<RequestClaim, ApiError> {
    let now = app.clock.now();
    Ok(app.store.claim_request(request, turn, horizon(now, app.started_at), now).await?)
}

/// Returns how long requests are kept. After a start, clients of the previous process get more time to come back.
fn horizon(now: Timestamp, started: Timestamp) -> RequestRetention {
    let answered =
        if now.since(started) < ANSWER_RETENTION { INTERRUPTED_RETENTION } else { ANSWER_RETENTION };
    RequestRetention { answered: now.minus(answered), open: now.minus(INTERRUPTED_RETENTION) }
}

type KeyedOutcome = Option<Result<Arc<CompletedTurn>, ApiError>>;

/// The keyed requests that run in this process.
#[derive(Default)]
pub(crate) struct RunningRequests {
    known: Mutex<HashMap<KeyedRequest, watch::Receiver<KeyedOutcome>>>,
}

impl RunningRequests {
    fn lock(&self) -> MutexGuard<'_, HashMap<KeyedRequest, watch::Receiver<KeyedOutcome>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self, request: &KeyedRequest) -> bool {
        self.lock().contains_key(request)
    }

    /// Returns the receiver of the request's result and, for the first caller, the sender.
    fn join_or_start(
        &self,
        request: &KeyedRequest,
    ) -> (watch::Receiver<KeyedOutcome>, Option<watch::Sender<KeyedOutcome>>) {
        let mut known = self.lock();
        if let Some(ended) = known.get(request) {
            return (ended.clone(), None);
        }
        let (sender, ended) = watch::channel(None);
        known.insert(request.clone(), ended.clone());
        (ended, Some(sender))
    }
}

/// Removes a request from the list however its work ends.
struct RemoveOnDrop {
    app: App,
    request: KeyedRequest,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        self.app.running_requests.lock().remove(&self.request);
    }
}

/// Runs the request, waits for the run it belongs to, or returns that run's stored result.
pub(crate) async fn run_once(
    app: &App,
    ticket: KeyedTicket,
    asked: ApiTurnRequest,
    listener: ApiFrontend,
    room: OwnedSemaphorePermit,
) -> Result<Arc<CompletedTurn>, ApiError> {
    let (mut ended, first) = app.running_requests.join_or_start(&ticket.request);
    match first {
        Some(told) => {
            let leave = RemoveOnDrop { app: app.clone(), request: ticket.request.clone() };
            // The task is not cancelled when the server stops: it is dropped, and a repeat resumes the turn.
            drop(app.tasks.spawn("an API turn with a key", async move {
                let _room = room;
                let ran = run_claimed(&leave.app, ticket, asked, &listener).await;
                // There may be no receiver left.
                told.send_replace(Some(ran.map(Arc::new)));
            }));
        }
        None => drop(listener),
    }
    let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
    ended.unwrap_or_else(|| {
        let stopping = app.tasks.cancel_token().is_cancelled();
        Err(if stopping {
            ApiError::shutting_down()
        } else {
            ApiError::internal("The turn ended unexpectedly")
        })
    })
}

async fn run_claimed(
    app: &App,
    ticket: KeyedTicket,
    asked: ApiTurnRequest,
    frontend: &dyn Frontend,
) -> Result<CompletedTurn, ApiError> {
    let KeyedTicket { turn, status: standing, .. } = ticket;
    let cancel = Cancel::new();
    let ran = match standing {
        RequestStatus::Answered(answer) => return load_answer(app, &answer).await,
        RequestStatus::New => run::run_turn(app, turn.clone(), asked, frontend, &cancel).await,
        RequestStatus::Begun => complete_turn(app, &turn, &asked, frontend, &cancel).await,
    };
    store_answer(app, &turn, ran).await
}

/// Completes a turn that this process has not started. One that failed after it had called tools is not run
/// again.
pub(crate) async fn complete_turn(
    app: &App,
    id: &TurnId,
    asked: &ApiTurnRequest,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<CompletedTurn, ApiError> {
    let Some(turn) = app.store.turn(id).await? else {
        return run::run_turn(app, id.clone(), asked.clone(), frontend, cancel).await;
    };
    match turn.state {
        TurnState::Running => run::resume_turn(app, &turn, asked, frontend, cancel).await,
        TurnState::Done => run::find_ended(app, id).await,
        TurnState::Parked => Err(ApiError::interrupted_twice()),
        TurnState::Failed | TurnState::Interrupted => {
            let past = run::past_turn(app, id).await?;
            Err(past.map_or_else(
                || ApiError::internal("The turn no longer exists"),
                |past| ApiError::repeated(&past),
            ))
        }
    }
}

/// An answer as it is stored: its messages are in the transcript.
#[derive(Serialize, Deserialize)]
struct StoredAnswer {
    said: TurnAnswer,
    first: usize,
    end: usize,
}

/// Stores an answer. A failure is not stored, so that the next request runs, unless the turn can still be resumed
/// or has called tools. Then the row stays, and a repeat is told what happened.
async fn store_answer(
    app: &App,
    turn: &TurnId,
    ran: Result<CompletedTurn, ApiError>,
) -> Result<CompletedTurn, ApiError> {
    let store = &app.store;
    if let Some(ran) = ran.as_ref().ok().filter(|ran| ran.answer.finish != ApiFinishReason::Error) {
        let kept = StoredAnswer { said: ran.answer.clone(), first: ran.first, end: ran.messages.len() };
        let text = serde_json::to_string(&kept).map_err(|error| ApiError::internal(error.to_string()))?;
        store.answer_request(turn, text, app.clock.now()).await?;
    } else {
        let state = store.turn(turn).await?.map(|turn| turn.state);
        let can_go_on = matches!(state, Some(TurnState::Running | TurnState::Parked));
        if !can_go_on && store.tool_calls(turn).await?.is_empty() {
            store.forget_request(turn).await?;
        }
    }
    ran
}

async fn load_answer(app: &App, text: &str) -> Result<CompletedTurn, ApiError> {
    let unreadable = |error: serde_json::Error| {
        ApiError::internal(format!("The answer kept under this Idempotency-Key cannot be read: {error}"))
    };
    let StoredAnswer { said, first, end } = serde_json::from_str(text).map_err(unreadable)?;
    let rows = app.store.transcript(&said.session).await?;
    let messages: Vec<Message> = rows.into_iter().take(end).map(|row| row.message).collect();
    Ok(CompletedTurn { answer: said, first: first.min(messages.len()), messages })
}
