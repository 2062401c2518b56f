//! Requests to token servers.
//!
//! Response bodies contain secrets, so no error contains their text; only the server's error code is used.

use std::time::Duration;

use hermes_net::header::{ACCEPT, CONTENT_TYPE};
use hermes_net::{HttpRequest, Method, Url};
use hermes_types::{Cancel, Deadline, Secret};
use serde_json::{Map, Value};

use super::CredentialContext;
use super::error::SignInError;

const LIMIT: usize = 256 * 1024;

/// The response of a token server.
pub(super) struct TokenResponse {
    pub(super) status: u16,
    pub(super) fields: Map<String, Value>,
}

/// The body of a request.
pub(super) enum TokenRequestBody<'a> {
    Form(&'a [(&'a str, &'a str)]),
    Json(Value),
}

impl TokenResponse {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        text(&self.fields, name)
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        let value = self.fields.get(name)?;
        value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|n: &f64| n.is_finite())
    }

    pub(super) fn secret(&self, name: &str) -> Option<Secret> {
        self.text(name).map(Secret::new)
    }

    /// Returns the server's error code: `error`, or `error.code` where it is an object.
    pub(super) fn refusal(&self) -> String {
        let error = self.fields.get("error");
        let word = error
            .and_then(Value::as_str)
            .or_else(|| error?.get("code")?.as_str())
            .or_else(|| error?.get("type")?.as_str())
            .or_else(|| self.text("code"))
            .unwrap_or_default();
        // An error code is short and plain; anything else might be part of a secret.
        let plain = word.len() <= 64
            && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if plain { word.to_owned() } else { String::new() }
    }

    /// Returns the error for a refusal without a special message.
    pub(super) fn failure(&self, doing: &str) -> SignInError {
        let word = self.refusal();
        let because = if word.is_empty() { String::new() } else { format!(", {word}") };
        let told = format!("{doing} failed (HTTP {}{because}).", self.status);
        if self.status >= 500 || self.status == 429 {
            SignInError::TryLater(format!("{told} Try again shortly."))
        } else {
            SignInError::Account(told)
        }
    }
}

/// Returns a field that is not blank.
pub(super) fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    fields.get(name)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// Sends a POST and reads the response, whatever its status.
pub(super) async fn post(
    means: &CredentialContext,
    url: &str,
    bearer: Option<&Secret>,
    body: TokenRequestBody<'_>,
    patience: Duration,
    cancel: &Cancel,
) -> Result<TokenResponse, SignInError> {
    let url = Url::parse(url)
        .map_err(|_| SignInError::Storage("The sign-in server's address cannot be used.".to_owned()))?;
    let mut request = HttpRequest::new(Method::POST, url).header(ACCEPT, "application/json")?;
    request = match body {
        TokenRequestBody::Form(fields) => {
            let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
            request.header(CONTENT_TYPE, "application/x-www-form-urlencoded")?.body(form)
        }
        TokenRequestBody::Json(value) => request.json(&value)?,
    };
    if let Some(token) = bearer {
        request = request.bearer(token)?;
    }
    let request = request.response_timeout(patience).stall_timeout(patience).body_limit(LIMIT);
    let deadline = Deadline::after(&*means.clock, patience);
    let response = means.net.send(request, deadline, cancel).await?;
    let status = response.status().as_u16();
    let bytes = response.bytes(LIMIT).await?;
    let fields = match serde_json::from_slice(&bytes) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    Ok(TokenResponse { status, fields })
}
