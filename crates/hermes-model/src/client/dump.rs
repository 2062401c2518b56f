//! Writes requests to files for inspection, when the user enabled it or a request failed permanently.
//!
//! Invariant: no credential is in a dump. The key is masked, and so is a key that the provider repeated.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hermes_config::write;
use hermes_types::{Secret, Timestamp, random_hex};
use serde_json::{Map, Value, json};

use super::endpoint::PresentedCredential;

/// The folder for dumps, and the selection of requests that are dumped.
#[derive(Debug, Clone)]
pub struct RequestDumper {
    /// The home's `sessions` folder.
    pub folder: PathBuf,
    pub scope: DumpScope,
    /// Masks other text that looks like a secret; the caller decides what that is.
    pub mask: Option<fn(&str) -> String>,
}

/// Shows what is dumped. Only the binary prints, so it passes this function in.
#[derive(Clone)]
pub struct DumpEcho(pub(super) Arc<dyn Fn(&str) + Send + Sync>);

impl DumpEcho {
    pub fn new(show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }
}

impl fmt::Debug for DumpEcho {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Echo")
    }
}

/// Selects the requests that are dumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpScope {
    /// Only requests that failed permanently.
    Failures,
    /// Every request, before it is sent.
    All,
}

/// The reason why a request is dumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DumpReason {
    BeforeSending,
    Refused,
    RetriesExhausted,
}

impl DumpReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::BeforeSending => "preflight",
            Self::Refused => "non_retryable_client_error",
            Self::RetriesExhausted => "max_retries_exhausted",
        }
    }
}

/// A request as it is about to be sent.
pub(super) struct DumpedRequest<'a> {
    pub(super) session: Option<&'a str>,
    pub(super) url: &'a str,
    pub(super) headers: &'a [(String, String)],
    pub(super) presented: &'a PresentedCredential,
    pub(super) body: &'a [u8],
    pub(super) error: Option<&'a str>,
}

impl RequestDumper {
    /// Writes one file and returns its content. A failure to write is logged and does not affect the turn.
    pub(super) fn write(&self, occasion: DumpReason, dumped: &DumpedRequest<'_>, now: Timestamp) -> String {
        let session = dumped.session.unwrap_or("none");
        let safe: String =
            session.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect();
        let name = format!("request_dump_{safe}_{}_{}.json", file_timestamp(now), random_hex(4));
        let mut dump = dumped.render(session, occasion, now);
        if let Some(mask) = self.mask {
            // The headers are masked separately, so that a key can still be recognised.
            for part in ["/request/body", "/error"] {
                if let Some(value) = dump.pointer_mut(part) {
                    mask_texts(value, mask);
                }
            }
        }
        let text = mask_credential(&dump.to_string(), dumped.presented);
        if let Err(error) = write::replace(&self.folder.join(name), text.as_bytes()) {
            tracing::warn!(%error, "a request could not be written down");
        }
        text
    }
}

impl DumpedRequest<'_> {
    fn render(&self, session: &str, occasion: DumpReason, now: Timestamp) -> Value {
        let mut headers: Map<String, Value> =
            self.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        match self.presented {
            PresentedCredential::Bearer(key) => {
                headers.insert("Authorization".to_owned(), json!(format!("Bearer {}", mask(key))));
            }
            PresentedCredential::ApiKeyHeader(key) => {
                headers.insert("x-api-key".to_owned(), json!(mask(key)));
            }
            PresentedCredential::Aws(_) => {
                headers.insert("Authorization".to_owned(), json!("AWS4-HMAC-SHA256 ***"));
            }
            PresentedCredential::Anonymous => {}
        }
        let body: Value =
            serde_json::from_slice(self.body).unwrap_or_else(|_| json!(String::from_utf8_lossy(self.body)));
        let mut dump = json!({
            "timestamp": now.seconds(),
            "session_id": session,
            "reason": occasion.as_str(),
            "request": {"method": "POST", "url": self.url, "headers": headers, "body": body},
        });
        if let (Some(error), Some(object)) = (self.error, dump.as_object_mut()) {
            object.insert("error".to_owned(), json!({ "message": error }));
        }
        dump
    }
}

/// Masks every string in a value.
fn mask_texts(value: &mut Value, mask: fn(&str) -> String) {
    match value {
        Value::String(text) => *text = mask(text),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_texts(item, mask)),
        Value::Object(map) => map.values_mut().for_each(|item| mask_texts(item, mask)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Keeps eight characters at the start and four at the end: enough to recognise a key, too few to use it.
fn mask(key: &Secret) -> String {
    let chars: Vec<char> = key.expose().chars().collect();
    if chars.len() < 20 {
        return "***".to_owned();
    }
    let first: String = chars.iter().take(8).collect();
    let last: String = chars.iter().skip(chars.len() - 4).collect();
    format!("{first}...{last}")
}

/// Masks the credential in a text, because a user may have pasted it into the conversation.
fn mask_credential(text: &str, presented: &PresentedCredential) -> String {
    let secrets: Vec<&Secret> = match presented {
        PresentedCredential::Bearer(key) | PresentedCredential::ApiKeyHeader(key) => vec![key],
        PresentedCredential::Aws(keys) => {
            std::iter::once(&keys.secret_key).chain(&keys.session_token).collect()
        }
        PresentedCredential::Anonymous => Vec::new(),
    };
    let long_enough = |secret: &&&Secret| secret.expose().len() >= 8;
    secrets
        .iter()
        .filter(long_enough)
        .fold(text.to_owned(), |text, secret| text.replace(secret.expose(), "***"))
}

/// Formats a time as `YYYYMMDD_HHMMSS_ffffff` in UTC.
fn file_timestamp(now: Timestamp) -> String {
    let (date, time) = super::aws::stamp(now);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction of a second")]
    let micros = (now.seconds().fract().abs() * 1e6) as u32;
    format!("{date}_{time}_{micros:06}")
}
