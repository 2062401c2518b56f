//! `/v1/runs`: turns that continue whether or not a client listens.

mod active_run;
mod registry;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hermes_types::{ApprovalDecision, UserAnswer};
use serde_json::{Value, json};

use crate::app::App;
use crate::chat::session_id;
use crate::error::ApiError;
use crate::field::{self, BodyObject};
use crate::guard::read_body;
use crate::idempotency::{self, RequestIdentity};
use crate::input::{ResponseBasis, ResponseInput};
use crate::run::{ApiTurnRequest, SessionChoice, StopOnDrop, ToolState, derived_session};
use crate::sse;

pub(crate) use registry::RunRegistry;

/// The fields that identify a repeated request.
const IDENTITY_FIELDS: [&str; 6] =
    ["input", "instructions", "session_id", "previous_response_id", "conversation_history", "model"];

pub(crate) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let asked = read(&app, &body).await?;
    let room = app.acquire_turn_permit()?;
    let identity =
        RequestIdentity { path: "/v1/runs", headers: &headers, body: &body, fields: &IDENTITY_FIELDS };
    let ticket = idempotency::admit(&app, &identity).await?;
    let id = active_run::start_run(&app, ticket, asked, room).await;
    Ok((StatusCode::ACCEPTED, Json(json!({"run_id": id, "status": "started"}))).into_response())
}

async fn read(app: &App, body: &BodyObject) -> Result<ApiTurnRequest, ApiError> {
    let named = match field::text(body, "session_id")? {
        Some(id) => Some(session_id(id, "session_id")?),
        None => None,
    };
    field::text(body, "model")?;
    let basis =
        field::text(body, "previous_response_id")?.map_or(ResponseBasis::Nothing, ResponseBasis::Response);
    let input = ResponseInput::read(app, body, basis).await?;
    let first_words = input.first_words();
    let ResponseInput { history, content, instructions, session: built_on, .. } = input;
    let session = match named {
        // The client sent a history: the named session continues only if its history is the same.
        Some(named) if !history.is_empty() => SessionChoice::Matching(named, ToolState::Kept),
        Some(named) => SessionChoice::Named(named),
        None => {
            let derived = || derived_session(instructions.as_deref(), &first_words);
            SessionChoice::Matching(built_on.unwrap_or_else(derived), ToolState::Kept)
        }
    };
    Ok(ApiTurnRequest { history, input: content, instructions, session })
}

pub(crate) async fn find(
    State(app): State<App>,
    field::PathId(id): field::PathId,
) -> Result<Json<Value>, ApiError> {
    active_run::restore_run(&app, &id).await?;
    let known = app.runs.lock();
    let run = known.get(&id).ok_or_else(|| unknown(&id))?;
    let field = |name: &str| run.ended.as_ref().and_then(|(_, event)| event.get(name)).cloned();
    Ok(Json(json!({
        "run_id": id, "object": "run", "status": run.status, "output": field("output"), "error": field("error"),
        "usage": field("usage"), "session_id": field("session_id"),
    })))
}

pub(crate) async fn events(
    State(app): State<App>,
    field::PathId(id): field::PathId,
) -> Result<Response, ApiError> {
    active_run::restore_run(&app, &id).await?;
    let mut changed = {
        let known = app.runs.lock();
        known.get(&id).ok_or_else(|| unknown(&id))?.changed.subscribe()
    };
    // The run continues without listeners.
    let left = app.tasks.cancel_token().child_token();
    let (frames, response) = sse::stream(StopOnDrop(left.clone()), Vec::new());
    let owner = app.clone();
    drop(app.tasks.spawn_cooperative("an API listener", move |_| async move {
        let mut told = 0;
        loop {
            let (new, ended) = {
                let known = owner.runs.lock();
                let Some(run) = known.get(&id) else { return };
                let (new, all) = run.events.since(told);
                told = all;
                (new, run.ended.is_some())
            };
            for event in &new {
                tokio::select! {
                    () = frames.wait_until_read() => {}
                    () = left.cancelled() => {}
                }
                if frames.text(event).is_err() {
                    return;
                }
            }
            if ended {
                let _ = frames.comment("stream closed");
                return;
            }
            tokio::select! {
                () = left.cancelled() => {
                    if owner.tasks.cancel_token().is_cancelled() {
                        let error = ApiError::shutting_down().message;
                        let _ = frames.data(&json!({"event": "run.failed", "error": error}));
                    }
                    return;
                }
                more = changed.changed() => if more.is_err() { return },
            }
        }
    }));
    Ok(response)
}

pub(crate) async fn approve(
    State(app): State<App>,
    field::PathId(id): field::PathId,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let approval = match field::text(&body, "choice")? {
        Some("once") => ApprovalDecision::Once,
        Some("session") => ApprovalDecision::Session,
        Some("always") => ApprovalDecision::Always,
        Some("deny") => ApprovalDecision::Deny,
        _ => return Err(ApiError::invalid_field("choice", "`choice` must be once, session, always or deny")),
    };
    active_run::restore_run(&app, &id).await?;
    let mut known = app.runs.lock();
    let run = known.get_mut(&id).ok_or_else(|| unknown(&id))?;
    let Some(question) = run.question.take() else {
        return Err(ApiError::new(StatusCode::CONFLICT, "approval_not_pending", "No approval is pending"));
    };
    // A turn that has just ended needs no answer.
    let _ = question.send(UserAnswer::Approval(approval));
    Ok(Json(json!({"run_id": id, "resolved": 1})))
}

pub(crate) async fn stop(
    State(app): State<App>,
    field::PathId(id): field::PathId,
) -> Result<Json<Value>, ApiError> {
    active_run::restore_run(&app, &id).await?;
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
