//! The answer of a turn, in a form that can be stored.

use axum::http::StatusCode;
use hermes_agent::{NO_RESPONSE, TurnEnding, TurnResult};
use hermes_types::{FinishReason, ModelError, SessionId, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ApiError;

/// The final text of a turn, and how the turn ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TurnAnswer {
    pub(crate) text: String,
    pub(crate) finish: ApiFinishReason,
    pub(crate) usage: Usage,
    /// The conversation's current session.
    pub(crate) session: SessionId,
    completed: bool,
    partial: bool,
    failed: bool,
    error: Option<String>,
    /// The kind of failure.
    #[serde(default)]
    error_code: Option<String>,
}

/// The reason why the text ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApiFinishReason {
    Stop,
    Length,
    ContentFilter,
    Error,
}

impl ApiFinishReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ContentFilter => "content_filter",
            Self::Error => "error",
        }
    }
}

impl TurnAnswer {
    /// Converts a turn's result. It is an error only where there is nothing to give the client: received text is
    /// never discarded.
    pub(crate) fn from_result(result: TurnResult, last: Option<&FinishReason>) -> Result<Self, ApiError> {
        let incomplete = |reason: Option<&str>| {
            ApiError::new(StatusCode::BAD_GATEWAY, "agent_incomplete", reason.unwrap_or(NO_RESPONSE))
        };
        let (completed, failed) = (result.completed(), result.failed());
        let mut error_code = None;
        let (text, finish) = match result.ending() {
            TurnEnding::Answered(text) if last == Some(&FinishReason::ContentFilter) => {
                (text, ApiFinishReason::ContentFilter)
            }
            TurnEnding::Answered(text) | TurnEnding::Failed { text: Some(text), failure: None, .. } => {
                (text, ApiFinishReason::Stop)
            }
            TurnEnding::CutShort(text) => (text, ApiFinishReason::Length),
            TurnEnding::Failed { text: Some(text), failure: Some(failure), .. } => {
                error_code = ApiError::from(failure).code.map(String::from);
                (text, ApiFinishReason::Error)
            }
            TurnEnding::Failed { text: None, failure: Some(failure), .. } => return Err(failure.into()),
            TurnEnding::Interrupted { .. } => return Err((&ModelError::Cancelled).into()),
            TurnEnding::Silent { reason } | TurnEnding::Failed { reason, .. } => {
                return Err(incomplete(reason));
            }
        };
        let text = text.to_owned();
        Ok(Self {
            text,
            finish,
            usage: result.usage,
            session: result.session,
            completed,
            partial: result.partial || finish == ApiFinishReason::Error,
            failed,
            error: result.error,
            error_code,
        })
    }

    /// Creates the answer of a turn that succeeded, from its transcript, when its result was never sent.
    pub(crate) fn from_transcript(text: String, session: SessionId) -> Self {
        Self {
            text,
            finish: ApiFinishReason::Stop,
            usage: Usage::default(),
            session,
            completed: true,
            partial: false,
            failed: false,
            error: None,
            error_code: None,
        }
    }

    /// Returns why the text was cut off, if it was.
    pub(crate) fn failure(&self) -> Option<ApiError> {
        let message = self.error.clone().unwrap_or_else(|| "The answer was cut off".to_owned());
        let code = self.error_code.clone().unwrap_or_else(|| "upstream_failed".to_owned());
        (self.finish == ApiFinishReason::Error).then(|| ApiError::new(StatusCode::BAD_GATEWAY, code, message))
    }

    /// Returns the state reported beside the text.
    pub(crate) fn state_json(&self) -> Value {
        json!({
            "completed": self.completed, "partial": self.partial, "failed": self.failed, "error": self.error,
            "error_code": self.error_code,
        })
    }
}
