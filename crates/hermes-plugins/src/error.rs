//! What can go wrong with extensions.

/// The reason why a plugin cannot be used, worded for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// The helper process could not be started.
    #[error("{0}")]
    Unavailable(String),
    /// The plugin itself reported an error.
    #[error("{0}")]
    Failed(String),
    #[error("no answer within {0} s")]
    TimedOut(u64),
}
