//! The errors of job operations, in words for the user who requested them.

use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

/// The reason why an operation failed. Nothing was changed.
#[derive(Debug, Error)]
pub enum Error {
    /// The schedule cannot be parsed; the message says which forms are accepted.
    #[error("{0}")]
    Schedule(String),
    /// The prompt must not be scheduled.
    #[error("{0}")]
    Blocked(String),
    /// Another field is invalid.
    #[error("{0}")]
    Field(String),
    #[error("there is no job '{0}'; `hermes cron list --all` shows them")]
    NotFound(String),
    #[error("'{reference}' fits several jobs: {}. Use the whole id", ids.join(", "))]
    Ambiguous { reference: String, ids: Vec<String> },
    #[error("its scheduled time has passed, so it would never run. Set a new schedule")]
    NoFurtherRuns,
    /// The job file cannot be parsed. The user must repair or move it; it is not overwritten.
    #[error("{path} is not valid JSON. Nothing was changed; repair the file or move it away", path = path.display())]
    Unreadable { path: std::path::PathBuf },
    #[error(transparent)]
    File(#[from] hermes_config::Error),
}
