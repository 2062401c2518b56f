//! One small query and its response.

use std::time::Duration;

use hermes_net::header::{ACCEPT, HeaderName, USER_AGENT};
use hermes_net::{HttpRequest, Method, Url};
use hermes_types::{Cancel, Deadline};
use serde_json::Value;

use crate::client::PresentedCredential;
use crate::credential::CredentialContext;

/// The largest response; catalogues of aggregators are the largest.
const LIMIT: usize = 16 * 1024 * 1024;
const TIMEOUT: Duration = Duration::from_secs(5);

/// The reason why a query failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QueryError {
    /// The server could not be reached, or was too slow.
    Unreachable,
    /// The server answered with this status.
    Refused(u16),
}

/// The URL that is queried, and the credential sent with it.
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

    /// Adds a credential. The caller must ensure that the URL is on the credential's own host.
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

    /// Sends the query and returns the body of a successful response.
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
            // AWS signatures are made for model calls only.
            PresentedCredential::Aws(_) | PresentedCredential::Anonymous => request,
        };
        if let Some(body) = &self.body {
            request = request.json(body).ok()?;
        }
        Some(request.response_timeout(self.timeout).stall_timeout(self.timeout).body_limit(LIMIT))
    }
}
