//! The Web API: calls and their errors.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::{
    Error, HttpClient, HttpRequest, HttpResponse, Method, StatusCode, Url, header, retry_after,
};
use hermes_types::{Cancel, ChannelError, Clock, Deadline, Secret};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(30);
const LARGEST_ANSWER: usize = 4 * 1024 * 1024;

/// The encoding of a method's arguments; some methods accept only forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MethodArguments<'a> {
    Json(&'a Value),
    Form(&'a [(&'a str, &'a str)]),
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlackError {
    pub(super) error: ChannelError,
    /// Slack's error code.
    pub(super) code: String,
    /// True when the call may have succeeded all the same.
    pub(super) may_have_succeeded: bool,
}

impl SlackError {
    fn new(error: ChannelError, code: &str) -> Self {
        Self { error, code: code.to_owned(), may_have_succeeded: false }
    }

    /// Converts the error for a message that must not be sent twice.
    pub(super) fn into_send_error(self) -> ChannelError {
        match self.error {
            ChannelError::Retry { reason, .. } if self.may_have_succeeded => {
                ChannelError::DeliveryUnknown(reason)
            }
            error => error,
        }
    }
}

impl From<SlackError> for ChannelError {
    fn from(failure: SlackError) -> Self {
        failure.error
    }
}

/// A client of the Web API with a token.
#[derive(Clone)]
pub(super) struct SlackApi {
    pub(super) client: HttpClient,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) base: Url,
    pub(super) token: Secret,
}

impl SlackApi {
    pub(super) async fn call(
        &self,
        method: &str,
        arguments: MethodArguments<'_>,
    ) -> Result<Value, SlackError> {
        self.call_as(&self.token, method, arguments).await
    }

    pub(super) async fn call_as(
        &self,
        token: &Secret,
        method: &str,
        arguments: MethodArguments<'_>,
    ) -> Result<Value, SlackError> {
        let request = self.request(token, method, arguments).map_err(|error| network_error(&error))?;
        let response = self.send(request).await?;
        let status = response.status();
        if status == StatusCode::TOO_MANY_REQUESTS {
            let after = retry_after(response.headers(), self.clock.now());
            let reason = format!("Slack limits how often {method} is called");
            return Err(SlackError::new(ChannelError::Retry { after, reason }, "ratelimited"));
        }
        if !status.is_success() {
            let reason = format!("{method}: Slack answered with status {}", status.as_u16());
            let mut failure = SlackError::new(ChannelError::Retry { after: None, reason }, "http");
            failure.may_have_succeeded = status.is_server_error();
            return Err(failure);
        }
        let body: Value = response.json(LARGEST_ANSWER).await.map_err(|error| network_error(&error))?;
        if body.get("ok").and_then(Value::as_bool) == Some(true) {
            return Ok(body);
        }
        let code = body.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        Err(refusal_error(method, code))
    }

    fn request(
        &self,
        token: &Secret,
        method: &str,
        arguments: MethodArguments<'_>,
    ) -> Result<HttpRequest, Error> {
        let url = self.base.join(method).map_err(|_| Error::InvalidUrl)?;
        let request = HttpRequest::new(Method::POST, url).bearer(token)?.response_timeout(TIMEOUT);
        match arguments {
            MethodArguments::Json(value) => {
                let typed = request.json(value)?;
                typed.header(header::CONTENT_TYPE, "application/json; charset=utf-8")
            }
            MethodArguments::Form(pairs) => {
                let body = form(pairs);
                Ok(request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")?.body(body))
            }
        }
    }

    /// Sends a request that is not a method call: an upload or a download.
    pub(super) async fn send(&self, request: HttpRequest) -> Result<HttpResponse, SlackError> {
        let deadline = Deadline::after(&*self.clock, TIMEOUT.saturating_mul(4));
        self.client.send(request, deadline, &Cancel::new()).await.map_err(|error| network_error(&error))
    }
}

fn form(pairs: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://form/").ok();
    if let Some(url) = &mut url {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    url.and_then(|url| url.query().map(str::to_owned)).unwrap_or_default()
}

/// Builds the error for a network failure; the request certainly did not arrive only if there was no connection.
pub(super) fn network_error(error: &Error) -> SlackError {
    let unsure = !matches!(
        error,
        Error::Connect { .. } | Error::InvalidUrl | Error::Settings { .. } | Error::Tls { .. }
    );
    let after = None;
    SlackError {
        error: ChannelError::Retry { after, reason: error.to_string() },
        code: "network".to_owned(),
        may_have_succeeded: unsure,
    }
}

fn refusal_error(method: &str, code: &str) -> SlackError {
    let error = match code {
        "invalid_auth"
        | "not_authed"
        | "account_inactive"
        | "token_revoked"
        | "token_expired"
        | "not_allowed_token_type" => ChannelError::Reauthorise(format!(
            "Slack does not take the token ({code}); check SLACK_BOT_TOKEN and SLACK_APP_TOKEN"
        )),
        "missing_scope" | "no_permission" | "ekm_access_denied" => ChannelError::Refused(format!(
            "{method}: the app lacks a scope ({code}); add it and install the app again"
        )),
        "ratelimited"
        | "rate_limited"
        | "internal_error"
        | "fatal_error"
        | "service_unavailable"
        | "request_timeout"
        | "team_added_to_org" => ChannelError::Retry { after: None, reason: format!("{method}: {code}") },
        _ => ChannelError::Refused(format!("{method}: {code}")),
    };
    SlackError::new(error, code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_escaped() {
        assert_eq!(form(&[("filename", "a b&c.txt"), ("length", "3")]), "filename=a+b%26c.txt&length=3");
    }

    #[test]
    fn refusals_are_named_for_what_can_be_done() {
        assert!(matches!(refusal_error("m", "invalid_auth").error, ChannelError::Reauthorise(_)));
        assert!(matches!(refusal_error("m", "internal_error").error, ChannelError::Retry { .. }));
        assert!(matches!(refusal_error("m", "channel_not_found").error, ChannelError::Refused(_)));
    }
}
