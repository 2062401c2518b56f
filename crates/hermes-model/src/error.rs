//! The reasons why an answer could not be read.

use hermes_types::{JsonFields, RawJson};
use thiserror::Error;

use crate::wire::fields::JsonFieldsExt as _;

/// The error of reading an answer, named for what the caller can do. None of them may be shown as an answer, and no
/// tool call read before one of them may be run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The bytes are not in the format of this wire, or ended inside an event.
    #[error("the provider's answer cannot be read: {reason}")]
    Retry { reason: String },
    /// The answer is readable, but a required part is missing. A fallback may be tried at once.
    #[error("invalid API response shape: {missing}")]
    UseFallback { missing: &'static str },
    /// The provider reported a failure inside an answer that began well.
    #[error("{0}")]
    Classify(ProviderFault),
}

/// A provider's description of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Default, Error)]
#[error("{message}")]
pub struct ProviderFault {
    pub message: String,
    /// The provider's name for the kind of failure, such as `overloaded_error`.
    pub kind: Option<String>,
    pub code: Option<String>,
    /// The parameter at fault.
    pub param: Option<String>,
    /// The HTTP status that is named or implied.
    pub status: Option<u16>,
}

impl ProviderFault {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Reads the value of an `error` field, or a whole error object, in any of the formats that providers use.
    pub(crate) fn read(raw: &RawJson) -> Self {
        if let Ok(text) = raw.read::<String>() {
            return Self::new(text);
        }
        let Ok(fields) = raw.read::<JsonFields>() else {
            return Self::new(raw.as_str());
        };
        if let Some(inner) = fields.get("error").filter(|inner| !inner.is_null()) {
            let mut fault = Self::read(inner);
            fault.kind = fault.kind.or_else(|| fields.text("type").filter(|kind| kind != "error"));
            if fault.message.is_empty() {
                fault.message = fields.text("message").unwrap_or_default();
            }
            return fault;
        }
        let mut message = ["message", "Message", "detail", "error_description", "msg"]
            .into_iter()
            .find_map(|name| fields.get(name).filter(|raw| !raw.is_null()))
            .map(|raw| raw.read::<String>().unwrap_or_else(|_| raw.as_str().to_owned()))
            .unwrap_or_default();
        // OpenRouter wraps the upstream's error, which is the informative part.
        if let Some(upstream) = fields.object("metadata").and_then(|metadata| metadata.text("raw")) {
            let inner = RawJson::parse(upstream.clone()).map_or(upstream, |raw| Self::read(&raw).message);
            if !inner.is_empty() && !message.contains(&inner) {
                message = format!("{message}: {inner}");
            }
        }
        let code = fields.scalar("code");
        let status = fields
            .number("status")
            .or_else(|| code.as_deref().and_then(|code| code.parse().ok()))
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (400..600).contains(status));
        let kind = fields.text("type").or_else(|| fields.text("__type")).or_else(|| fields.text("status"));
        let mut fault = Self { message, kind, code, param: fields.text("param"), status };
        fault.status = fault.status.or_else(|| fault.implied_status());
        fault
    }

    /// Returns the status implied by a kind, because a stream cannot change its 200 any more.
    fn implied_status(&self) -> Option<u16> {
        let names = [self.kind.as_deref(), self.code.as_deref()];
        names.into_iter().flatten().find_map(|name| {
            Some(match name {
                "overloaded_error" => 529,
                "rate_limit_error" | "rate_limit_exceeded" => 429,
                "api_error" | "server_error" => 500,
                "authentication_error" => 401,
                "permission_error" => 403,
                "not_found_error" => 404,
                "request_too_large" => 413,
                "invalid_request_error" | "context_length_exceeded" => 400,
                "billing_error" => 402,
                _ => return None,
            })
        })
    }
}

impl Error {
    pub(crate) fn unreadable(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into() }
    }
}
