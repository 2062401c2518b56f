//! Parses a client's request and loads the answer it builds on.

use hermes_types::{SessionId, random_hex};
use serde_json::Value;

use crate::app::App;
use crate::error::ApiError;
use crate::field::{self, BodyObject};
use crate::input::{ResponseBasis, ResponseInput};
use crate::run::{ApiTurnRequest, SessionChoice, ToolState, derived_session};

/// The number of history items kept when the client asks for truncation.
const TRUNCATED_TO: usize = 100;

#[derive(Debug, Clone)]
pub(super) struct ResponseRequest {
    pub(super) turn: ApiTurnRequest,
    pub(super) stream: bool,
    pub(super) store: bool,
    pub(super) model: Option<String>,
    pub(super) previous: Option<String>,
    pub(super) conversation: Option<String>,
}

impl ResponseRequest {
    pub(super) async fn read(app: &App, body: &BodyObject) -> Result<Self, ApiError> {
        let conversation = conversation_name(body)?;
        let mut previous = field::text(body, "previous_response_id")?.map(str::to_owned);
        if conversation.is_some() && previous.is_some() {
            return Err(ApiError::invalid_field(
                "conversation",
                "`conversation` and `previous_response_id` exclude each other",
            ));
        }
        let mut basis = ResponseBasis::Nothing;
        if let Some(name) = &conversation {
            previous = app.responses.newest_in_conversation(name).await?;
            basis = ResponseBasis::Conversation(name);
        } else if let Some(id) = &previous {
            basis = ResponseBasis::Response(id);
        }
        let mut input = ResponseInput::read(app, body, basis).await?;
        if field::text(body, "truncation")? == Some("auto") && input.history.len() > TRUNCATED_TO {
            input.history.drain(..input.history.len() - TRUNCATED_TO);
        }
        let first_words = input.first_words();
        let ResponseInput { history, content, instructions, session, has_client_history: told } = input;
        let session = match (session, &conversation) {
            // Two conversations may begin with the same text, so a new one gets a random id.
            (None, Some(_)) => SessionChoice::Continued(SessionId::new(format!("api-{}", random_hex(16)))),
            (Some(session), Some(_)) if !told => SessionChoice::Continued(session),
            (Some(session), _) => SessionChoice::Matching(session, ToolState::Kept),
            (None, None) => SessionChoice::Matching(
                derived_session(instructions.as_deref(), &first_words),
                ToolState::Kept,
            ),
        };
        Ok(Self {
            turn: ApiTurnRequest { history, input: content, instructions, session },
            stream: field::flag(body, "stream", false)?,
            store: field::flag(body, "store", true)?,
            model: field::text(body, "model")?.map(str::to_owned),
            previous,
            conversation,
        })
    }
}

/// Reads a name, or an object that holds one.
fn conversation_name(body: &BodyObject) -> Result<Option<String>, ApiError> {
    match body.get("conversation") {
        Some(Value::Object(object)) => Ok(field::text(object, "id")?.map(str::to_owned)),
        _ => Ok(field::text(body, "conversation")?.map(str::to_owned)),
    }
}
