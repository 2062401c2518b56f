//! Stores responses in `response_store.db`.

use hermes_store::{ResponseConversation, StoredResponse};
use hermes_types::{Message, SessionId};
use serde_json::{Value, json};

use super::request::ResponseRequest;
use crate::app::App;
use crate::error::ApiError;
use crate::run::CompletedTurn;

/// A stored response and the conversation it answers.
pub(crate) struct LoadedResponse {
    pub(crate) response: Value,
    pub(crate) history: Vec<Message>,
    pub(crate) instructions: Option<String>,
    pub(crate) session: Option<SessionId>,
}

pub(crate) async fn load(app: &App, id: &str) -> Result<Option<LoadedResponse>, ApiError> {
    let Some(text) = app.responses.find(id, app.clock.now()).await? else { return Ok(None) };
    let data: Value = serde_json::from_str(&text).unwrap_or_default();
    let history = data.get("conversation_history").cloned().unwrap_or_default();
    Ok(Some(LoadedResponse {
        response: data.get("response").cloned().unwrap_or_default(),
        history: serde_json::from_value(history).unwrap_or_default(),
        instructions: data.get("instructions").and_then(Value::as_str).map(str::to_owned),
        session: data.get("session_id").and_then(Value::as_str).map(SessionId::new),
    }))
}

/// Loads the current state of a conversation that a client named. Its session continues even when the response is
/// no longer stored.
pub(crate) async fn load_conversation(app: &App, name: &str) -> Result<Option<LoadedResponse>, ApiError> {
    if let Some(id) = app.responses.newest_in_conversation(name).await?
        && let Some(stored) = load(app, &id).await?
    {
        return Ok(Some(stored));
    }
    let Some(conversation) = app.responses.conversation(name).await? else { return Ok(None) };
    let store = &app.store;
    let newest = store.continuation(&conversation.session).await?.newest;
    let history = store.transcript(&newest).await?.into_iter().map(|row| row.message).collect();
    Ok(Some(LoadedResponse {
        response: Value::Null,
        history,
        instructions: conversation.instructions,
        session: Some(newest),
    }))
}

/// Stores a finished response, if the client wants that, and returns the response to send: the stored one, when
/// the request is a repeat. A repeat does not move its conversation back behind later responses.
pub(super) async fn store_response(
    app: &App,
    request: &ResponseRequest,
    response: Value,
    ran: &CompletedTurn,
    is_new: bool,
) -> Result<Value, ApiError> {
    if !request.store {
        return Ok(response);
    }
    let mut conversation = request.conversation.clone();
    if !is_new {
        let id = response.get("id").and_then(Value::as_str).unwrap_or_default();
        let kept = load(app, id).await?.map(|stored| stored.response);
        if let Some(kept) = kept.filter(|kept| kept.get("status") == response.get("status")) {
            return Ok(kept);
        }
        // The conversation moves to this response only if no other came in meanwhile.
        let head = match &conversation {
            Some(name) => app.responses.newest_in_conversation(name).await?,
            None => None,
        };
        conversation = conversation.filter(|_| head.is_none_or(|head| head == id));
    }
    let data = json!({
        "response": response,
        "conversation_history": ran.messages,
        "instructions": request.turn.instructions,
        "session_id": ran.answer.session.as_str(),
    });
    write(app, request, &response, &data, conversation, &ran.answer.session).await?;
    Ok(response)
}

/// Stores an incomplete response, so that it can be retrieved.
pub(super) async fn store_unfinished(
    app: &App,
    request: &ResponseRequest,
    response: &Value,
    is_new: bool,
) -> Result<(), ApiError> {
    if !request.store || !is_new {
        return Ok(());
    }
    let session = request.turn.session.id();
    let data = json!({
        "response": response,
        "conversation_history": request.turn.history,
        "instructions": request.turn.instructions,
        "session_id": session.as_str(),
    });
    write(app, request, response, &data, request.conversation.clone(), session).await
}

async fn write(
    app: &App,
    request: &ResponseRequest,
    response: &Value,
    data: &Value,
    conversation: Option<String>,
    session: &SessionId,
) -> Result<(), ApiError> {
    let conversation = conversation.map(|name| ResponseConversation {
        name,
        session: session.clone(),
        instructions: request.turn.instructions.clone(),
    });
    let kept = StoredResponse {
        id: response.get("id").and_then(Value::as_str).unwrap_or_default().to_owned(),
        data: data.to_string(),
        conversation,
        at: app.clock.now(),
    };
    app.responses.save(kept).await?;
    Ok(())
}
