//! Parses a refusal once: message, location and wait.
//!
//! Providers format their errors in many ways: nested objects, lists, plain text, whole web pages. This module
//! normalises them; other modules decide what to do about them. No text shown to a user contains a key.

use std::time::Duration;

use hermes_text::{ellipsize, single_line};
use hermes_types::RawJson;

use super::mask_keys::mask_keys;
use super::wait;
use crate::error::ProviderFault;
use crate::wire::options::RequestField;

/// The codes by which token servers and providers mark a permanently invalid credential.
const PERMANENT_CODES: [&str; 6] = [
    "invalid_grant",
    "invalid_token",
    "token_revoked",
    "token_invalidated",
    "unauthorized_client",
    "refresh_token_reused",
];

/// The failure that was received instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderFailure {
    status: Option<u16>,
    fault: ProviderFault,
    retry_after: Option<Duration>,
    page: Option<String>,
    network: bool,
    /// Message, kind and code in lower case, for searching.
    text: String,
}

impl ProviderFailure {
    /// Creates the failure for an HTTP response without success.
    pub fn http(status: u16, headers: &[(String, String)], body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(body);
        let trimmed = body.trim();
        let mut page = None;
        let mut fault = if is_html(trimmed) {
            page = Some(describe_page(trimmed));
            ProviderFault::default()
        } else {
            match RawJson::parse(trimmed.to_owned()) {
                // Google wraps its error object in a list.
                Ok(raw) => ProviderFault::read(
                    raw.read::<Vec<RawJson>>()
                        .ok()
                        .and_then(|list| list.into_iter().next())
                        .as_ref()
                        .unwrap_or(&raw),
                ),
                Err(_) => ProviderFault::new(trimmed),
            }
        };
        if fault.kind.is_none() {
            let named = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("x-amzn-errortype"));
            fault.kind = named.map(|(_, kind)| kind.split(':').next().unwrap_or_default().to_owned());
        }
        let after = wait::named_wait(headers, trimmed);
        Self::build(Some(status), fault, after, page)
    }

    /// Creates the failure for a connection that failed or broke.
    pub fn network(reason: impl Into<String>) -> Self {
        let mut failure = Self::build(None, ProviderFault::new(reason), None, None);
        failure.network = true;
        failure
    }

    fn build(
        status: Option<u16>,
        fault: ProviderFault,
        retry_after: Option<Duration>,
        page: Option<String>,
    ) -> Self {
        let parts = [Some(fault.message.as_str()), fault.kind.as_deref(), fault.code.as_deref()];
        let words: Vec<&str> = parts.into_iter().flatten().collect();
        let text = words.join("\n").to_lowercase();
        Self { status: status.or(fault.status), fault, retry_after, page, network: false, text }
    }

    pub fn status(&self) -> Option<u16> {
        self.status
    }

    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    pub fn is_network(&self) -> bool {
        self.network
    }

    pub fn message(&self) -> &str {
        &self.fault.message
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn contains_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    pub(super) fn has_no_message(&self) -> bool {
        let message = self.fault.message.trim().trim_end_matches('.');
        message.is_empty() || message.eq_ignore_ascii_case("error")
    }

    /// Returns one line for the user, with anything that looks like a key masked.
    pub fn summary(&self) -> String {
        let message = mask_keys(&single_line(&self.fault.message));
        match (self.status, &self.page) {
            (Some(status), Some(page)) => format!("HTTP {status} — {page}"),
            (Some(status), None) if message.is_empty() => format!("HTTP {status}"),
            (Some(status), None) => format!("HTTP {status}: {}", ellipsize(&message, 300)),
            (None, _) => ellipsize(&message, 500).into_owned(),
        }
    }

    /// Tells whether a web page arrived instead of an answer.
    pub(crate) fn is_page(&self) -> bool {
        self.page.is_some()
    }

    /// Returns the code of a sign-in or key that is permanently invalid.
    pub(crate) fn permanent_code(&self) -> Option<&'static str> {
        PERMANENT_CODES.into_iter().find(|word| self.text.contains(word))
    }

    /// Returns the part of the request that the provider refuses.
    pub(super) fn refused_field(&self) -> Option<RequestField> {
        // AWS grants the streamed and the plain call separately.
        if self.contains_any(&[
            "invokemodelwithresponsestream",
            "streaming is not supported",
            "stream is not supported",
        ]) {
            return Some(RequestField::Streaming);
        }
        if !matches!(self.status, Some(400 | 404 | 422) | None) {
            return None;
        }
        // Earlier reasoning that cannot be checked or is in the wrong place.
        let reasoning_trouble = [
            "invalid `signature` in `thinking`",
            "invalid signature in thinking",
            "thinking blocks in the latest assistant message",
            "thinking or redacted_thinking blocks",
            "encrypted content could not be",
            "invalid_encrypted_content",
            "of type 'reasoning' was provided without",
            "thought_signature",
        ];
        if self.contains_any(&reasoning_trouble) {
            return Some(RequestField::ReasoningReplay);
        }
        let pictures = [
            "image_url",
            "image input",
            "image(s)",
            "images",
            "image exceeds",
            "process image",
            "multimodal",
        ];
        let refuses_pictures = [
            "support",
            "unknown variant",
            "at most 0",
            "not a multimodal",
            "exceeds",
            "could not process",
            "missing data",
            "invalid content type",
            "must be a string",
        ];
        if self.contains_any(&pictures) && self.contains_any(&refuses_pictures) {
            return Some(RequestField::Pictures);
        }
        let refuses = [
            "unsupported",
            "not supported",
            "does not support",
            "doesn't support",
            "unknown parameter",
            "unknown field",
            "unrecognized",
            "unexpected keyword",
            "unknown name",
            "extra inputs are not permitted",
            "extra fields not permitted",
            "additional properties",
            "not permitted",
            "not allowed",
            "only the default",
            "no longer supported",
        ];
        if !self.contains_any(&refuses) {
            return None;
        }
        let names: [(&[&str], RequestField); 12] = [
            (
                &["max_completion_tokens' instead", "max_completion_tokens instead"],
                RequestField::MaxTokensName,
            ),
            (&["reasoning_content", "reasoning_details"], RequestField::ReasoningReplay),
            (&["stream_options", "include_usage"], RequestField::StreamOptions),
            (&["parallel_tool_calls"], RequestField::ParallelToolCalls),
            (&["service_tier"], RequestField::ServiceTier),
            (&["cache_control"], RequestField::CacheControl),
            (&["tool_choice"], RequestField::ToolChoice),
            (&["temperature"], RequestField::Temperature),
            (&["max_output_tokens", "max_completion_tokens"], RequestField::MaxTokens),
            (&["max_tokens"], RequestField::MaxTokensName),
            (&["reasoning", "thinking", "output_config", "effort"], RequestField::Reasoning),
            // Only for a model that supports no tools at all: a single refused schema must not remove all the
            // agent's tools.
            (&["support tools", "support tool use", "support function calling"], RequestField::Tools),
        ];
        let param = self.fault.param.as_deref().unwrap_or_default().to_lowercase();
        let about = |text: &str| {
            names
                .iter()
                .find(|(words, _)| words.iter().any(|word| text.contains(word)))
                .map(|(_, field)| *field)
        };
        if self.contains_any(&["max_completion_tokens' instead", "max_completion_tokens instead"]) {
            return Some(RequestField::MaxTokensName);
        }
        (!param.is_empty()).then(|| about(&param)).flatten().or_else(|| about(&self.text))
    }
}

impl From<&ProviderFault> for ProviderFailure {
    /// Creates the failure for an error that was reported inside an answer.
    fn from(fault: &ProviderFault) -> Self {
        let after = wait::wait_in_text(&fault.message.to_lowercase());
        let mut failure = Self::build(fault.status, fault.clone(), after, None);
        failure.network = fault.status.is_none() && super::is_connection_loss(&fault.message);
        failure
    }
}

fn is_html(text: &str) -> bool {
    let start = hermes_text::head(text, 200).to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.contains("<title>")
}

/// Returns the title of an error page, and the id by which its operator can find it.
fn describe_page(page: &str) -> String {
    let between = |open: &str, close: &str| -> Option<String> {
        let lower = page.to_ascii_lowercase();
        let start = lower.find(open)? + open.len();
        let length = lower.get(start..)?.find(close)?;
        page.get(start..start + length).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    let title = between("<title>", "</title>").filter(|title| !title.is_empty());
    let title = title.unwrap_or_else(|| "an error page".to_owned());
    let ray = page.split_once("Ray ID:").map(|(_, rest)| {
        let mut inside_tag = false;
        let plain = rest.chars().filter(|c| {
            inside_tag = (inside_tag || *c == '<') && *c != '>';
            !inside_tag && *c != '>'
        });
        plain
            .skip_while(|c| c.is_whitespace())
            .take_while(char::is_ascii_alphanumeric)
            .take(32)
            .collect::<String>()
    });
    // Masked before it is truncated: half a key is still part of one.
    let title = mask_keys(&title);
    let title = ellipsize(&title, 200);
    match ray.filter(|ray| !ray.is_empty()) {
        Some(ray) => format!("{title} — Ray {ray}"),
        None => title.into_owned(),
    }
}
