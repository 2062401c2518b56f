//! The reasons why a sign-in or a renewal failed, by what the user can do about them.

use thiserror::Error;

use crate::client::CredentialUnavailable;

/// The error of a sign-in. Texts are safe to show: they contain no token and no response body.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SignInError {
    /// The stored sign-in is no longer valid.
    #[error("{why} Sign in again: run `hermes login`, or `hermes model` and choose {provider}.")]
    SignInAgain { provider: &'static str, why: String },
    /// The sign-in is valid, but the account lacks something.
    #[error("{0}")]
    Account(String),
    #[error("{0}")]
    TryLater(String),
    /// The code was not confirmed in time.
    #[error("The code was not confirmed in time. Start the sign-in again.")]
    Expired,
    #[error("The sign-in was refused.")]
    Denied,
    #[error("it was cancelled")]
    Cancelled,
    #[error("This provider has no sign-in: {0}. Set its key with `hermes model`.")]
    NoSignIn(String),
    /// The files of the home could not be read or written.
    #[error("{0}")]
    Storage(String),
}

impl From<SignInError> for CredentialUnavailable {
    fn from(error: SignInError) -> Self {
        Self(error.to_string())
    }
}

impl From<hermes_config::Error> for SignInError {
    fn from(error: hermes_config::Error) -> Self {
        match error {
            hermes_config::Error::Busy { .. } => Self::TryLater(error.to_string()),
            other => Self::Storage(other.to_string()),
        }
    }
}

impl From<hermes_net::Error> for SignInError {
    fn from(error: hermes_net::Error) -> Self {
        match error {
            hermes_net::Error::Cancelled => Self::Cancelled,
            hermes_net::Error::DeadlinePassed => {
                Self::TryLater("The sign-in server did not answer in time.".to_owned())
            }
            other => Self::TryLater(format!("The sign-in server could not be reached: {other}.")),
        }
    }
}
