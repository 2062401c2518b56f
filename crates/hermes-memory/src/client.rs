//! Requests to a service: address, key, limits, and what a refusal means.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hermes_net::header::HeaderName;
use hermes_net::{Error, HttpClient, HttpRequest, HttpResponse, Method, StatusCode, Url};
use hermes_text::{ellipsize, single_line};
use hermes_types::{Cancel, Clock, Deadline, Secret};
use serde_json::Value;

use crate::engine::{EngineError, EngineResult};

/// The largest answer of a service.
const LARGEST: usize = 4 * 1024 * 1024;
/// The longest message of a service that is passed on, in characters.
const LONGEST_MESSAGE: usize = 200;
/// The time limit of a request that nobody waits for.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Builds the HTTP client when it is needed first.
pub type HttpSource = Arc<dyn Fn() -> Result<HttpClient, String> + Send + Sync>;

/// How engines reach their services.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct EngineAccess {
    http: HttpSource,
    built: Arc<OnceLock<Result<HttpClient, String>>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) cancel: Cancel,
}

impl EngineAccess {
    pub fn new(http: HttpSource, clock: Arc<dyn Clock>, cancel: Cancel) -> Self {
        Self { http, built: Arc::default(), clock, cancel }
    }

    fn http(&self) -> EngineResult<HttpClient> {
        self.built.get_or_init(|| (self.http)()).clone().map_err(EngineError::Failed)
    }
}

/// How a key is sent.
#[derive(Clone, Copy)]
pub(crate) enum KeyHeader {
    Bearer,
    /// `Authorization: Token …`.
    Token,
    ApiKey,
}

/// One service at one address.
#[derive(Clone)]
pub(crate) struct EngineClient {
    access: EngineAccess,
    label: &'static str,
    /// The variable of the key, for errors.
    variable: &'static str,
    pub(crate) base: Url,
    key: Option<(KeyHeader, Secret)>,
    headers: Vec<(&'static str, String)>,
}

impl EngineClient {
    /// Prepares requests below an address.
    pub(crate) fn new(
        access: &EngineAccess,
        label: &'static str,
        variable: &'static str,
        base: &str,
        key: Option<(KeyHeader, Secret)>,
    ) -> Result<Self, String> {
        let invalid = || format!("the address of {label} is not a valid URL: set an http or https address");
        let base = Url::parse(base.trim().trim_end_matches('/')).map_err(|_| invalid())?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(invalid());
        }
        Ok(Self { access: access.clone(), label, variable, base, key, headers: Vec::new() })
    }

    /// Adds a header to every request.
    #[must_use]
    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Returns the address without anything that may be secret.
    pub(crate) fn place(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> EngineResult<Value> {
        self.send(Method::GET, path, query, None).await
    }

    pub(crate) async fn post(&self, path: &[&str], body: &Value) -> EngineResult<Value> {
        self.send(Method::POST, path, &[], Some(body)).await
    }

    /// Sends a request and returns the answer; an empty answer is `null`.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> EngineResult<Value> {
        let request = self.request(method, path, query, body)?;
        let deadline = Deadline::after(&*self.access.clock, REQUEST_LIMIT);
        let sent = self.access.http()?.send(request, deadline, &self.access.cancel).await;
        let response = sent.map_err(|error| self.failure(&error))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let bytes = response.bytes(LARGEST).await.map_err(|error| self.failure(&error))?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|_| {
            EngineError::Failed(format!("{} answered with something that is not JSON", self.label))
        })
    }

    fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> EngineResult<HttpRequest> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let build = || -> Result<HttpRequest, Error> {
            let mut request = HttpRequest::new(method, url)
                .response_timeout(REQUEST_LIMIT)
                .stall_timeout(REQUEST_LIMIT)
                .body_limit(LARGEST);
            request = match &self.key {
                None => request,
                Some((KeyHeader::Bearer, key)) => request.bearer(key)?,
                Some((KeyHeader::Token, key)) => request.secret_header(
                    hermes_net::header::AUTHORIZATION,
                    &Secret::new(format!("Token {}", key.expose())),
                )?,
                Some((KeyHeader::ApiKey, key)) => {
                    request.secret_header(HeaderName::from_static("x-api-key"), key)?
                }
            };
            for (name, value) in &self.headers {
                request = request.header(HeaderName::from_static(name), value)?;
            }
            match body {
                Some(body) => request.json(body),
                None => Ok(request),
            }
        };
        build().map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &Error) -> EngineError {
        EngineError::Failed(format!("{} cannot be reached: {error}", self.label))
    }

    /// Says what a status that is no success means.
    async fn refusal(&self, response: HttpResponse) -> EngineError {
        let (label, status) = (self.label, response.status());
        let body = response.text(64 * 1024).await.unwrap_or_default();
        let mut message = message_of(&body);
        if let Some((_, key)) = &self.key
            && !key.expose().is_empty()
        {
            message = message.replace(key.expose(), "***");
        }
        let with_message = |reason: String| match message.as_str() {
            "" => reason,
            message => format!("{reason}: {message}"),
        };
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                EngineError::Refused(format!("{label} does not accept the key; check {}", self.variable))
            }
            StatusCode::PAYMENT_REQUIRED => {
                EngineError::Refused(format!("the credits at {label} are used up"))
            }
            StatusCode::TOO_MANY_REQUESTS => EngineError::Failed(format!("{label} limits requests")),
            StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::UNPROCESSABLE_ENTITY => {
                let reason = format!("{label} refused the request (HTTP {})", status.as_u16());
                EngineError::Failed(with_message(reason))
            }
            status => EngineError::Failed(with_message(format!("{label} failed (HTTP {})", status.as_u16()))),
        }
    }
}

/// Returns the message in an error's body.
fn message_of(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(body) else { return String::new() };
    let direct = |value: &Value| {
        let text = ["message", "error", "detail"].iter().find_map(|name| value.get(name)?.as_str());
        text.or_else(|| value.as_str()).map(str::to_owned)
    };
    let found = ["error", "detail", "message"].iter().find_map(|name| direct(value.get(name)?));
    ellipsize(&single_line(&found.unwrap_or_default()), LONGEST_MESSAGE).into_owned()
}

/// Returns the texts in an answer that lists memories: the first of the lists that is there, and of each element the
/// first of the usual fields.
pub(crate) fn texts_in(answer: &Value, lists: &[&str]) -> Vec<String> {
    let list = lists.iter().find_map(|path| answer.pointer(path)?.as_array());
    list.map(|items| items.iter().filter_map(text_of).collect()).unwrap_or_default()
}

/// Returns the text of one memory.
pub(crate) fn text_of(item: &Value) -> Option<String> {
    const FIELDS: [&str; 7] =
        ["/memory/content", "/memory", "/text", "/content", "/chunk", "/abstract", "/overview"];
    let found = FIELDS.iter().find_map(|path| item.pointer(path)?.as_str()).or_else(|| item.as_str())?;
    let found = found.trim();
    (!found.is_empty()).then(|| found.to_owned())
}

/// Returns the id of one memory.
pub(crate) fn id_of(item: &Value) -> Option<&str> {
    ["/id", "/memory/id", "/uri"].iter().find_map(|path| item.pointer(path)?.as_str())
}

/// Lists memories with their ids, for the model.
pub(crate) fn listed(answer: &Value, lists: &[&str]) -> String {
    let items = lists.iter().find_map(|path| answer.pointer(path)?.as_array());
    let line = |item: &Value| {
        let text = text_of(item)?;
        Some(match id_of(item) {
            Some(id) => format!("- [{id}] {}", single_line(&text)),
            None => format!("- {}", single_line(&text)),
        })
    };
    let lines: Vec<String> = items.map(|items| items.iter().filter_map(line).collect()).unwrap_or_default();
    if lines.is_empty() { "No matching memories.".to_owned() } else { lines.join("\n") }
}
