//! Why a conversation cannot be gone on with at all.

use hermes_types::{HolderId, SessionId};
use thiserror::Error;

/// Named for what the caller can do. What goes wrong inside a turn is not here: it is the turn's result.
#[derive(Debug, Error)]
pub enum Error {
    /// Another process is running a turn in this conversation: wait for it, or end that process.
    #[error(
        "another Hermes (process {}) is working in this conversation; wait until it is done",
        .holder.as_str().split('-').next().unwrap_or_default()
    )]
    Busy { holder: HolderId },
    #[error("Session not found: {0}")]
    NotFound(SessionId),
    #[error(transparent)]
    Store(#[from] hermes_store::Error),
}
