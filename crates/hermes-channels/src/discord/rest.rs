//! The REST API: calls, rate limits and errors.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hermes_net::{Error, HeaderMap, HttpClient, HttpRequest, Method, StatusCode, TimeoutPhase, Url, header};
use hermes_types::{Cancel, ChannelError, Clock, Deadline, Secret};
use serde_json::Value;

use super::rate_limits::{BucketState, RateLimits, route_of};

/// Limits the wait inside a call; beyond it, the caller decides.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const ATTEMPTS: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(30);
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(3);
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;
/// The user agent Discord requires of bots.
const AGENT: &str = concat!("DiscordBot (hermes, ", env!("CARGO_PKG_VERSION"), ")");

/// A client of the API for this bot.
pub(super) struct DiscordApi {
    pub(super) client: HttpClient,
    pub(super) clock: Arc<dyn Clock>,
    api: String,
    authorization: Secret,
    limits: Mutex<RateLimits>,
}

/// The body of a request.
#[derive(Debug, Clone)]
pub(super) enum RequestBody {
    Nothing,
    Json(Value),
    /// A content type and a body of that type.
    Form(String, Bytes),
}

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DiscordError {
    /// A failure that may not occur later.
    Later {
        after: Option<Duration>,
        reason: String,
        effect: CallEffect,
    },
    Unauthorised,
    /// A refusal that repeating will not change, with Discord's code.
    Refused {
        status: u16,
        code: u64,
        reason: String,
    },
}

/// The effect of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEffect {
    NotDone,
    /// The call may have succeeded all the same.
    Unknown,
}

impl DiscordError {
    /// Converts the error for a message that must not be sent twice.
    pub(super) fn into_send_error(self) -> ChannelError {
        match self {
            Self::Later { reason, effect: CallEffect::Unknown, .. } => ChannelError::DeliveryUnknown(reason),
            other => other.into(),
        }
    }

    /// Returns Discord's error code, if it refused the call.
    pub(super) fn code(&self) -> Option<u64> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl fmt::Display for DiscordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ChannelError::from(self.clone()).fmt(f)
    }
}

impl From<DiscordError> for ChannelError {
    fn from(failure: DiscordError) -> Self {
        match failure {
            DiscordError::Later { after, reason, .. } => Self::Retry { after, reason },
            DiscordError::Unauthorised => Self::Reauthorise(
                "Discord does not know this token. Reset it on the Bot page of your application and set DISCORD_BOT_TOKEN"
                    .to_owned(),
            ),
            DiscordError::Refused { status, code, reason } => {
                Self::Refused(format!("Discord said: {reason} (status {status}, code {code})"))
            }
        }
    }
}

impl DiscordApi {
    pub(super) fn new(client: HttpClient, clock: Arc<dyn Clock>, api: String, token: &Secret) -> Self {
        let authorization = Secret::new(format!("Bot {}", token.expose()));
        Self { client, clock, api, authorization, limits: Mutex::default() }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, DiscordError> {
        self.call(Method::GET, path, RequestBody::Nothing).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Result<Value, DiscordError> {
        self.call(Method::POST, path, RequestBody::Json(body)).await
    }

    /// Makes a call, waiting for rate limits if the wait is short.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        body: RequestBody,
    ) -> Result<Value, DiscordError> {
        let route = route_of(method.as_str(), path);
        let mut last = rate_limit_error(LONGEST_WAIT);
        for _ in 0..ATTEMPTS {
            self.wait_for_bucket(&route).await?;
            match self.exchange(method.clone(), path, &route, &body).await {
                Err(failure @ DiscordError::Later { after: Some(after), .. }) if after <= LONGEST_WAIT => {
                    last = failure;
                }
                other => return other,
            }
        }
        Err(last)
    }

    /// Waits until the bucket allows a call, if that is soon.
    async fn wait_for_bucket(&self, route: &str) -> Result<(), DiscordError> {
        loop {
            let wait = self.with_limits(|limits| limits.reserve(route, self.clock.monotonic()));
            if wait.is_zero() {
                return Ok(());
            }
            if wait > LONGEST_WAIT {
                return Err(rate_limit_error(wait));
            }
            self.clock.sleep(wait).await;
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        route: &str,
        body: &RequestBody,
    ) -> Result<Value, DiscordError> {
        let request = self.request(method, path, body).map_err(|error| network_error(&error))?;
        let deadline = Deadline::after(&*self.clock, UPLOAD_TIMEOUT);
        let response = self
            .client
            .send(request, deadline, &Cancel::new())
            .await
            .map_err(|error| network_error(&error))?;
        let status = response.status();
        self.update_limits(route, response.headers());
        let asked = hermes_net::retry_after(response.headers(), self.clock.now());
        let answer = response.bytes(LARGEST_ANSWER).await.map_err(|error| network_error(&error))?;
        let value: Value = serde_json::from_slice(&answer).unwrap_or(Value::Null);
        match status {
            StatusCode::TOO_MANY_REQUESTS => Err(self.rate_limited(route, &value, asked)),
            StatusCode::UNAUTHORIZED => Err(DiscordError::Unauthorised),
            status if status.is_success() && value.is_null() && !answer.is_empty() => {
                Err(unclear_error("Discord's answer is no JSON".to_owned()))
            }
            status if status.is_success() => Ok(value),
            status if status.is_server_error() => {
                Err(unclear_error(format!("Discord has a problem (status {status})")))
            }
            status => Err(refusal_error(status, &value)),
        }
    }

    fn request(&self, method: Method, path: &str, body: &RequestBody) -> Result<HttpRequest, Error> {
        let url = Url::parse(&format!("{}{path}", self.api)).map_err(|_| Error::InvalidUrl)?;
        let mut request = HttpRequest::new(method, url)
            .header(header::USER_AGENT, AGENT)?
            .secret_header(header::AUTHORIZATION, &self.authorization)?
            .response_timeout(TIMEOUT);
        match body {
            RequestBody::Nothing => {}
            RequestBody::Json(value) => request = request.json(value)?,
            RequestBody::Form(kind, bytes) => {
                request = request.header(header::CONTENT_TYPE, kind)?.body(bytes.clone());
                request = request.response_timeout(UPLOAD_TIMEOUT);
            }
        }
        Ok(request)
    }

    fn update_limits(&self, route: &str, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let number = |name: &str| text(name).and_then(|text| text.parse().ok());
        let reset = text("x-ratelimit-reset-after").and_then(parse_seconds);
        let (Some(limit), Some(remaining), Some(reset_after)) =
            (number("x-ratelimit-limit"), number("x-ratelimit-remaining"), reset)
        else {
            return;
        };
        let told = BucketState { limit, remaining, reset_after };
        self.with_limits(|limits| limits.update(route, told, self.clock.monotonic()));
    }

    /// Builds the error for a rate limit. The body is more exact than the header, and missing when a proxy refuses.
    fn rate_limited(&self, route: &str, answer: &Value, asked: Option<Duration>) -> DiscordError {
        let exact = answer.get("retry_after").and_then(Value::as_f64);
        let exact = exact.and_then(|after| Duration::try_from_secs_f64(after).ok());
        let after = exact.or(asked).unwrap_or(LONGEST_WAIT);
        let now = self.clock.monotonic();
        self.with_limits(|limits| match answer.get("global").and_then(Value::as_bool) {
            Some(true) => limits.exhaust_everything(after, now),
            _ => limits.exhaust(route, after, now),
        });
        rate_limit_error(after)
    }

    fn with_limits<R>(&self, change: impl FnOnce(&mut RateLimits) -> R) -> R {
        change(&mut self.limits.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn rate_limit_error(after: Duration) -> DiscordError {
    let reason = "Discord asks to wait".to_owned();
    DiscordError::Later { after: Some(after), reason, effect: CallEffect::NotDone }
}

fn unclear_error(reason: String) -> DiscordError {
    DiscordError::Later { after: None, reason, effect: CallEffect::Unknown }
}

/// Builds the error for a network failure; the call certainly did not arrive only if there was no connection.
fn network_error(error: &Error) -> DiscordError {
    match error {
        Error::Connect { .. }
        | Error::Tls { .. }
        | Error::Proxy { .. }
        | Error::Denied(_)
        | Error::InvalidUrl
        | Error::TimedOut { wait: TimeoutPhase::Connection, .. } => {
            DiscordError::Later { after: None, reason: error.to_string(), effect: CallEffect::NotDone }
        }
        _ => unclear_error(error.to_string()),
    }
}

fn parse_seconds(text: &str) -> Option<Duration> {
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

fn refusal_error(status: StatusCode, answer: &Value) -> DiscordError {
    let words = answer.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    let mut reason = words.to_owned();
    if let Some(detail) = answer.get("errors").and_then(first_message) {
        reason = format!("{reason}: {detail}");
    }
    let code = answer.get("code").and_then(Value::as_u64).unwrap_or(0);
    DiscordError::Refused {
        status: status.as_u16(),
        code,
        reason: hermes_text::head(&reason, 300).to_owned(),
    }
}

/// Returns the first message in a tree of field errors.
fn first_message(errors: &Value) -> Option<&str> {
    if let Some(message) = errors.get("message").and_then(Value::as_str) {
        return Some(message);
    }
    match errors {
        Value::Object(fields) => fields.values().find_map(first_message),
        Value::Array(list) => list.iter().find_map(first_message),
        _ => None,
    }
}
