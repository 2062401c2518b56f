//! One small question and its answer.

use std::time::Duration;

use hermes_net::header::{ACCEPT, HeaderName, USER_AGENT};
use hermes_net::{HttpRequest, Method, Url};
use hermes_types::{Cancel, Deadline};
use serde_json::Value;

use crate::client::PresentedCredential;
use crate::credential::CredentialContext;

/// Catalogues of aggregators are the largest answers.
const LIMIT: usize = 16 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryError {
    /// Nobody there, or too slow.
    Unreachable,
    /// Answered with this status.
    Refused(u16),
}

/// What is asked, and in whose name.
#[derive(Debug, Clone)]
pub(super) struct DiscoveryQuery {
    url: String,
    body: Option<Value>,
    presented: PresentedCredential,
    headers: Vec<(&'static str, &'static str)>,
    timeout: Duration,
}

impl DiscoveryQuery {
    pub(super) fn get(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            body: None,
            presented: PresentedCredential::Anonymous,
            headers: Vec::new(),
            timeout: TIMEOUT,
        }
    }

    pub(super) fn post(url: &str, body: Value) -> Self {
        Self { body: Some(body), ..Self::get(url) }
    }

    /// Shows a credential. The caller knows that the address is its home.
    pub(super) fn with_credential(mut self, presented: PresentedCredential) -> Self {
        self.presented = presented;
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn with_timeout(mut self, patience: Duration) -> Self {
        self.timeout = patience;
        self
    }

    /// The body of a success.
    pub(super) async fn send(
        self,
        means: &CredentialContext,
        cancel: &Cancel,
    ) -> Result<Vec<u8>, QueryError> {
        let request = self.request().ok_or(QueryError::Unreachable)?;
        let deadline = Deadline::after(&*means.clock, self.timeout);
        let response =
            means.net.send(request, deadline, cancel).await.map_err(|_| QueryError::Unreachable)?;
        if !response.status().is_success() {
            return Err(QueryError::Refused(response.status().as_u16()));
        }
        let body = response.bytes(LIMIT).await.map_err(|_| QueryError::Unreachable)?;
        Ok(body.to_vec())
    }

    fn request(&self) -> Option<HttpRequest> {
        let method = if self.body.is_some() { Method::POST } else { Method::GET };
        let mut request = HttpRequest::new(method, Url::parse(&self.url).ok()?)
            .header(ACCEPT, "application/json")
            .ok()?
            .header(USER_AGENT, concat!("HermesAgent/", env!("CARGO_PKG_VERSION")))
            .ok()?;
        for (name, value) in &self.headers {
            request = request.header(HeaderName::from_static(name), value).ok()?;
        }
        request = match &self.presented {
            PresentedCredential::Bearer(key) => request.bearer(key).ok()?,
            PresentedCredential::ApiKeyHeader(key) => {
                request.secret_header(HeaderName::from_static("x-api-key"), key).ok()?
            }
            // Signatures are made for the conversation alone.
            PresentedCredential::Aws(_) | PresentedCredential::Anonymous => request,
        };
        if let Some(body) = &self.body {
            request = request.json(body).ok()?;
        }
        Some(request.response_timeout(self.timeout).stall_timeout(self.timeout).body_limit(LIMIT))
    }
}
