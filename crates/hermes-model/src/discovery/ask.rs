//! One small question and its answer.

use std::time::Duration;

use hermes_net::header::{ACCEPT, HeaderName, USER_AGENT};
use hermes_net::{Method, Request, Url};
use hermes_types::{Cancel, Deadline};
use serde_json::Value;

use crate::client::Presented;
use crate::credential::Means;

/// Catalogues of aggregators are the largest answers.
const LIMIT: usize = 16 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nobody there, or too slow.
    Unreachable,
    /// Answered with this status.
    Refused(u16),
}

/// What is asked, and in whose name.
#[derive(Debug, Clone)]
pub(super) struct Question {
    url: String,
    body: Option<Value>,
    presented: Presented,
    headers: Vec<(&'static str, &'static str)>,
    patience: Duration,
}

impl Question {
    pub(super) fn get(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            body: None,
            presented: Presented::Nothing,
            headers: Vec::new(),
            patience: PATIENCE,
        }
    }

    pub(super) fn post(url: &str, body: Value) -> Self {
        Self { body: Some(body), ..Self::get(url) }
    }

    /// Shows a credential. The caller knows that the address is its home.
    pub(super) fn showing(mut self, presented: Presented) -> Self {
        self.presented = presented;
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn within(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The body of a success.
    pub(super) async fn ask(self, means: &Means, cancel: &Cancel) -> Result<Vec<u8>, Silence> {
        let request = self.request().ok_or(Silence::Unreachable)?;
        let deadline = Deadline::after(&*means.clock, self.patience);
        let response = means.net.send(request, deadline, cancel).await.map_err(|_| Silence::Unreachable)?;
        if !response.status().is_success() {
            return Err(Silence::Refused(response.status().as_u16()));
        }
        let body = response.bytes(LIMIT).await.map_err(|_| Silence::Unreachable)?;
        Ok(body.to_vec())
    }

    fn request(&self) -> Option<Request> {
        let method = if self.body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::new(method, Url::parse(&self.url).ok()?)
            .header(ACCEPT, "application/json")
            .ok()?
            .header(USER_AGENT, concat!("HermesAgent/", env!("CARGO_PKG_VERSION")))
            .ok()?;
        for (name, value) in &self.headers {
            request = request.header(HeaderName::from_static(name), value).ok()?;
        }
        request = match &self.presented {
            Presented::Bearer(key) => request.bearer(key).ok()?,
            Presented::ApiKeyHeader(key) => {
                request.secret_header(HeaderName::from_static("x-api-key"), key).ok()?
            }
            // Signatures are made for the conversation alone.
            Presented::Aws(_) | Presented::Nothing => request,
        };
        if let Some(body) = &self.body {
            request = request.json(body).ok()?;
        }
        Some(request.answer_within(self.patience).stall_after(self.patience).cap(LIMIT))
    }
}
