//! The reasons why a server cannot be used.

/// A failure to connect to a server. The texts are for the user and contain no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The entry in the configuration cannot work; the user has to change it.
    #[error("{0}")]
    Configuration(String),
    /// The server wants a sign-in; the user has to start it.
    #[error("{server} wants a sign-in; run: hermes mcp login {server}")]
    SignInNeeded { server: String },
    /// The server did not answer in time; a later attempt may succeed.
    #[error("no connection within {seconds} s")]
    TimedOut { seconds: u64 },
    /// The server ended or answered something else; a later attempt may succeed.
    #[error("{0}")]
    Unavailable(String),
}

impl Error {
    /// Tells whether the same attempt may succeed later without a change by the user.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Configuration(_) | Self::SignInNeeded { .. } => false,
            Self::TimedOut { .. } | Self::Unavailable(_) => true,
        }
    }
}
