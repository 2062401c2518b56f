//! The errors of the database. The variants follow what the caller can do about them.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use thiserror::Error;

/// A failure of this crate. Each text names the file and the remedy.
#[derive(Debug, Clone, Error)]
pub enum Error {
    /// Another process held the lock through every retry: the same call may succeed later.
    #[error("{path}: another process keeps the database locked; nothing was written. Try again")]
    Busy { path: PathBuf },

    #[error("{path}: the disk is full; nothing was written. Free some space and try again")]
    DiskFull { path: PathBuf },

    #[error(
        "{path}: cannot write here ({detail}). Make the folder writable for this user, or point HERMES_HOME at one that is"
    )]
    ReadOnly { path: PathBuf, detail: String },

    /// The disk reported an error. Often it is full in a way SQLite cannot detect.
    #[error(
        "{path}: the disk could not be read or written ({detail}); it may be full or failing. Nothing was changed"
    )]
    Disk { path: PathBuf, detail: String },

    /// The file itself is damaged. It is not changed.
    #[error(
        "{path}: the database is damaged ({detail}). Nothing was changed; run `hermes db repair` to rescue what can be read; it keeps the damaged file"
    )]
    Damaged { path: PathBuf, detail: String },

    /// The file is a database, but not one this crate can use.
    #[error("{path}: {detail}")]
    Unusable { path: PathBuf, detail: String },

    /// The file was removed, moved or replaced while it was open. Anything written now would be lost.
    #[error(
        "{path}: the database was removed or replaced while Hermes was running; nothing more is written. Restore the file if you can, then restart Hermes"
    )]
    Gone { path: PathBuf },

    #[error("Title '{title}' is already in use by session {session}")]
    TitleTaken { title: String, session: String },

    #[error("{0}")]
    NotFound(String),

    /// The store was closed, or its thread ended; the log names the reason.
    #[error("the database has been closed")]
    Closed,

    /// A failure this crate does not handle specifically. The transaction was rolled back.
    #[error("{path}: {detail}")]
    Other { path: PathBuf, detail: String },
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// The error of an operation inside the writer or a reader; the loop that runs the operation adds the file's name.
#[derive(Debug)]
pub(crate) enum OperationError {
    Sqlite(rusqlite::Error),
    Refused(Error),
}

pub(crate) type OperationResult<T> = std::result::Result<T, OperationError>;

impl From<rusqlite::Error> for OperationError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for OperationError {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl OperationError {
    pub(crate) fn into_error(self, path: &Path) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => Error::from_sqlite(path, &error),
        }
    }
}

impl Error {
    pub(crate) fn from_io(path: &Path, error: &std::io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            std::io::ErrorKind::StorageFull => Self::DiskFull { path },
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path, detail: error.to_string() }
            }
            _ => Self::Other { path, detail: error.to_string() },
        }
    }

    pub(crate) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::ReadOnly { path, detail }
            }
            Some(ErrorCode::SystemIoFailure) => Self::Disk { path, detail },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged { path, detail },
            _ => Self::Other { path, detail },
        }
    }
}
