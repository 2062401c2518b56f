//! The reasons why a request failed, named for what the caller can do about them.

use std::time::Duration;

use hermes_guard::UrlDenial;
use thiserror::Error;

/// The step that exceeded its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutPhase {
    Connection,
    Answer,
}

impl std::fmt::Display for TimeoutPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connection => "did not accept a connection in time",
            Self::Answer => "did not answer in time",
        })
    }
}

/// The error of a request. The texts are safe to show and to log: they name hosts and files, nothing else of a
/// request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The connection failed. Nothing was sent, so repeating the request is safe; `retryable` says whether it is
    /// worthwhile.
    #[error("could not connect to {host}: {why}")]
    Connect { host: String, why: String, retryable: bool },
    #[error("{host} {wait}")]
    TimedOut { host: String, wait: TimeoutPhase },
    /// The response began, and then no data arrived for this long.
    #[error("{host} sent nothing for {} s", after.as_secs())]
    Stalled { host: String, after: Duration },
    #[error("it was cancelled")]
    Cancelled,
    #[error("the time limit of this turn has passed")]
    DeadlinePassed,
    #[error("the response from {host} is larger than {limit} bytes")]
    TooLarge { host: String, limit: usize },
    #[error(transparent)]
    Denied(#[from] UrlDenial),
    /// The connection ended before the response was complete.
    #[error("{host} closed the connection before the response was complete")]
    ConnectionLost { host: String },
    #[error("TLS connection to {host} failed: {why}")]
    Tls { host: String, why: String },
    #[error("the proxy refused the connection to {host}: {why}")]
    Proxy { host: String, why: String },
    #[error("not a valid URL")]
    InvalidUrl,
    #[error("{host}: too many redirects")]
    TooManyRedirects { host: String },
    /// The server answered a WebSocket handshake with an ordinary response.
    #[error("{host} refused the connection with status {status}")]
    Refused { host: String, status: u16 },
    #[error("unexpected response from {host}: {why}")]
    Malformed { host: String, why: String },
    #[error("invalid network settings: {why}")]
    Settings { why: String },
    #[error("the request to {host} failed: {why}")]
    Other { host: String, why: String },
}

impl Error {
    /// Tells whether the same request may succeed a little later. It does not say whether repeating it is harmless.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { retryable, .. } => *retryable,
            Self::TimedOut { .. } | Self::Stalled { .. } | Self::ConnectionLost { .. } => true,
            _ => false,
        }
    }
}
