//! `/v1/responses`: answers that can be built on.

mod request;
mod stored;
mod stream;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hermes_types::{Message, Role, Usage, random_hex};
use serde_json::{Value, json};

use crate::app::App;
use crate::chat::session_header;
use crate::error::ApiError;
use crate::field;
use crate::follow::Listener;
use crate::guard::read_body;
use crate::keyed;
use crate::run::{self, Ran};
use crate::said::Finish;
use request::ResponseRequest;

/// What makes two requests the same.
const SAME: [&str; 6] = ["input", "instructions", "previous_response_id", "conversation", "model", "tools"];

pub(crate) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = field::object(&read_body(&app, &headers, body).await?)?;
    let request = ResponseRequest::read(&app, &body).await?;
    let keyed = keyed::request("/v1/responses", &headers, &body, &SAME)?;
    let room = app.room()?;
    if request.stream {
        return Ok(stream::answer(&app, request, keyed, room));
    }
    let ran = run::perform(&app, keyed, request.asked.clone(), Listener(None), room).await?;
    let status = if ran.said.finish == Finish::Stop { "completed" } else { "incomplete" };
    let object = object(&app, &request, &response_id(), status, &output(&ran), ran.said.usage);
    stored::keep(&app, &request, &object, &ran).await?;
    let mut response = Json(object).into_response();
    response.headers_mut().extend(session_header(&ran.said.session));
    Ok(response)
}

pub(crate) async fn find(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    Ok(Json(stored::load(&app, &id).await?.ok_or_else(|| unknown(&id))?.response))
}

pub(crate) async fn remove(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    if !app.responses.remove(&id).await? {
        return Err(unknown(&id));
    }
    Ok(Json(json!({"id": id, "object": "response", "deleted": true})))
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("Response not found: {id}"))
}

pub(super) fn response_id() -> String {
    format!("resp_{}", random_hex(28))
}

/// The answer as an object.
fn object(
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
        "created_at": app.seconds(),
        "model": request.model.as_deref().unwrap_or(&app.settings.model_name),
        "output": output,
        "instructions": request.asked.instructions,
        "previous_response_id": request.previous,
        "metadata": {},
        "parallel_tool_calls": true,
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

/// What happened in this turn, and in no other.
fn output(ran: &Ran) -> Vec<Value> {
    let mut items = Vec::new();
    for message in ran.messages.get(ran.first..).unwrap_or_default() {
        items.extend(message.tool_calls.iter().map(|call| {
            json!({
                "type": "function_call",
                "id": format!("fc_{}", random_hex(24)),
                "status": "completed",
                "name": call.name,
                "arguments": call.arguments,
                "call_id": call.id.as_str(),
            })
        }));
        items.extend(result_item(message));
    }
    items.push(message_item(&format!("msg_{}", random_hex(24)), "completed", &ran.said.text));
    items
}

fn result_item(message: &Message) -> Option<Value> {
    let id = message.tool_call_id.as_ref().filter(|_| message.role == Role::Tool)?;
    Some(json!({"type": "function_call_output", "call_id": id.as_str(), "output": message.content.text()}))
}

fn message_item(id: &str, status: &str, text: &str) -> Value {
    json!({
        "type": "message", "id": id, "status": status, "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    })
}
