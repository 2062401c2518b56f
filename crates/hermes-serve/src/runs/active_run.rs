//! A run from start to end.

use std::time::Duration;

use hermes_types::{
    BoxFuture, Cancel, Delta, Frontend, TurnEvent, TurnId, TurnState, UserAnswer, UserQuestion,
};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::registry::{ApiRun, InsertOutcome};
use crate::app::App;
use crate::chat::usage;
use crate::error::ApiError;
use crate::idempotency::{self, RequestStatus, RequestTicket};
use crate::run::{self, ApiTurnRequest, CompletedTurn};

const TIMEOUT: Duration = Duration::from_mins(5);

/// Starts a run, or returns the one the same request started before. Its id is derived from its turn's.
pub(super) async fn start_run(
    app: &App,
    ticket: RequestTicket,
    asked: ApiTurnRequest,
    room: OwnedSemaphorePermit,
) -> String {
    let (turn, beginning) = match ticket {
        RequestTicket::Plain { turn, .. } => (turn, RunOrigin::Plain),
        RequestTicket::Keyed(ticket) => match ticket.into_parts() {
            (turn, RequestStatus::Answered(answer)) => return restore_ended_run(app, &turn, &answer),
            (turn, RequestStatus::New) => (turn, RunOrigin::Keyed),
            (turn, RequestStatus::Begun) => (turn, RunOrigin::Repeated),
        },
    };
    let id = run_id(&turn);
    if beginning == RunOrigin::Repeated {
        // An earlier attempt to resume the run failed; this one replaces it.
        app.runs.forget_ended(&id);
    }
    // A run that can be requested again is not cancelled with the server: it is dropped, and a repeat resumes it.
    let cancel = match beginning {
        RunOrigin::Plain => app.tasks.cancel_token().child_token(),
        RunOrigin::Keyed | RunOrigin::Repeated => Cancel::new(),
    };
    let (stored, is_stored) = oneshot::channel();
    let run = || ApiRun::new(cancel.clone(), Some(stored));
    if app.runs.insert(&id, run, app.clock.monotonic()) == InsertOutcome::Existing {
        return id;
    }
    let work = ActiveRun { app: app.clone(), id: id.clone(), turn, origin: beginning };
    let running = async move {
        let _room = room;
        work.run_to_end(asked, &cancel).await;
    };
    match beginning {
        RunOrigin::Plain => drop(app.tasks.spawn_cooperative("an API run", move |_| running)),
        RunOrigin::Keyed | RunOrigin::Repeated => drop(app.tasks.spawn("an API run", running)),
    }
    // A run is reported as accepted only when it is stored. A turn that could not begin has ended by then, with
    // the reason.
    let _ = is_stored.await;
    id
}

fn run_id(turn: &TurnId) -> String {
    format!("run_{}", turn.as_str().replace('-', ""))
}

/// Restores a run that ended before this process started.
fn restore_ended_run(app: &App, turn: &TurnId, answer: &str) -> String {
    let id = run_id(turn);
    let event: Value = serde_json::from_str(answer).unwrap_or_default();
    let status = match event.get("event").and_then(Value::as_str) {
        Some("run.completed") => "completed",
        Some("run.cancelled") => "cancelled",
        _ => "failed",
    };
    let now = app.clock.monotonic();
    let run = || {
        let mut run = ApiRun::new(Cancel::new(), None);
        run.end(status, event, now);
        run
    };
    app.runs.insert(&id, run, now);
    id
}

/// Restores a run of an earlier process from its turn, if this process does not know it. One that was cut off has
/// failed: only a repeat of its own request resumes it.
pub(super) async fn restore_run(app: &App, id: &str) -> Result<(), ApiError> {
    if app.runs.lock().contains_key(id) {
        return Ok(());
    }
    let Some(turn) = turn_id(id) else { return Ok(()) };
    let store = &app.store;
    let Some(turn) = store.turn(&turn).await? else { return Ok(()) };
    let session = store.session(&turn.session).await?;
    if session.is_none_or(|session| session.source != "api_server") {
        return Ok(());
    }
    let failed = |why: &str| {
        let event = json!({"event": "run.failed", "error": why, "session_id": turn.session.as_str()});
        ("failed", event)
    };
    let (status, event) = match turn.state {
        TurnState::Done => {
            let CompletedTurn { answer: said, .. } = run::find_ended(app, &turn.id).await?;
            let session = said.session.as_str();
            ("completed", json!({"event": "run.completed", "output": said.text, "session_id": session}))
        }
        TurnState::Interrupted => ("cancelled", json!({"event": "run.cancelled"})),
        TurnState::Failed => failed("The run failed"),
        TurnState::Running | TurnState::Parked => failed(
            "Hermes was restarted in the middle of this run; what was done until then is in its session",
        ),
    };
    let now = app.clock.monotonic();
    let run = || {
        let mut run = ApiRun::new(Cancel::new(), None);
        run.end(status, event, now);
        run
    };
    app.runs.insert(id, run, now);
    Ok(())
}

/// Returns the turn a run is named after.
fn turn_id(run: &str) -> Option<TurnId> {
    let hex = run.strip_prefix("run_").filter(|hex| hex.len() == 32)?;
    let part = |from: usize, to: usize| hex.get(from..to);
    let parts = [part(0, 8)?, part(8, 12)?, part(12, 16)?, part(16, 20)?, part(20, 32)?];
    Some(TurnId::new(parts.join("-")))
}

/// The origin of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunOrigin {
    /// A request without a key, which cannot be repeated.
    Plain,
    Keyed,
    /// A request that was stored before and whose turn may have been cut off.
    Repeated,
}

struct ActiveRun {
    app: App,
    id: String,
    turn: TurnId,
    origin: RunOrigin,
}

impl ActiveRun {
    async fn run_to_end(&self, asked: ApiTurnRequest, cancel: &Cancel) {
        let session = asked.session.clone();
        let ran = self.run_turn(asked, cancel).await;
        let ended = ran.is_ok() || self.has_ended().await;
        let (status, event) = match ran {
            Ok(CompletedTurn { answer: said, .. }) if said.failure().is_some() => {
                let error = said.failure().map(|error| error.message);
                let event = json!({
                    "event": "run.failed", "error": error, "output": said.text, "usage": usage(said.usage),
                    "session_id": session.reported_id(&said.session).as_str(),
                });
                ("failed", event)
            }
            Ok(CompletedTurn { answer: said, .. }) => (
                "completed",
                json!({
                    "event": "run.completed", "output": said.text, "usage": usage(said.usage),
                    "session_id": session.reported_id(&said.session).as_str(),
                }),
            ),
            Err(_) if cancel.is_cancelled() => ("cancelled", json!({"event": "run.cancelled"})),
            Err(error) => ("failed", json!({"event": "run.failed", "error": error.message})),
        };
        let clock = &self.app.clock;
        if self.origin != RunOrigin::Plain && ended {
            let kept = self.app.store.answer_request(&self.turn, event.to_string(), clock.now()).await;
            if let Err(error) = kept {
                tracing::error!(%error, "how a run ended could not be kept");
            }
        }
        self.app.runs.update(&self.id, |run| run.end(status, event, clock.monotonic()));
    }

    async fn run_turn(&self, asked: ApiTurnRequest, cancel: &Cancel) -> Result<CompletedTurn, ApiError> {
        if self.origin != RunOrigin::Repeated {
            return run::run_turn(&self.app, self.turn.clone(), asked, self, cancel).await;
        }
        idempotency::complete_turn(&self.app, &self.turn, &asked, self, cancel).await
    }

    /// Tells whether the turn can no longer be resumed.
    async fn has_ended(&self) -> bool {
        let turn = self.app.store.turn(&self.turn).await;
        turn.is_ok_and(|turn| turn.is_none_or(|turn| turn.state != TurnState::Running))
    }

    fn push_event(&self, event: &Value) {
        self.app.runs.update(&self.id, |run| run.events.push(event));
    }
}

impl Frontend for ActiveRun {
    fn show(&self, event: TurnEvent) {
        let told = match event {
            TurnEvent::TurnStarted { .. } => {
                self.app.runs.update(&self.id, |run| run.stored = None);
                return;
            }
            TurnEvent::Delta(Delta::Text(text)) => json!({"event": "message.delta", "delta": text}),
            TurnEvent::Delta(Delta::Reasoning(text)) => json!({"event": "reasoning.available", "text": text}),
            TurnEvent::ToolStarted { id, name, preview, .. } => {
                json!({"event": "tool.started", "tool": name, "preview": preview, "tool_call_id": id.as_str()})
            }
            TurnEvent::ToolEnded { id, name, status, .. } => {
                json!({"event": "tool.completed", "tool": name, "status": status.as_str(), "tool_call_id": id.as_str()})
            }
            TurnEvent::Delta(Delta::Restart | Delta::ToolStarted { .. } | Delta::Status(_))
            | TurnEvent::Step { .. }
            | TurnEvent::SegmentEnded
            | TurnEvent::Notice { .. }
            | TurnEvent::Spent { .. }
            | TurnEvent::TurnEnded { .. }
            | TurnEvent::Child { .. } => return,
        };
        self.push_event(&told);
    }

    fn ask<'a>(&'a self, question: UserQuestion, cancel: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(async move {
            let UserQuestion::Approve { command, danger } = question else { return UserAnswer::Unavailable };
            let (sender, answer) = oneshot::channel();
            self.app.runs.update(&self.id, |run| {
                run.status = "waiting_for_approval";
                run.question = Some(sender);
                run.events
                    .push(&json!({"event": "approval.request", "command": command, "reason": danger.reason}));
            });
            let answer = tokio::select! {
                answer = answer => answer.unwrap_or(UserAnswer::Unavailable),
                () = cancel.cancelled() => UserAnswer::Unavailable,
                () = self.app.clock.sleep(TIMEOUT) => UserAnswer::TimedOut,
            };
            self.app.runs.update(&self.id, |run| {
                run.status = "running";
                run.question = None;
                run.events.push(&json!({"event": "approval.responded"}));
            });
            answer
        })
    }
}
