//! `/v1/runs`: turns that go on whoever listens.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermes_types::{
    Answer, Approval, BoxFuture, Cancel, Delta, Event, Frontend, Question, SessionId, random_hex,
};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use crate::app::App;
use crate::chat::{Said, usage};
use crate::error::ApiError;
use crate::field;
use crate::guard::read_body;
use crate::run::{self, Asked, Session, StopOnDrop, derived_session};
use crate::sse;

const KEPT: Duration = Duration::from_hours(1);
const PATIENCE: Duration = Duration::from_mins(5);

/// What is known of a run.
struct Run {
    status: &'static str,
    events: Vec<Value>,
    ended: Option<Duration>,
    cancel: Cancel,
    question: Option<oneshot::Sender<Answer>>,
    /// Told when the question is in the database.
    stored: Option<oneshot::Sender<()>>,
    changed: watch::Sender<()>,
}

/// All runs of the last hour.
#[derive(Default)]
pub(crate) struct Runs {
    known: Mutex<HashMap<String, Run>>,
}

impl Runs {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Run>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, id: &str, change: impl FnOnce(&mut Run)) {
        if let Some(run) = self.lock().get_mut(id) {
            change(run);
            // Nobody may be listening.
            let _ = run.changed.send(());
        }
    }
}

pub(crate) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let input = field::content(body.get("input"), "input")?;
    if input.is_empty() {
        return Err(ApiError::field("input", "`input` must say something"));
    }
    let instructions = field::text(&body, "instructions")?.map(str::to_owned);
    let session = match field::text(&body, "session_id")? {
        Some(id) => Session::Named(SessionId::new(id)),
        None => Session::Matching(derived_session(instructions.as_deref(), &input.text())),
    };
    let room = app.room()?;
    let id = format!("run_{}", random_hex(32));
    let cancel = app.tasks.cancel_token().child_token();
    let now = app.gateway.clock.monotonic();
    let (stored, is_stored) = oneshot::channel();
    {
        let mut known = app.runs.lock();
        known.retain(|_, run| run.ended.is_none_or(|ended| now.saturating_sub(ended) < KEPT));
        let run = Run {
            status: "running",
            events: Vec::new(),
            ended: None,
            cancel: cancel.clone(),
            question: None,
            stored: Some(stored),
            changed: watch::Sender::new(()),
        };
        known.insert(id.clone(), run);
    }
    let asked = Asked { history: Vec::new(), input, instructions, session };
    let (owner, run_id) = (app.clone(), id.clone());
    drop(app.tasks.spawn_cooperative("an API run", move |_| async move {
        let _room = room;
        go(&owner, &run_id, asked, &cancel).await;
    }));
    // Accepted means kept. A turn that could not even begin has ended by then, and says why.
    let _ = is_stored.await;
    Ok((StatusCode::ACCEPTED, Json(json!({"run_id": id, "status": "started"}))).into_response())
}

async fn go(app: &App, id: &str, asked: Asked, cancel: &Cancel) {
    let frontend = RunFrontend { app: app.clone(), id: id.to_owned() };
    let ran = run::turn(app, asked, &frontend, cancel).await;
    let (status, event) = match ran.and_then(|ran| Said::of(&ran).map(|said| (said, ran))) {
        Ok((said, ran)) => (
            "completed",
            json!({
                "event": "run.completed", "output": said.text, "usage": usage(ran.result.usage),
                "session_id": ran.session.as_str(),
            }),
        ),
        Err(_) if cancel.is_cancelled() => ("cancelled", json!({"event": "run.cancelled"})),
        Err(error) => ("failed", json!({"event": "run.failed", "error": error.message})),
    };
    let now = app.gateway.clock.monotonic();
    app.runs.note(id, |run| {
        run.status = status;
        run.ended = Some(now);
        run.stored = None;
        run.events.push(event);
    });
}

struct RunFrontend {
    app: App,
    id: String,
}

impl Frontend for RunFrontend {
    fn show(&self, event: Event) {
        if let Event::TurnStarted { .. } = event {
            self.app.runs.note(&self.id, |run| run.stored = None);
            return;
        }
        let told = match event {
            Event::Delta(Delta::Text(text)) => json!({"event": "message.delta", "delta": text}),
            Event::Delta(Delta::Reasoning(text)) => json!({"event": "reasoning.available", "text": text}),
            Event::ToolStarted { id, name, preview } => {
                json!({"event": "tool.started", "tool": name, "preview": preview, "tool_call_id": id.as_str()})
            }
            Event::ToolEnded { id, name, status } => {
                json!({"event": "tool.completed", "tool": name, "status": status.as_str(), "tool_call_id": id.as_str()})
            }
            _ => return,
        };
        self.app.runs.note(&self.id, |run| run.events.push(told));
    }

    fn ask<'a>(&'a self, question: Question, cancel: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let Question::Approve { command, danger } = question else { return Answer::Unavailable };
            let (sender, answer) = oneshot::channel();
            self.app.runs.note(&self.id, |run| {
                run.status = "waiting_for_approval";
                run.question = Some(sender);
                run.events
                    .push(json!({"event": "approval.request", "command": command, "reason": danger.reason}));
            });
            let answer = tokio::select! {
                answer = answer => answer.unwrap_or(Answer::Unavailable),
                () = cancel.cancelled() => Answer::Unavailable,
                () = self.app.gateway.clock.sleep(PATIENCE) => Answer::Unavailable,
            };
            self.app.runs.note(&self.id, |run| {
                run.status = "running";
                run.question = None;
                run.events.push(json!({"event": "approval.responded"}));
            });
            answer
        })
    }
}

pub(crate) async fn find(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let known = app.runs.lock();
    let run = known.get(&id).ok_or_else(|| unknown(&id))?;
    let last = run.events.last().filter(|_| run.ended.is_some());
    let field = |name: &str| last.and_then(|event| event.get(name)).cloned();
    Ok(Json(json!({
        "run_id": id, "object": "run", "status": run.status, "output": field("output"), "error": field("error"),
        "usage": field("usage"), "session_id": field("session_id"),
    })))
}

pub(crate) async fn events(State(app): State<App>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let mut changed = {
        let known = app.runs.lock();
        known.get(&id).ok_or_else(|| unknown(&id))?.changed.subscribe()
    };
    // The run goes on without listeners.
    let (frames, response) = sse::stream(StopOnDrop(Cancel::new()), Vec::new());
    let owner = app.clone();
    drop(app.tasks.spawn("an API listener", async move {
        let mut told = 0;
        loop {
            let (new, ended) = {
                let known = owner.runs.lock();
                let Some(run) = known.get(&id) else { return };
                (run.events.get(told..).unwrap_or_default().to_vec(), run.ended.is_some())
            };
            for event in &new {
                if frames.data(event).is_err() {
                    return;
                }
            }
            told += new.len();
            if ended {
                let _ = frames.comment("stream closed");
                return;
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
    }));
    Ok(response)
}

pub(crate) async fn approve(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let approval = match field::text(&body, "choice")? {
        Some("once") => Approval::Once,
        Some("session") => Approval::Session,
        Some("always") => Approval::Always,
        Some("deny") => Approval::Deny,
        _ => return Err(ApiError::field("choice", "`choice` must be once, session, always or deny")),
    };
    let mut known = app.runs.lock();
    let run = known.get_mut(&id).ok_or_else(|| unknown(&id))?;
    let Some(question) = run.question.take() else {
        return Err(ApiError::new(StatusCode::CONFLICT, "approval_not_pending", "No approval is pending"));
    };
    // A turn that ended in this moment needs no answer.
    let _ = question.send(Answer::Approval(approval));
    Ok(Json(json!({"run_id": id, "resolved": 1})))
}

pub(crate) async fn stop(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let mut known = app.runs.lock();
    let run = known.get_mut(&id).ok_or_else(|| unknown(&id))?;
    if run.ended.is_none() {
        run.status = "stopping";
        run.cancel.cancel();
    }
    Ok(Json(json!({"run_id": id, "status": run.status})))
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("Run not found: {id}"))
}
