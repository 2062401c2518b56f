//! What can be wrong with a job, in words for whoever asked for it.

use thiserror::Error;

pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done. Nothing was changed.
#[derive(Debug, Error)]
pub enum Error {
    /// The schedule cannot be read; the words say what can.
    #[error("{0}")]
    Schedule(String),
    /// The prompt may not be scheduled.
    #[error("{0}")]
    Blocked(String),
    /// Another field is wrong.
    #[error("{0}")]
    Field(String),
    #[error("there is no job '{0}'; `hermes cron list --all` shows them")]
    NotFound(String),
    #[error("'{reference}' fits several jobs: {}. Use the whole id", ids.join(", "))]
    Ambiguous { reference: String, ids: Vec<String> },
    #[error("its time has passed, so it would never run. Give it a new schedule instead")]
    NoFurtherRuns,
    /// Ask the user to mend or move the file; it is not written over.
    #[error("{path} is not the JSON it should be. Nothing was changed; mend the file or move it away", path = path.display())]
    Unreadable { path: std::path::PathBuf },
    #[error(transparent)]
    File(#[from] hermes_config::Error),
}
