//! The errors of a run as a whole. What goes wrong with one prompt is a part of the run's result.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason why a run cannot begin or go on.
#[derive(Debug, Error)]
pub enum Error {
    /// The arguments or the input cannot be used. Nothing was changed.
    #[error("{0}")]
    Unusable(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    /// The database of the queue refused or could not be reached.
    #[error("the queue: {0}")]
    Queue(String),
    /// Another process works on the same files.
    #[error("{0}")]
    Busy(String),
    /// Too many prompts failed one after the other.
    #[error("{0}")]
    Failing(String),
}

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
