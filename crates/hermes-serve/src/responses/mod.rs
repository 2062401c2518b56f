//! `/v1/responses`: answers that later requests can build on.

mod item;
mod request;
pub(crate) mod response_store;
mod stream;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hermes_types::{TurnId, Usage};
use serde_json::{Value, json};

use crate::app::App;
use crate::chat::{session_header, turn_digits};
use crate::error::ApiError;
use crate::field;
use crate::follow::ApiFrontend;
use crate::guard::read_body;
use crate::idempotency::{self, RequestIdentity};
use crate::request_task::run_in_task;
use crate::turn_answer::{ApiFinishReason, TurnAnswer};
use request::ResponseRequest;

/// The fields that identify a repeated request.
const IDENTITY_FIELDS: [&str; 7] = [
    "input",
    "instructions",
    "previous_response_id",
    "conversation",
    "conversation_history",
    "model",
    "tools",
];

pub(crate) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let request = ResponseRequest::read(&app, &body).await?;
    let room = app.acquire_turn_permit()?;
    let path = "/v1/responses";
    let ticket = idempotency::admit(
        &app,
        &RequestIdentity { path, headers: &headers, body: &body, fields: &IDENTITY_FIELDS },
    )
    .await?;
    if request.stream {
        return Ok(stream::answer(&app, request, ticket, room));
    }
    let (id, is_new) = (response_id(ticket.turn()), ticket.is_new());
    let ran = run_in_task(&app, ticket, request.turn.clone(), ApiFrontend::discarding(), room).await?;
    let made =
        ended_response(&app, &request, &id, &item::output_items(&ran, app.settings.tool_items), &ran.answer);
    let object = response_store::store_response(&app, &request, made, &ran, is_new).await?;
    let mut response = Json(object).into_response();
    response.headers_mut().extend(session_header(&ran.answer.session));
    Ok(response)
}

pub(crate) async fn find(
    State(app): State<App>,
    field::PathId(id): field::PathId,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(response_store::load(&app, &id).await?.ok_or_else(|| unknown(&id))?.response))
}

pub(crate) async fn remove(
    State(app): State<App>,
    field::PathId(id): field::PathId,
) -> Result<Json<Value>, ApiError> {
    if !app.responses.remove(&id).await? {
        return Err(unknown(&id));
    }
    Ok(Json(json!({"id": id, "object": "response", "deleted": true})))
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("Response not found: {id}"))
}

/// Returns the id of a turn's answer; the same for every repeat of its request.
pub(super) fn response_id(turn: &TurnId) -> String {
    format!("resp_{}", turn_digits(turn, 28))
}

/// Returns the response of an ended turn, with the reason where it is incomplete.
fn ended_response(
    app: &App,
    request: &ResponseRequest,
    id: &str,
    output: &[Value],
    said: &TurnAnswer,
) -> Value {
    let (status, why) = match said.finish {
        ApiFinishReason::Stop => ("completed", None),
        ApiFinishReason::Length => ("incomplete", Some("max_output_tokens")),
        ApiFinishReason::ContentFilter => ("incomplete", Some("content_filter")),
        ApiFinishReason::Error => ("failed", None),
    };
    let mut object = response_object(app, request, id, status, output, said.usage);
    if let Some(reason) = why {
        object["incomplete_details"] = json!({"reason": reason});
    }
    if let Some(error) = said.failure() {
        object["error"] = json!({"code": error.code, "message": error.message});
    }
    object
}

/// Builds the response object.
fn response_object(
    app: &App,
    request: &ResponseRequest,
    id: &str,
    status: &str,
    output: &[Value],
    usage: Usage,
) -> Value {
    json!({
        "id": id,
        "object": "response",
        "status": status,
        "created_at": app.unix_seconds(),
        "model": request.model.as_deref().unwrap_or(&app.settings.model_name),
        "output": output,
        "instructions": request.turn.instructions,
        "previous_response_id": request.previous,
        "metadata": {},
        "background": false,
        "max_output_tokens": null,
        "max_tool_calls": null,
        "parallel_tool_calls": true,
        "reasoning": {"effort": null, "summary": null},
        "service_tier": "default",
        "store": request.store,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "top_p": 1.0,
        "truncation": "disabled",
        "user": null,
        "tool_choice": "auto",
        "tools": [],
        "error": null,
        "incomplete_details": null,
        "usage": {
            "input_tokens": usage.prompt(),
            "input_tokens_details": {"cached_tokens": usage.cache_read},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.total(),
        },
    })
}
