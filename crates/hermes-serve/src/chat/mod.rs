//! `POST /v1/chat/completions`.

mod request;
mod stream;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use hermes_types::{SessionId, TurnId, Usage};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::field;
use crate::follow::ApiFrontend;
use crate::guard::read_body;
use crate::idempotency::{self, RequestIdentity};
use crate::request_task::run_in_task;
use crate::run::SessionChoice;
use crate::turn_answer::TurnAnswer;
use request::ChatRequest;

const SESSION: HeaderName = HeaderName::from_static("x-hermes-session-id");
const LONGEST_SESSION: usize = 256;
/// The fields that identify a repeated request.
const IDENTITY_FIELDS: [&str; 5] = ["model", "messages", "tools", "tool_choice", "stream"];

pub(crate) async fn completions(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let named = named_session(&headers)?;
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let request = ChatRequest::read(&body, named)?;
    let room = app.acquire_turn_permit()?;
    let path = "/v1/chat/completions";
    let identity = RequestIdentity { path, headers: &headers, body: &body, fields: &IDENTITY_FIELDS };
    let ticket = idempotency::admit(&app, &identity).await?;
    if request.stream {
        return Ok(stream::answer(&app, request, ticket, room));
    }
    let model = request.model_or(&app.settings.model_name);
    let (id, session) = (completion_id(ticket.turn()), request.turn.session.clone());
    let ran = run_in_task(&app, ticket, request.turn, ApiFrontend::discarding(), room).await?;
    Ok(answer(&app, &id, &model, &ran.answer, &session))
}

/// Returns the session the client names in its header.
pub(crate) fn named_session(headers: &HeaderMap) -> Result<Option<SessionId>, ApiError> {
    let Some(given) = headers.get(&SESSION) else { return Ok(None) };
    let name = "X-Hermes-Session-Id";
    session_id(given.to_str().unwrap_or_default(), name).map(Some)
}

/// Checks the id of a session: it must be safe everywhere.
pub(crate) fn session_id(text: &str, field: &str) -> Result<SessionId, ApiError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let fits = !text.is_empty() && text.len() <= LONGEST_SESSION;
    if !fits || !text.chars().all(plain) || text.contains("..") {
        let words = format!(
            "{field} must be 1 to {LONGEST_SESSION} letters, digits, hyphens, underscores, dots or colons"
        );
        return Err(ApiError::invalid_field(field, words));
    }
    Ok(SessionId::new(text))
}

pub(crate) fn session_header(session: &SessionId) -> Option<(HeaderName, HeaderValue)> {
    HeaderValue::from_str(session.as_str()).ok().map(|value| (SESSION, value))
}

/// Builds the response of a finished turn.
fn answer(app: &App, id: &str, model: &str, said: &TurnAnswer, session: &SessionChoice) -> Response {
    let body = json!({
        "id": id,
        "object": "chat.completion",
        "created": app.unix_seconds(),
        "model": model,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": said.text, "refusal": null, "annotations": []},
            "logprobs": null,
            "finish_reason": said.finish.as_str(),
        }],
        "service_tier": null,
        "system_fingerprint": null,
        "usage": usage(said.usage),
        "hermes": said.state_json(),
    });
    let mut response = Json(body).into_response();
    response.headers_mut().extend(session_header(session.reported_id(&said.session)));
    response
}

/// Returns the id of a turn's answer; the same for every repeat of its request.
pub(crate) fn completion_id(turn: &TurnId) -> String {
    format!("chatcmpl-{}", turn_digits(turn, 29))
}

/// Returns the first hex digits of a turn's id.
pub(crate) fn turn_digits(turn: &TurnId, count: usize) -> String {
    turn.as_str().chars().filter(char::is_ascii_hexdigit).take(count).collect()
}

pub(crate) fn usage(usage: Usage) -> Value {
    json!({"prompt_tokens": usage.prompt(), "completion_tokens": usage.output, "total_tokens": usage.total()})
}
