//! `POST /v1/chat/completions`.

mod request;
mod stream;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hermes_types::{SessionId, Usage, random_hex};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;
use crate::field;
use crate::follow::Listener;
use crate::guard::read_body;
use crate::keyed;
use crate::run;
use crate::said::Said;
use request::ChatRequest;

const SESSION: HeaderName = HeaderName::from_static("x-hermes-session-id");
const LONGEST_SESSION: usize = 256;
/// What makes two requests the same.
const SAME: [&str; 5] = ["model", "messages", "tools", "tool_choice", "stream"];

pub(crate) async fn completions(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let named = named_session(&app, &headers)?;
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let request = ChatRequest::read(&body, named)?;
    let keyed = keyed::request("/v1/chat/completions", &headers, &body, &SAME)?;
    let room = app.room()?;
    if request.stream {
        return Ok(stream::answer(&app, request, keyed, room));
    }
    let model = request.model_or(&app.settings.model_name);
    let ran = run::perform(&app, keyed, request.asked, Listener(None), room).await?;
    Ok(answer(&app, &model, &ran.said))
}

/// The session a client wants to go on with. Only who has the key may read what is in it.
pub(crate) fn named_session(app: &App, headers: &HeaderMap) -> Result<Option<SessionId>, ApiError> {
    let Some(given) = headers.get(&SESSION) else { return Ok(None) };
    if app.settings.key.is_none() {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "session_header_needs_key",
            "X-Hermes-Session-Id needs a server with API_SERVER_KEY",
        ));
    }
    let name = "X-Hermes-Session-Id";
    session_id(given.to_str().unwrap_or_default(), name).map(Some)
}

/// A name for a session that is safe everywhere.
pub(crate) fn session_id(text: &str, field: &str) -> Result<SessionId, ApiError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let fits = !text.is_empty() && text.len() <= LONGEST_SESSION;
    if !fits || !text.chars().all(plain) || text.contains("..") {
        let words = format!(
            "{field} must be 1 to {LONGEST_SESSION} letters, digits, hyphens, underscores, dots or colons"
        );
        return Err(ApiError::field(field, words));
    }
    Ok(SessionId::new(text))
}

pub(crate) fn session_header(session: &SessionId) -> Option<(HeaderName, HeaderValue)> {
    HeaderValue::from_str(session.as_str()).ok().map(|value| (SESSION, value))
}

/// A finished turn as one answer.
fn answer(app: &App, model: &str, said: &Said) -> Response {
    let body = json!({
        "id": completion_id(),
        "object": "chat.completion",
        "created": app.seconds(),
        "model": model,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": said.text},
            "finish_reason": said.finish.as_str(),
        }],
        "usage": usage(said.usage),
        "hermes": said.state(),
    });
    let mut response = Json(body).into_response();
    response.headers_mut().extend(session_header(&said.session));
    response
}

pub(crate) fn completion_id() -> String {
    format!("chatcmpl-{}", random_hex(29))
}

pub(crate) fn usage(usage: Usage) -> Value {
    json!({"prompt_tokens": usage.prompt(), "completion_tokens": usage.output, "total_tokens": usage.total()})
}
