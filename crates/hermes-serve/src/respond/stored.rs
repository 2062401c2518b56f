//! Answers in `response_store.db`.

use hermes_types::{Message, SessionId};
use serde_json::{Value, json};

use super::request::ResponseRequest;
use crate::app::App;
use crate::error::ApiError;
use crate::run::Ran;

/// An answer and what it was an answer to.
pub(crate) struct Stored {
    pub(crate) response: Value,
    pub(crate) history: Vec<Message>,
    pub(crate) instructions: Option<String>,
    pub(crate) session: Option<SessionId>,
}

pub(crate) async fn load(app: &App, id: &str) -> Result<Option<Stored>, ApiError> {
    let Some(text) = app.responses.find(id, app.gateway.clock.now()).await? else { return Ok(None) };
    let data: Value = serde_json::from_str(&text).unwrap_or_default();
    let history = data.get("conversation_history").cloned().unwrap_or_default();
    Ok(Some(Stored {
        response: data.get("response").cloned().unwrap_or_default(),
        history: serde_json::from_value(history).unwrap_or_default(),
        instructions: data.get("instructions").and_then(Value::as_str).map(str::to_owned),
        session: data.get("session_id").and_then(Value::as_str).map(SessionId::new),
    }))
}

/// Keeps a finished answer, if the client wants that.
pub(super) async fn keep(
    app: &App,
    request: &ResponseRequest,
    response: &Value,
    ran: &Ran,
) -> Result<(), ApiError> {
    if !request.store {
        return Ok(());
    }
    let data = json!({
        "response": response,
        "conversation_history": ran.messages,
        "instructions": request.asked.instructions,
        "session_id": ran.said.session.as_str(),
    });
    write(app, request, response, &data).await
}

/// Keeps an answer that is not complete, so that it can be asked for.
pub(super) async fn keep_unfinished(
    app: &App,
    request: &ResponseRequest,
    response: &Value,
) -> Result<(), ApiError> {
    if !request.store {
        return Ok(());
    }
    let data = json!({
        "response": response,
        "conversation_history": request.asked.history,
        "instructions": request.asked.instructions,
        "session_id": request.session().as_str(),
    });
    write(app, request, response, &data).await
}

async fn write(app: &App, request: &ResponseRequest, response: &Value, data: &Value) -> Result<(), ApiError> {
    let id = response.get("id").and_then(Value::as_str).unwrap_or_default();
    let now = app.gateway.clock.now();
    app.responses.keep(id, data.to_string(), request.conversation.clone(), now).await?;
    Ok(())
}
