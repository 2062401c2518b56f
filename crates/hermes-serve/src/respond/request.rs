//! What a client asks for, with what it builds on.

use hermes_types::{Content, Message, Role, SessionId};
use serde_json::Value;

use super::stored;
use crate::app::App;
use crate::error::ApiError;
use crate::field::{self, Object, kind};
use crate::run::{Asked, Session, derived_session};

/// History items kept when the client asks for it.
const TRUNCATED_TO: usize = 100;

#[derive(Debug, Clone)]
pub(super) struct ResponseRequest {
    pub(super) asked: Asked,
    pub(super) stream: bool,
    pub(super) store: bool,
    pub(super) model: Option<String>,
    pub(super) previous: Option<String>,
    pub(super) conversation: Option<String>,
}

impl ResponseRequest {
    pub(super) async fn read(app: &App, body: &Object) -> Result<Self, ApiError> {
        let conversation = conversation_name(body)?;
        let mut previous = field::text(body, "previous_response_id")?.map(str::to_owned);
        if conversation.is_some() && previous.is_some() {
            return Err(ApiError::field(
                "conversation",
                "`conversation` and `previous_response_id` exclude each other",
            ));
        }
        let (given, input) = read_input(body)?;
        if let Some(name) = &conversation {
            previous = app.responses.named(name).await?;
        }
        let mut instructions = field::text(body, "instructions")?.map(str::to_owned);
        let mut history = Vec::new();
        let mut session = None;
        if let Some(id) = &previous {
            let stored = stored::load(app, id).await?.ok_or_else(|| ApiError {
                param: Some("previous_response_id".to_owned()),
                ..ApiError::not_found(format!("Previous response not found: {id}"))
            })?;
            history = stored.history;
            instructions = instructions.or(stored.instructions);
            session = stored.session;
        }
        history.extend(given);
        if field::text(body, "truncation")? == Some("auto") && history.len() > TRUNCATED_TO {
            history.drain(..history.len() - TRUNCATED_TO);
        }
        let first =
            history.first().map_or_else(|| input.text().into_owned(), |m| m.content.text().into_owned());
        let session = session.unwrap_or_else(|| derived_session(instructions.as_deref(), &first));
        Ok(Self {
            asked: Asked { history, input, instructions, session: Session::Matching(session) },
            stream: field::flag(body, "stream", false)?,
            store: field::flag(body, "store", true)?,
            model: field::text(body, "model")?.map(str::to_owned),
            previous,
            conversation,
        })
    }

    /// The session of the chain goes on only while its history is the same.
    pub(super) fn session(&self) -> &SessionId {
        match &self.asked.session {
            Session::Named(session) | Session::Matching(session) => session,
        }
    }
}

/// A name, or an object with one.
fn conversation_name(body: &Object) -> Result<Option<String>, ApiError> {
    match body.get("conversation") {
        Some(Value::Object(object)) => Ok(field::text(object, "id")?.map(str::to_owned)),
        _ => Ok(field::text(body, "conversation")?.map(str::to_owned)),
    }
}

/// All but the last item is history; the last one is the question.
fn read_input(body: &Object) -> Result<(Vec<Message>, Content), ApiError> {
    let items = match body.get("input") {
        Some(Value::String(text)) if !text.trim().is_empty() => {
            return Ok((Vec::new(), Content::Text(text.clone())));
        }
        Some(Value::Array(items)) if !items.is_empty() => items,
        Some(Value::String(_) | Value::Array(_)) | None => {
            return Err(ApiError::field("input", "`input` must be a text or a list with at least one item"));
        }
        Some(other) => {
            return Err(ApiError::field(
                "input",
                format!("`input` must be a text or a list, not {}", kind(other)),
            ));
        }
    };
    let mut messages: Vec<Message> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        messages.extend(read_item(item, &format!("input[{index}]"))?);
    }
    match messages.pop() {
        Some(last) if last.role == Role::User && !last.content.is_empty() => Ok((messages, last.content)),
        _ => Err(ApiError::field("input", "The last item of `input` must be something the user said")),
    }
}

fn read_item(item: &Value, at: &str) -> Result<Option<Message>, ApiError> {
    match item {
        Value::String(text) => Ok(Some(Message::user(text.clone()))),
        Value::Object(object) => {
            let content = || field::content(object.get("content"), &format!("{at}.content"));
            match object.get("role").and_then(Value::as_str) {
                Some("user") => Ok(Some(Message::user(content()?))),
                Some("assistant") => Ok(Some(Message::assistant(content()?))),
                Some(_) => Ok(None),
                // Items of other kinds (calls, their results, reasoning) belong to the client's record.
                None if object.get("type").and_then(Value::as_str).is_some() => Ok(None),
                None => Err(ApiError::field(format!("{at}.role"), format!("`{at}.role` is missing"))),
            }
        }
        other => Err(ApiError::field(at, format!("`{at}` must be a text or an object, not {}", kind(other)))),
    }
}
