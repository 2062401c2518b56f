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
use crate::repeats;
use crate::run::{self, Asked, Ran};
use crate::said::{Finish, Said};

/// How long an answer is given again.
const ANSWERED: Duration = Duration::from_mins(5);
/// How long a request that was cut off can be repeated; and, after a start, one that was answered before it.
const LEFT: Duration = Duration::from_hours(24);
const LONGEST_KEY: usize = 256;

/// What is known of a request before its turn.
pub(crate) enum Ticket {
    /// Its client gave it no key.
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
    standing: Standing,
}

/// What became of a request with a key so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing yet.
    New,
    /// It was begun before and has no answer.
    Begun,
    Answered(String),
}

impl Ticket {
    /// Returns the turn that answers the request; the same for every repeat.
    pub(crate) fn turn(&self) -> &TurnId {
        match self {
            Self::Plain { turn, .. } => turn,
            Self::Keyed(ticket) => &ticket.turn,
        }
    }

    /// Returns whether this is the first time the request is seen.
    pub(crate) fn is_new(&self) -> bool {
        match self {
            Self::Plain { .. } => true,
            Self::Keyed(ticket) => ticket.standing == Standing::New,
        }
    }
}

impl KeyedTicket {
    pub(crate) fn into_parts(self) -> (TurnId, Standing) {
        (self.turn, self.standing)
    }
}

/// The parts of a request by which a repeat is recognised.
pub(crate) struct Identity<'a> {
    pub(crate) path: &'static str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Object,
    /// The fields that make two requests with one key the same.
    pub(crate) fields: &'a [&'a str],
}

/// Writes a request with a key down, or finds what became of it. One without a key is refused when it repeats one that
/// acted and failed.
pub(crate) async fn admit(app: &App, identity: &Identity<'_>) -> Result<Ticket, ApiError> {
    let turn = TurnId::generate();
    let Some(request) = request(identity)? else {
        let fingerprint = whole_fingerprint(identity);
        repeats::refuse_repeat(app, &fingerprint).await?;
        return Ok(Ticket::Plain { turn, fingerprint });
    };
    let (turn, standing) = match claim(app, &request, &turn).await? {
        RequestClaim::New => (turn, Standing::New),
        RequestClaim::Known { turn, answer: Some(answer) } => (turn, Standing::Answered(answer)),
        RequestClaim::Known { turn: begun, answer: None } => {
            if app.keyed.is_running(&request) || !came_to_nothing(app, &begun).await? {
                (begun, Standing::Begun)
            } else if app.gateway.store.pass_request_on(&begun, &turn, app.gateway.clock.now()).await? {
                (turn, Standing::New)
            } else {
                return Err(run::in_use());
            }
        }
    };
    Ok(Ticket::Keyed(KeyedTicket { turn, request, standing }))
}

/// Whether a turn has ended without an answer and without having acted: then it may be run again.
async fn came_to_nothing(app: &App, turn: &TurnId) -> Result<bool, ApiError> {
    let store = &app.gateway.store;
    let state = store.turn(turn).await?.map(|turn| turn.state);
    Ok(matches!(state, Some(TurnState::Failed | TurnState::Interrupted))
        && store.tool_calls(turn).await?.is_empty())
}

/// The request as its client names it, if it does.
fn request(identity: &Identity<'_>) -> Result<Option<KeyedRequest>, ApiError> {
    let Some(given) = identity.headers.get("idempotency-key").filter(|given| !given.is_empty()) else {
        return Ok(None);
    };
    let key = given.to_str().ok().filter(|key| key.len() <= LONGEST_KEY).ok_or_else(|| {
        let words = format!("Idempotency-Key must be at most {LONGEST_KEY} visible ASCII characters");
        ApiError::field("Idempotency-Key", words)
    })?;
    Ok(Some(KeyedRequest {
        path: identity.path.to_owned(),
        key: key.to_owned(),
        fingerprint: fingerprint(identity.body, identity.fields),
    }))
}

/// All of a request that says what it asks for.
fn whole_fingerprint(identity: &Identity<'_>) -> String {
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
    run::hex(&digest.finalize())
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
async fn claim(app: &App, request: &KeyedRequest, turn: &TurnId) -> Result<RequestClaim, ApiError> {
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

    fn is_running(&self, request: &KeyedRequest) -> bool {
        self.lock().contains_key(request)
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
    ticket: KeyedTicket,
    asked: Asked,
    listener: Listener,
    room: OwnedSemaphorePermit,
) -> Result<Arc<Ran>, ApiError> {
    let (mut ended, first) = app.keyed.enter(&ticket.request);
    match first {
        Some(told) => {
            let leave = Leave { app: app.clone(), request: ticket.request.clone() };
            // Not told to stop when the server ends: dropped where it stands, the turn is resumed by a repeat.
            drop(app.tasks.spawn("an API turn with a key", async move {
                let _room = room;
                let ran = work(&leave.app, ticket, asked, &listener).await;
                // Nobody may be waiting.
                told.send_replace(Some(ran.map(Arc::new)));
            }));
        }
        None => drop(listener),
    }
    let ended = ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone());
    ended.unwrap_or_else(|| {
        let stopping = app.tasks.cancel_token().is_cancelled();
        Err(if stopping { ApiError::ending() } else { ApiError::internal("The turn ended unexpectedly") })
    })
}

async fn work(
    app: &App,
    ticket: KeyedTicket,
    asked: Asked,
    frontend: &dyn Frontend,
) -> Result<Ran, ApiError> {
    let KeyedTicket { turn, standing, .. } = ticket;
    let cancel = Cancel::new();
    let ran = match standing {
        Standing::Answered(answer) => return load(app, &answer).await,
        Standing::New => run::turn(app, turn.clone(), asked, frontend, &cancel).await,
        Standing::Begun => go_on(app, &turn, &asked, frontend, &cancel).await,
    };
    keep(app, &turn, ran).await
}

/// Brings a turn to its end that this process has not begun. One that failed after it had acted is not run again.
pub(crate) async fn go_on(
    app: &App,
    id: &TurnId,
    asked: &Asked,
    frontend: &dyn Frontend,
    cancel: &Cancel,
) -> Result<Ran, ApiError> {
    let Some(turn) = app.gateway.store.turn(id).await? else {
        return run::turn(app, id.clone(), asked.clone(), frontend, cancel).await;
    };
    match turn.state {
        TurnState::Running => run::resume(app, &turn, asked, frontend, cancel).await,
        TurnState::Done => run::find_ended(app, id).await,
        TurnState::Parked => Err(ApiError::cut_off_twice()),
        TurnState::Failed | TurnState::Interrupted => {
            let past = run::past_turn(app, id).await?;
            Err(past.map_or_else(|| ApiError::internal("The turn is gone"), |past| ApiError::repeated(&past)))
        }
    }
}

/// An answer as it is kept: its messages are in the transcript.
#[derive(Serialize, Deserialize)]
struct Kept {
    said: Said,
    first: usize,
    end: usize,
}

/// Keeps an answer. A failure is none: the next request runs, unless the turn can still be gone on with or has acted. Then the
/// row stays, and a repeat is told what happened.
async fn keep(app: &App, turn: &TurnId, ran: Result<Ran, ApiError>) -> Result<Ran, ApiError> {
    let store = &app.gateway.store;
    if let Some(ran) = ran.as_ref().ok().filter(|ran| ran.said.finish != Finish::Error) {
        let kept = Kept { said: ran.said.clone(), first: ran.first, end: ran.messages.len() };
        let text = serde_json::to_string(&kept).map_err(|error| ApiError::internal(error.to_string()))?;
        store.answer_request(turn, text, app.gateway.clock.now()).await?;
    } else {
        let state = store.turn(turn).await?.map(|turn| turn.state);
        let can_go_on = matches!(state, Some(TurnState::Running | TurnState::Parked));
        if !can_go_on && store.tool_calls(turn).await?.is_empty() {
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
