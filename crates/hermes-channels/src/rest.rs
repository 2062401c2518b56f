//! Calls of platforms that answer in JSON, and their failures by what can be done about them.

use std::sync::Arc;
use std::time::Duration;

use hermes_net::{Bytes, Error, HttpClient, HttpRequest, HttpResponse, StatusCode, retry_after};
use hermes_types::{Cancel, ChannelError, Clock, Deadline};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(30);
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestError {
    pub(crate) error: ChannelError,
    /// The status of the response, if one came.
    pub(crate) status: Option<u16>,
    /// The body of a refusal; `Null` where there is none.
    pub(crate) body: Value,
    /// True when the call may have succeeded all the same.
    pub(crate) may_have_succeeded: bool,
}

impl RestError {
    pub(crate) fn new(error: ChannelError) -> Self {
        Self { error, status: None, body: Value::Null, may_have_succeeded: false }
    }

    /// Converts the error for a message that must not be sent twice.
    pub(crate) fn into_send_error(self) -> ChannelError {
        match self.error {
            ChannelError::Retry { reason, .. } if self.may_have_succeeded => {
                ChannelError::DeliveryUnknown(reason)
            }
            error => error,
        }
    }

    /// Builds the error for a network failure; the request certainly did not arrive only if there was no connection.
    pub(crate) fn network(error: &Error) -> Self {
        let unsure = !matches!(
            error,
            Error::Connect { .. } | Error::InvalidUrl | Error::Settings { .. } | Error::Tls { .. }
        );
        let reason = error.to_string();
        Self { may_have_succeeded: unsure, ..Self::new(ChannelError::Retry { after: None, reason }) }
    }
}

impl From<RestError> for ChannelError {
    fn from(failure: RestError) -> Self {
        failure.error
    }
}

/// Sends requests to one platform.
#[derive(Clone)]
pub(crate) struct RestClient {
    pub(crate) client: HttpClient,
    pub(crate) clock: Arc<dyn Clock>,
    /// The platform's name for people.
    pub(crate) label: &'static str,
    /// Returns what a platform says in the body of a refusal.
    pub(crate) reason: fn(&Value) -> Option<String>,
}

impl RestClient {
    /// Sends a request and returns the JSON of its response; an empty body is `Null`.
    pub(crate) async fn call(&self, request: HttpRequest) -> Result<Value, RestError> {
        let response = self.send(request, TIMEOUT).await?;
        let bytes = response.bytes(LARGEST_ANSWER).await.map_err(|error| RestError::network(&error))?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|_| {
            let reason = format!("{} answered with something that is no JSON", self.label);
            RestError {
                may_have_succeeded: true,
                ..RestError::new(ChannelError::Retry { after: None, reason })
            }
        })
    }

    /// Downloads a file of at most `cap` bytes.
    pub(crate) async fn download(&self, request: HttpRequest, cap: u64) -> Result<Bytes, RestError> {
        let cap = usize::try_from(cap).unwrap_or(usize::MAX);
        let response = self.send(request.body_limit(cap), TIMEOUT.saturating_mul(4)).await?;
        response.bytes(cap).await.map_err(|error| RestError::network(&error))
    }

    /// Sends a request; a response that is no success is an error.
    pub(crate) async fn send(
        &self,
        request: HttpRequest,
        patience: Duration,
    ) -> Result<HttpResponse, RestError> {
        let deadline = Deadline::after(&*self.clock, patience.saturating_mul(4));
        let request = request.response_timeout(patience);
        let response = self
            .client
            .send(request, deadline, &Cancel::new())
            .await
            .map_err(|error| RestError::network(&error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    async fn refusal(&self, response: HttpResponse) -> RestError {
        let status = response.status();
        let after = retry_after(response.headers(), self.clock.now());
        let body: Value = response.json(64 * 1024).await.unwrap_or_default();
        let said = (self.reason)(&body).unwrap_or_else(|| format!("status {}", status.as_u16()));
        let reason = format!("{}: {said}", self.label);
        let error = match status {
            StatusCode::TOO_MANY_REQUESTS => ChannelError::Retry { after, reason },
            StatusCode::UNAUTHORIZED => ChannelError::Reauthorise(reason),
            status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
                ChannelError::Retry { after, reason }
            }
            _ => ChannelError::Refused(reason),
        };
        RestError { error, status: Some(status.as_u16()), body, may_have_succeeded: status.is_server_error() }
    }
}

/// Encodes pairs as a form.
pub(crate) fn encode_form(pairs: &[(&str, &str)]) -> String {
    let mut url = hermes_net::Url::parse("http://form/").ok();
    if let Some(url) = &mut url {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    url.and_then(|url| url.query().map(str::to_owned)).unwrap_or_default()
}

/// Decodes the pairs of a form, in their order.
pub(crate) fn decode_form(body: &str) -> Vec<(String, String)> {
    let mut url = hermes_net::Url::parse("http://form/").ok();
    if let Some(url) = &mut url {
        url.set_query(Some(body));
    }
    url.map(|url| url.query_pairs().into_owned().collect()).unwrap_or_default()
}

/// Parses the base URL of a platform, which gets a trailing slash.
pub(crate) fn base_url(given: &str, setting: &str) -> Result<hermes_net::Url, String> {
    let mut url = hermes_net::Url::parse(given.trim())
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| format!("{setting} is not a web address"))?;
    let path = format!("{}/", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_addresses() {
        let form = encode_form(&[("Body", "a b&c=ü+"), ("To", "+1")]);
        assert_eq!(form, "Body=a+b%26c%3D%C3%BC%2B&To=%2B1");
        let pairs = decode_form(&form);
        assert_eq!(pairs, [("Body".to_owned(), "a b&c=ü+".to_owned()), ("To".to_owned(), "+1".to_owned())]);
        assert_eq!(
            base_url("https://chat.example.org/team", "X").unwrap().as_str(),
            "https://chat.example.org/team/"
        );
        assert_eq!(base_url("ftp://x", "X").unwrap_err(), "X is not a web address");
    }
}
