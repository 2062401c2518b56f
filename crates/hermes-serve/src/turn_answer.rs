//! The answer of a turn, in a form that can be stored.

use axum::http::StatusCode;
use hermes_agent::TurnResult;
use hermes_types::{FinishReason, SessionId, Usage};
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
        let (completed, failed, interrupted) = (result.completed(), result.failed(), result.interrupted());
        let text = result.response.filter(|text| !text.trim().is_empty());
        let failure = result.failure.filter(|_| failed || interrupted);
        let error_code = failure.as_ref().and_then(|failure| ApiError::from(failure).code).map(String::from);
        let (text, finish) = match (text, failure) {
            (Some(text), None) if result.partial => (text, ApiFinishReason::Length),
            (Some(text), None) if last == Some(&FinishReason::ContentFilter) => {
                (text, ApiFinishReason::ContentFilter)
            }
            (Some(text), None) => (text, ApiFinishReason::Stop),
            (Some(text), Some(_)) if !interrupted => (text, ApiFinishReason::Error),
            (_, Some(failure)) => return Err((&failure).into()),
            (None, None) => {
                let words = result.error.unwrap_or_else(|| "(No response generated)".to_owned());
                return Err(ApiError::new(StatusCode::BAD_GATEWAY, "agent_incomplete", words));
            }
        };
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
