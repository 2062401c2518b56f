//! Errors in the shape clients of the OpenAI API expect.

use std::borrow::Cow;

use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use hermes_agent::{PastTurn, describe_calls};
use hermes_store::ToolCallRecord;
use hermes_types::ModelError;
use serde_json::json;
use thiserror::Error;

/// The reason why the server does not start, by what the user can do.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(
        "the API server needs a key: run `hermes gateway setup` to make one, or set API_SERVER_KEY in .env"
    )]
    NoKey,
    #[error(
        "cannot listen on {address}: {reason}. Another program may be using the port; API_SERVER_PORT or WEBHOOK_PORT chooses another"
    )]
    Address { address: String, reason: String },
    #[error(
        "the webhook route `{route}` has no secret: give it one in config.yaml, or set WEBHOOK_SECRET; INSECURE_NO_AUTH \
         checks nothing and is for 127.0.0.1 only"
    )]
    OpenRoute { route: String },
    #[error(transparent)]
    Store(#[from] hermes_store::Error),
}

/// An error response.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    pub(crate) code: Option<Cow<'static, str>>,
    /// The name of the invalid field.
    pub(crate) param: Option<String>,
    /// The seconds until a retry makes sense.
    pub(crate) retry_after: Option<u32>,
    /// Says whether client libraries may repeat the request.
    pub(crate) retry: ClientRetry,
}

/// Says whether a client library may repeat a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientRetry {
    ByStatus,
    /// The turn has called tools: a repeat would call them again.
    Never,
}

impl ApiError {
    pub(crate) fn new(
        status: StatusCode,
        code: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            message: message.into(),
            code: Some(code.into()),
            param: None,
            retry_after: None,
            retry: ClientRetry::ByStatus,
        }
    }

    /// Reports a body that cannot be used, and the invalid field.
    pub(crate) fn invalid_field(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: message.into(),
            code: Some("invalid_value".into()),
            param: Some(param.into()),
            retry_after: None,
            retry: ClientRetry::ByStatus,
        }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    pub(crate) fn busy() -> Self {
        Self {
            retry_after: Some(1),
            ..Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limit_exceeded",
                "Too many turns are running; try again in a moment",
            )
        }
    }

    pub(crate) fn draining() -> Self {
        let message = "The gateway is about to restart and takes no new turns";
        Self {
            retry_after: Some(5),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "gateway_draining", message)
        }
    }

    /// Reports that the server stops while an answer is being written.
    pub(crate) fn shutting_down() -> Self {
        let message = "The gateway was stopped in the middle of this answer; ask again";
        Self { retry_after: Some(5), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "interrupted", message) }
    }

    /// Reports a turn that was cut off twice, with a status that client libraries do not retry.
    pub(crate) fn interrupted_twice() -> Self {
        let message = "Hermes was cut off twice while it worked on this request, so it is not tried again. What was done \
                       until then is kept; send the request with another Idempotency-Key to run it again";
        Self { retry: ClientRetry::Never, ..Self::new(StatusCode::GONE, "cut_off_twice", message) }
    }

    /// Marks this as the failure of a turn that had started these tools, so that client libraries do not repeat
    /// it.
    #[must_use]
    pub(crate) fn after_tool_calls(mut self, calls: &[ToolCallRecord]) -> Self {
        if calls.is_empty() {
            return self;
        }
        if matches!(self.status.as_u16(), 408 | 409 | 429 | 500..) {
            self.status = StatusCode::FAILED_DEPENDENCY;
        }
        self.message = format!("{} {}", self.message, describe_calls(calls));
        self.retry_after = None;
        self.retry = ClientRetry::Never;
        self
    }

    /// Reports a request that ran before, called tools, and ended without an answer.
    pub(crate) fn repeated(past: &PastTurn) -> Self {
        let message = "This request was run before and ended without an answer. It is not run again by itself, because that \
                       would repeat what its tools did; change it, or send it with another Idempotency-Key, to run it again.";
        Self::new(StatusCode::FAILED_DEPENDENCY, "already_acted", message).after_tool_calls(&past.calls)
    }

    /// Tells whether the failed turn had started tools.
    pub(crate) fn has_acted(&self) -> bool {
        self.retry == ClientRetry::Never
    }

    fn kind(&self) -> &'static str {
        if self.status.is_server_error() { "server_error" } else { "invalid_request_error" }
    }

    pub(crate) fn body(&self) -> serde_json::Value {
        json!({"error": {"message": self.message, "type": self.kind(), "param": self.param, "code": self.code}})
    }
}

impl From<hermes_store::Error> for ApiError {
    fn from(error: hermes_store::Error) -> Self {
        tracing::error!(%error, "a request failed at the database");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "storage_unavailable", error.to_string())
    }
}

impl From<&ModelError> for ApiError {
    /// Converts a model error to a response whose status says who can fix it.
    fn from(error: &ModelError) -> Self {
        let message = error.to_string();
        match error {
            ModelError::Compress { .. } | ModelError::TooLarge => {
                Self::new(StatusCode::BAD_REQUEST, "context_length_exceeded", message)
            }
            ModelError::Budget(_) => Self::new(StatusCode::TOO_MANY_REQUESTS, "insufficient_quota", message),
            ModelError::Cancelled => Self::new(StatusCode::SERVICE_UNAVAILABLE, "interrupted", message),
            ModelError::DeadlinePassed(_) => {
                Self::new(StatusCode::GATEWAY_TIMEOUT, "upstream_timeout", message)
            }
            ModelError::Configure(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "provider_not_configured", message)
            }
            ModelError::GiveUp { status, .. } => match status {
                Some(429) => Self {
                    retry_after: Some(10),
                    ..Self::new(StatusCode::TOO_MANY_REQUESTS, "upstream_rate_limit", message)
                },
                Some(401 | 403) => {
                    Self::new(StatusCode::BAD_GATEWAY, "upstream_authentication_failed", message)
                }
                Some(400..=499) => Self::new(StatusCode::BAD_GATEWAY, "upstream_rejected", message),
                _ => Self::new(StatusCode::BAD_GATEWAY, "upstream_failed", message),
            },
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
        }
        if self.retry == ClientRetry::Never {
            response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
        }
        response
    }
}
