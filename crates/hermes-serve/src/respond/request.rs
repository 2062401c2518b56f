//! What a client asks for, with what it builds on.

use hermes_types::{SessionId, random_hex};
use serde_json::Value;

use crate::app::App;
use crate::error::ApiError;
use crate::field::{self, Object};
use crate::input::{Basis, Input};
use crate::run::{Asked, Session, ToolState, derived_session};

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
        let mut basis = Basis::Nothing;
        if let Some(name) = &conversation {
            previous = app.responses.named(name).await?;
            basis = Basis::Conversation(name);
        } else if let Some(id) = &previous {
            basis = Basis::Response(id);
        }
        let mut input = Input::read(app, body, basis).await?;
        if field::text(body, "truncation")? == Some("auto") && input.history.len() > TRUNCATED_TO {
            input.history.drain(..input.history.len() - TRUNCATED_TO);
        }
        let first_words = input.first_words();
        let Input { history, content, instructions, session, told } = input;
        let session = match (session, &conversation) {
            // Two conversations may begin with the same words.
            (None, Some(_)) => Session::Continued(SessionId::new(format!("api-{}", random_hex(16)))),
            (Some(session), Some(_)) if !told => Session::Continued(session),
            (Some(session), _) => Session::Matching(session, ToolState::Kept),
            (None, None) => {
                Session::Matching(derived_session(instructions.as_deref(), &first_words), ToolState::Kept)
            }
        };
        Ok(Self {
            asked: Asked { history, input: content, instructions, session },
            stream: field::flag(body, "stream", false)?,
            store: field::flag(body, "store", true)?,
            model: field::text(body, "model")?.map(str::to_owned),
            previous,
            conversation,
        })
    }
}

/// A name, or an object with one.
fn conversation_name(body: &Object) -> Result<Option<String>, ApiError> {
    match body.get("conversation") {
        Some(Value::Object(object)) => Ok(field::text(object, "id")?.map(str::to_owned)),
        _ => Ok(field::text(body, "conversation")?.map(str::to_owned)),
    }
}
