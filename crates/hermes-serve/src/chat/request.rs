//! Parses a client's request and checks it field by field.

use hermes_types::{Message, SessionId};
use serde_json::Value;

use crate::error::ApiError;
use crate::field::{self, BodyObject, kind};
use crate::input::{tool_result, with_calls};
use crate::run::{ApiTurnRequest, SessionChoice, ToolState, derived_session};

/// A request that can be run.
#[derive(Debug, Clone)]
pub(super) struct ChatRequest {
    pub(super) turn: ApiTurnRequest,
    pub(super) stream: bool,
    /// The client's model name, which is only echoed: the configuration decides which model answers.
    model: Option<String>,
}

impl ChatRequest {
    pub(super) fn read(body: &BodyObject, named: Option<SessionId>) -> Result<Self, ApiError> {
        let messages = match body.get("messages") {
            Some(Value::Array(messages)) if !messages.is_empty() => messages,
            Some(Value::Array(_)) | None => {
                return Err(ApiError::invalid_field(
                    "messages",
                    "`messages` must be a list with at least one message",
                ));
            }
            Some(other) => {
                return Err(ApiError::invalid_field(
                    "messages",
                    format!("`messages` must be a list, not {}", kind(other)),
                ));
            }
        };
        let (system, mut history) = read_messages(messages)?;
        let input = match history.pop() {
            Some(last)
                if last.role == hermes_types::Role::User && !last.content.text().trim().is_empty()
                    || matches!(&last.content, hermes_types::MessageContent::Parts(_)) =>
            {
                last.content
            }
            _ => {
                return Err(ApiError::invalid_field(
                    "messages",
                    "The last message must be a user message with some content",
                ));
            }
        };
        let first_words =
            history.first().map_or_else(|| input.text().into_owned(), |m| m.content.text().into_owned());
        let session = match named {
            Some(session) => SessionChoice::Named(session),
            None => {
                SessionChoice::Matching(derived_session(system.as_deref(), &first_words), ToolState::Dropped)
            }
        };
        Ok(Self {
            turn: ApiTurnRequest { history, input, instructions: system, session },
            stream: field::flag(body, "stream", false)?,
            model: field::text(body, "model")?.map(str::to_owned),
        })
    }

    pub(super) fn model_or(&self, default: &str) -> String {
        self.model.clone().filter(|model| !model.is_empty()).unwrap_or_else(|| default.to_owned())
    }
}

/// Returns the system texts as one, and the messages of the user, the assistant and the client's tools.
fn read_messages(messages: &[Value]) -> Result<(Option<String>, Vec<Message>), ApiError> {
    let mut system = Vec::new();
    let mut history = Vec::new();
    for (index, value) in messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        let Value::Object(message) = value else {
            return Err(ApiError::invalid_field(
                &at,
                format!("`{at}` must be an object, not {}", kind(value)),
            ));
        };
        let role = match message.get("role") {
            Some(Value::String(role)) => role.as_str(),
            Some(other) => {
                return Err(ApiError::invalid_field(
                    format!("{at}.role"),
                    format!("`{at}.role` must be a string, not {}", kind(other)),
                ));
            }
            None => {
                return Err(ApiError::invalid_field(format!("{at}.role"), format!("`{at}.role` is missing")));
            }
        };
        let content = || field::content(message.get("content"), &format!("{at}.content"));
        match role {
            "system" | "developer" => system.push(content()?.text().into_owned()),
            "user" => history.push(Message::user(content()?)),
            "assistant" => history.push(Message::assistant(with_calls(&content()?, message))),
            // The server cannot call the client's own tools; their results are part of the conversation.
            "tool" | "function" => history.push(Message::user(tool_result(&content()?, message))),
            _ => {}
        }
    }
    let system = system.join("\n");
    Ok(((!system.trim().is_empty()).then_some(system), history))
}
