//! The services that search the web and read pages: what is common to their requests, answers and failures.
//!
//! Each service is one module, which only knows its own requests and answers.

pub(super) mod brave;
pub(super) mod exa;
pub(super) mod firecrawl;
pub(super) mod parallel;
pub(super) mod searxng;
pub(super) mod tavily;

use std::time::Duration;

use hermes_config::settings::{WebKeys, WebService};
use hermes_net::{Error, HttpClient, HttpRequest, HttpResponse, StatusCode, retry_after};
use hermes_text::ellipsize;
use hermes_types::{Cancel, Deadline, Secret, ToolContext};
use serde_json::Value;

use super::WebAccess;

/// The largest answer of a service.
const LARGEST: usize = 32 * 1024 * 1024;
/// The longest message of a service that is passed on, in characters.
const LONGEST_MESSAGE: usize = 300;

/// The addresses of the services that nobody hosts themselves.
#[derive(Debug, Clone)]
pub struct WebAddresses {
    pub firecrawl: String,
    pub parallel: String,
    pub tavily: String,
    pub exa: String,
    pub brave: String,
}

impl Default for WebAddresses {
    fn default() -> Self {
        Self {
            firecrawl: "https://api.firecrawl.dev".to_owned(),
            parallel: "https://api.parallel.ai".to_owned(),
            tavily: "https://api.tavily.com".to_owned(),
            exa: "https://api.exa.ai".to_owned(),
            brave: "https://api.search.brave.com".to_owned(),
        }
    }
}

/// A hit of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchHit {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) description: String,
}

/// A page as a service returned it.
#[derive(Debug, Default)]
pub(super) struct ServicePage {
    pub(super) url: String,
    pub(super) title: String,
    pub(super) text: String,
    pub(super) error: Option<String>,
}

impl ServicePage {
    fn failed(url: &str, error: impl Into<String>) -> Self {
        Self { url: url.to_owned(), error: Some(error.into()), ..Self::default() }
    }
}

/// The reason why a service gave no answer.
#[derive(Debug)]
pub(super) enum ServiceFailure {
    Cancelled,
    Failed(String),
}

impl From<Error> for ServiceFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Cancelled => Self::Cancelled,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// One call of a service, with its limits.
pub(super) struct ServiceCall<'a> {
    http: HttpClient,
    pub(super) keys: &'a WebKeys,
    pub(super) access: &'a WebAccess,
    service: WebService,
    deadline: Deadline,
    cancel: &'a Cancel,
    timeout: Duration,
}

impl<'a> ServiceCall<'a> {
    pub(super) fn new(
        access: &'a WebAccess,
        service: WebService,
        timeout: Duration,
        context: &ToolContext<'a>,
    ) -> Result<Self, ServiceFailure> {
        Ok(Self {
            http: access.http.get().map_err(ServiceFailure::Failed)?,
            keys: &access.settings.keys,
            access,
            service,
            deadline: context.deadline.at_most(&*access.clock, timeout),
            cancel: context.cancel,
            timeout,
        })
    }

    /// Returns a key, or what to set.
    pub(super) fn key<'k>(&self, key: Option<&'k Secret>) -> Result<&'k Secret, ServiceFailure> {
        key.ok_or_else(|| ServiceFailure::Failed(format!("{} is not set", self.service.variable())))
    }

    /// Sends a request and returns the answer's JSON. A refusal is an error that says what to do.
    pub(super) async fn json(&self, request: HttpRequest) -> Result<Value, ServiceFailure> {
        let request = request.response_timeout(self.timeout).body_limit(LARGEST);
        let response = self.http.send(request, self.deadline, self.cancel).await?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        Ok(response.json(LARGEST).await?)
    }

    async fn refusal(&self, response: HttpResponse) -> ServiceFailure {
        let name = self.service.name();
        let status = response.status();
        let wait = retry_after(response.headers(), self.access.clock.now());
        let body = match response.text(64 * 1024).await {
            Ok(body) => body,
            Err(Error::Cancelled) => return ServiceFailure::Cancelled,
            Err(_) => String::new(),
        };
        let message = self.without_keys(&message_of(&body));
        let reason = match status {
            StatusCode::UNAUTHORIZED => format!("{name} does not accept the key; check {}", self.service.variable()),
            StatusCode::FORBIDDEN if self.service == WebService::Searxng => {
                "the SearXNG instance does not offer its JSON format; add json to search.formats in its settings.yml"
                    .to_owned()
            }
            StatusCode::FORBIDDEN => format!("{name} refused the request; check {}", self.service.variable()),
            StatusCode::PAYMENT_REQUIRED => format!("the credits at {name} are used up"),
            StatusCode::TOO_MANY_REQUESTS => match wait {
                Some(wait) => format!("{name} limits requests; try again in {} s", wait.as_secs()),
                None => format!("{name} limits requests; try again later"),
            },
            status if status.is_server_error() => format!("{name} failed (HTTP {})", status.as_u16()),
            status => format!("{name} refused the request (HTTP {})", status.as_u16()),
        };
        ServiceFailure::Failed(if message.is_empty() { reason } else { format!("{reason}: {message}") })
    }

    /// Removes keys that a service repeats in its messages.
    fn without_keys(&self, message: &str) -> String {
        let keys =
            [&self.keys.firecrawl, &self.keys.parallel, &self.keys.tavily, &self.keys.exa, &self.keys.brave];
        let mut message = message.to_owned();
        for key in keys.into_iter().flatten().filter(|key| !key.expose().is_empty()) {
            message = message.replace(key.expose(), "***");
        }
        message
    }
}

/// Returns the message in an error's body.
fn message_of(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(body) else { return String::new() };
    let inner = |value: &Value| {
        let text = ["message", "error", "detail"].iter().find_map(|name| value.get(name)?.as_str());
        text.or_else(|| value.as_str()).map(str::to_owned)
    };
    let found = ["error", "detail", "message"].iter().find_map(|name| inner(value.get(name)?));
    ellipsize(&hermes_text::single_line(&found.unwrap_or_default()), LONGEST_MESSAGE).into_owned()
}

/// Returns the elements of a list in an answer.
fn rows<'a>(answer: &'a Value, path: &str) -> &'a [Value] {
    answer.pointer(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns a text field, or an empty text.
fn field(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns a list of texts as one.
fn joined(value: &Value, name: &str, separator: &str) -> String {
    let texts = value.get(name).and_then(Value::as_array);
    texts
        .map(|texts| texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(separator))
        .unwrap_or_default()
}

/// Builds hits from rows whose description has this name.
fn hits(rows: &[Value], description: &str) -> Vec<SearchHit> {
    rows.iter()
        .map(|row| SearchHit {
            title: field(row, "title"),
            url: field(row, "url"),
            description: field(row, description),
        })
        .filter(|hit| !hit.url.is_empty())
        .collect()
}
