//! The errors of this crate.

use std::time::Duration;

use hermes_guard::UrlDenial;
use thiserror::Error;

/// The reason why a call to the browser has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BrowserError {
    /// No browser can be used here; the text says what to set or install.
    #[error("{0}")]
    Unavailable(String),
    /// The browser has ended, or the connection to it. The next call starts another session.
    #[error("the browser has ended{0}. The next browser_navigate starts it again")]
    Ended(String),
    /// The policy for addresses refuses the page.
    #[error("{0}")]
    Denied(UrlDenial),
    /// A page led to an address that the policy refuses.
    #[error("the page redirects to another address: {0}")]
    DeniedRedirect(UrlDenial),
    #[error("the browser did not answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("Interrupted")]
    Cancelled,
    /// The page does not allow it; the text says what to do instead.
    #[error("{0}")]
    Refused(String),
}
