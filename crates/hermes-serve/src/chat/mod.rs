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
use crate::guard::read_body;
use crate::idempotency::fingerprint;
use crate::run::{self, Ran};
use request::ChatRequest;

const SESSION: HeaderName = HeaderName::from_static("x-hermes-session-id");
const LONGEST_SESSION: usize = 256;

pub(crate) async fn completions(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let named = named_session(&app, &headers)?;
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let request = ChatRequest::read(&body, named)?;
    let room = app.room()?;
    if request.stream {
        return Ok(stream::answer(&app, request, room));
    }
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let mark = fingerprint(&body, &["model", "messages", "tools", "tool_choice", "stream"]);
    let asked = request.asked.clone();
    let ran = app.answers.once(key, &mark, || run::run(&app, asked, None, room)).await?;
    answer(&app, &request.model_or(&app.settings.model_name), &ran)
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
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    let text = given.to_str().ok().filter(|text| {
        !text.is_empty() && text.len() <= LONGEST_SESSION && text.chars().all(plain) && !text.contains("..")
    });
    let id = text.ok_or_else(|| {
        ApiError::field(
            "X-Hermes-Session-Id",
            "X-Hermes-Session-Id must be 1 to 256 letters, digits, hyphens, underscores, dots or colons",
        )
    })?;
    Ok(Some(SessionId::new(id)))
}

pub(crate) fn session_header(session: &SessionId) -> Option<(HeaderName, HeaderValue)> {
    HeaderValue::from_str(session.as_str()).ok().map(|value| (SESSION, value))
}

/// A finished turn as one answer.
fn answer(app: &App, model: &str, ran: &Ran) -> Result<Response, ApiError> {
    let said = Said::of(ran)?;
    let body = json!({
        "id": completion_id(),
        "object": "chat.completion",
        "created": app.seconds(),
        "model": model,
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": said.text},
            "finish_reason": said.finish_reason,
        }],
        "usage": usage(ran.result.usage),
        "hermes": said.state(ran),
    });
    let mut response = Json(body).into_response();
    response.headers_mut().extend(session_header(&ran.session));
    Ok(response)
}

/// What a turn says in the end.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) finish_reason: &'static str,
}

impl Said {
    /// An error only where there is nothing at all to give the client: text that was received is never thrown away.
    pub(crate) fn of(ran: &Ran) -> Result<Self, ApiError> {
        let result = &ran.result;
        let text = result.response.clone().filter(|text| !text.trim().is_empty());
        let failed = result.failure.as_ref().filter(|_| result.failed() || result.interrupted());
        match (text, failed) {
            (Some(text), None) if result.partial => Ok(Self { text, finish_reason: "length" }),
            (Some(text), None) => Ok(Self { text, finish_reason: "stop" }),
            (Some(text), Some(_)) if !result.interrupted() => Ok(Self { text, finish_reason: "error" }),
            (_, Some(failure)) => Err(failure.into()),
            (None, None) => Err(ApiError::new(
                StatusCode::BAD_GATEWAY,
                "agent_incomplete",
                result.error.clone().unwrap_or_else(|| "(No response generated)".to_owned()),
            )),
        }
    }

    fn state(&self, ran: &Ran) -> Value {
        let result = &ran.result;
        json!({
            "completed": result.completed(),
            "partial": result.partial || self.finish_reason == "error",
            "failed": result.failed(),
            "error": result.error,
        })
    }
}

pub(crate) fn completion_id() -> String {
    format!("chatcmpl-{}", random_hex(29))
}

pub(crate) fn usage(usage: Usage) -> Value {
    json!({"prompt_tokens": usage.prompt(), "completion_tokens": usage.output, "total_tokens": usage.total()})
}
