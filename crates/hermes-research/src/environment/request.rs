//! What can go wrong with a request, and whether a repetition may help.

use std::time::Duration;

use hermes_net::HttpResponse;
use hermes_types::random_hex;
use serde_json::Value;

/// The longest wait between two attempts.
const LONGEST_WAIT: f64 = 10.0;
/// The characters of an answer that are shown.
const SHOWN: usize = 300;

/// The reason why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestFailure {
    pub(crate) reason: String,
    pub(crate) may_pass: bool,
    pub(crate) status: Option<u16>,
}

impl From<hermes_net::Error> for RequestFailure {
    fn from(error: hermes_net::Error) -> Self {
        let may_pass = !matches!(
            error,
            hermes_net::Error::Cancelled
                | hermes_net::Error::InvalidUrl
                | hermes_net::Error::TooLarge { .. }
                | hermes_net::Error::Settings { .. }
        );
        Self { reason: error.to_string(), may_pass, status: None }
    }
}

impl RequestFailure {
    /// Reads an answer as JSON, if its status says that there is one.
    pub(crate) async fn check(answer: HttpResponse, limit: usize) -> Result<Value, Self> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer.json(limit).await?);
        }
        let host = answer.url().host_str().unwrap_or_default().to_owned();
        let text = answer.text(64 * 1024).await.unwrap_or_default();
        let shown = hermes_text::single_line(hermes_text::head(&text, SHOWN));
        Err(Self {
            reason: format!("{host} answered with status {}: {shown}", status.as_u16()),
            may_pass: status.is_server_error() || status.as_u16() == 429,
            status: Some(status.as_u16()),
        })
    }
}

/// Returns a wait that grows with the attempts and differs between callers.
pub(crate) fn random_wait(attempt: u32) -> Duration {
    let most = f64::from(1_u32.checked_shl(attempt).unwrap_or(u32::MAX)).min(LONGEST_WAIT);
    Duration::from_secs_f64(most * random_fraction())
}

/// Returns a number from 0 up to but not including 1.
pub(crate) fn random_fraction() -> f64 {
    let bits = u32::from_str_radix(&random_hex(8), 16).unwrap_or_default();
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
