//! Decides what to do about a refusal.
//!
//! One decision, made from what the provider said and the remedies the caller has left. The order of the checks
//! matters and is part of the contract: a rate limit before a size, a size before a bad request, so that a request
//! that only needs shrinking is never given up.

mod failure;
mod limits;
mod mask_keys;
mod wait;

use std::time::Duration;

pub use failure::ProviderFailure;
pub use limits::limit_in_text;
pub use wait::{backoff, invalid_response_backoff};

use super::options::RequestField;

/// The next action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Send the request again, after the time the provider named or else the default wait.
    Retry {
        after: Option<Duration>,
    },
    /// Use another key of the pool; `after` says when this one is valid again.
    RotateKey {
        after: Option<Duration>,
    },
    RefreshToken,
    /// Shrink the conversation and build the request again. A limit is given only when the provider named one that
    /// is smaller than the assumed one; only such a limit may be stored, and only after the next success.
    Compress {
        limit: Option<u64>,
    },
    LowerMaxTokens {
        to: u64,
    },
    SwitchToFallback,
    /// Leave a field out, or rename it, and send the request again without counting an attempt.
    DropField(RequestField),
    /// No remedy is left; the message is for the user.
    GiveUp {
        message: String,
    },
}

/// The kind of failure, for logs and for the state of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    Credential,
    RateLimit,
    Billing,
    TooLarge,
    ContextOverflow,
    OutputLimit,
    Field,
    Request,
    Server,
    Network,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureDiagnosis {
    pub remedy: Remedy,
    pub cause: FailureCause,
    /// The provider's message, short enough to show.
    pub summary: String,
}

/// Tells whether a token can be renewed, and has not been for this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenRefresh {
    Possible,
    #[default]
    Impossible,
}

/// Tells whether the pool has a key that has not been refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PoolAvailability {
    HasAnother,
    #[default]
    Exhausted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FallbackAvailability {
    Available,
    #[default]
    Unavailable,
}

/// The caller's facts about the request that was refused.
#[derive(Debug, Clone, Default)]
pub struct FailureContext {
    pub refresh: TokenRefresh,
    pub keys: PoolAvailability,
    pub fallback: FallbackAvailability,
    /// An estimate of the request's tokens.
    pub prompt_tokens: u64,
    pub context_length: u64,
    pub messages: usize,
    pub max_tokens: Option<u64>,
    /// Fields that were left out already; dropping one twice would loop forever.
    pub dropped: Vec<RequestField>,
}

pub fn classify(failure: &ProviderFailure, known: &FailureContext) -> FailureDiagnosis {
    let (cause, remedy) = decide(failure, known);
    FailureDiagnosis { remedy, cause, summary: failure.summary() }
}

fn decide(failure: &ProviderFailure, known: &FailureContext) -> (FailureCause, Remedy) {
    let status = failure.status();
    let after = failure.retry_after();
    if failure.is_network() {
        return (FailureCause::Network, Remedy::Retry { after });
    }
    if status == Some(401) && known.refresh == TokenRefresh::Possible {
        return (FailureCause::Credential, Remedy::RefreshToken);
    }
    if let Some(to) = limits::affordable(failure.text()).filter(|to| lowers(*to, known)) {
        return (FailureCause::Billing, Remedy::LowerMaxTokens { to });
    }
    if status == Some(402) {
        let end = give_up(
            failure,
            "The provider says the account is out of credit. Add credit or choose another provider.",
        );
        return (FailureCause::Billing, rotate(known, after, end));
    }
    // AWS returns 429 for a model that is still being loaded.
    if failure.contains_any(&["modelnotreadyexception"]) {
        return (FailureCause::Server, Remedy::Retry { after });
    }
    if status != Some(413) && (status == Some(429) || failure.contains_any(&RATE_LIMIT_PHRASES)) {
        if failure.contains_any(&["insufficient_quota", "billing_hard_limit"]) {
            let advice = "The account's quota is used up; waiting does not help. Add credit or choose another provider.";
            return (FailureCause::Billing, rotate(known, after, fall_back(known, give_up(failure, advice))));
        }
        let cause =
            if failure.contains_any(&["billing"]) { FailureCause::Billing } else { FailureCause::RateLimit };
        if let Some(wait) = after.filter(|wait| *wait > MAX_WAIT) {
            let advice = format!(
                "The provider asks to wait {}. Try again then, or choose another provider.",
                describe_duration(wait)
            );
            return (cause, rotate(known, after, fall_back(known, give_up(failure, &advice))));
        }
        return (cause, rotate(known, after, Remedy::Retry { after }));
    }
    if status == Some(413)
        || failure.contains_any(&["request entity too large", "payload too large", "request_too_large"])
    {
        return (FailureCause::TooLarge, Remedy::Compress { limit: None });
    }
    if let Some(to) = limits::output_limit(failure.text()).filter(|to| lowers(*to, known)) {
        return (FailureCause::OutputLimit, Remedy::LowerMaxTokens { to });
    }
    if failure.contains_any(&OVERFLOW_PHRASES) || is_bare_overflow(failure, known) {
        let limit = limit_in_text(failure.text())
            .filter(|limit| known.context_length == 0 || *limit < known.context_length);
        return (FailureCause::ContextOverflow, Remedy::Compress { limit });
    }
    if let Some(field) = failure.refused_field().filter(|field| !known.dropped.contains(field)) {
        return (FailureCause::Field, Remedy::DropField(field));
    }
    match status {
        Some(401 | 403) => {
            let advice = "The provider refused the credential. Check the API key, or sign in again.";
            (FailureCause::Credential, rotate(known, after, give_up(failure, advice)))
        }
        Some(400) if failure.has_no_message() => (FailureCause::Request, Remedy::Retry { after }),
        // Timeouts and conflicts on the server's side are temporary.
        Some(408 | 409 | 425) => (FailureCause::Server, Remedy::Retry { after }),
        Some(404) => {
            let advice =
                "The provider does not know this model or address. Check the model name and the base URL.";
            (FailureCause::Request, fall_back(known, give_up(failure, advice)))
        }
        Some(400..=499) => {
            (FailureCause::Request, fall_back(known, give_up(failure, "The provider refused the request.")))
        }
        _ if failure.contains_any(&PERMANENT_FAILURE_PHRASES) => {
            (FailureCause::Request, fall_back(known, give_up(failure, "The provider refused the request.")))
        }
        _ => (FailureCause::Server, Remedy::Retry { after }),
    }
}

/// The longest wait; a longer one is reported to the user instead.
const MAX_WAIT: Duration = Duration::from_mins(5);

fn describe_duration(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..=119 => format!("{seconds} seconds"),
        seconds @ 120..=7_199 => format!("{} minutes", seconds.div_ceil(60)),
        seconds => format!("{} hours", seconds.div_ceil(3_600)),
    }
}

const RATE_LIMIT_PHRASES: [&str; 8] = [
    "rate limit",
    "rate_limit",
    "too many requests",
    "usage limit",
    "quota",
    "throttlingexception",
    "servicequotaexceededexception",
    "resource_exhausted",
];

const OVERFLOW_PHRASES: [&str; 13] = [
    "context length",
    "context_length_exceeded",
    "context size",
    "maximum context",
    "token limit",
    "too many tokens",
    "reduce the length",
    "exceeds the limit",
    "context window",
    "prompt is too long",
    "prompt exceeds max length",
    "input is too long",
    "exceed context limit",
];

const PERMANENT_FAILURE_PHRASES: [&str; 9] = [
    "invalid api key",
    "invalid_api_key",
    "authentication",
    "unauthorized",
    "forbidden",
    "not found",
    "is not a valid model",
    "invalid model",
    "accessdenied",
];

/// Tells whether a message describes a broken stream rather than a provider's refusal.
pub fn is_connection_loss(message: &str) -> bool {
    let text = message.to_ascii_lowercase();
    [
        "connection lost",
        "connection reset",
        "connection closed",
        "connection terminated",
        "network error",
        "network connection",
        "peer closed",
        "broken pipe",
        "upstream connect error",
        "terminated",
    ]
    .into_iter()
    .any(|words| text.contains(words))
}

fn rotate(known: &FailureContext, after: Option<Duration>, end: Remedy) -> Remedy {
    match known.keys {
        PoolAvailability::HasAnother => Remedy::RotateKey { after },
        PoolAvailability::Exhausted => fall_back(known, end),
    }
}

fn fall_back(known: &FailureContext, end: Remedy) -> Remedy {
    match known.fallback {
        FallbackAvailability::Available => Remedy::SwitchToFallback,
        FallbackAvailability::Unavailable => end,
    }
}

fn give_up(failure: &ProviderFailure, advice: &str) -> Remedy {
    Remedy::GiveUp { message: format!("{advice} ({})", failure.summary()) }
}

fn lowers(to: u64, known: &FailureContext) -> bool {
    to > 0 && known.max_tokens.is_none_or(|sent| to < sent)
}

/// Tells whether a bare "Error" means that the prompt does not fit, as on some servers; in a small session it means
/// something else.
fn is_bare_overflow(failure: &ProviderFailure, known: &FailureContext) -> bool {
    let large = known.messages > 80
        || (known.context_length > 0
            && known.prompt_tokens.saturating_mul(10) > known.context_length.saturating_mul(4));
    failure.status() == Some(400) && failure.message().trim().chars().count() < 30 && large
}
