//! Errors while a test is set up.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The script is invalid; the text names file, line and field.
    #[error("{0}")]
    Script(String),
    #[error("cannot {doing}: {source}")]
    Io { doing: String, source: io::Error },
    #[error("cannot build the fixture: {0}")]
    Database(#[from] rusqlite::Error),
}

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
