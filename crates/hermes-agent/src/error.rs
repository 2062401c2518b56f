//! Reasons why a conversation cannot continue at all.

use hermes_types::{HolderId, SessionId};
use thiserror::Error;

/// Errors by what the caller can do. An error inside a turn is not here: it is part of the turn's result.
#[derive(Debug, Error)]
pub enum Error {
    /// Another process is running a turn in this conversation: wait for it, or end that process.
    #[error(
        "another Hermes (process {}) is working in this conversation; wait until it has finished",
        .holder.as_str().split('-').next().unwrap_or_default()
    )]
    Busy { holder: HolderId },
    #[error("Session not found: {0}")]
    NotFound(SessionId),
    #[error(transparent)]
    Store(#[from] hermes_store::Error),
}
