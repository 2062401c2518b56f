//! The errors of the home's files. The variants follow what the caller can do about them.

use std::io;
use std::path::{Path, PathBuf};

use crate::yaml::edit::EditError;

/// A failure of this crate. Texts name the file or key and the remedy, and never a value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The home cannot be located; the user has to name it.
    #[error(
        "cannot find your home directory: HOME is not set and {reason}. Set HERMES_HOME to the folder Hermes should use."
    )]
    NoHome { reason: String },
    /// The file cannot be read; the user has to fix access.
    #[error("cannot read {path}: {source}. {remedy}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error, remedy: &'static str },
    /// The file cannot be written; the user has to free space or fix access. The old file is intact.
    #[error("cannot write {path}: {source}. {remedy}", path = path.display())]
    Unwritable { path: PathBuf, source: io::Error, remedy: &'static str },
    /// Another process holds the lock; the caller may retry later.
    #[error("another Hermes process keeps {path} locked; gave up after {seconds} s. Try again, or end that process.", path = path.display())]
    Busy { path: PathBuf, seconds: u64 },
    /// The file cannot be edited; the user has to repair it by hand.
    #[error("{path} cannot be changed: {problem}. Fix the file by hand (hermes config edit); nothing was written.", path = path.display())]
    BrokenFile { path: PathBuf, problem: String },
    /// The file cannot be used; the user has to repair it, because acting on the defaults could allow what the
    /// file forbids.
    #[error("{path} cannot be used: {problem}. Nothing was run. Fix it with: hermes config edit", path = path.display())]
    Unusable { path: PathBuf, problem: String },
    /// The `.env` file cannot be used, for the same reason.
    #[error("{problem} Nothing was run.")]
    UnusableEnvironment { problem: String },
    /// The key cannot be addressed; the user has to write it as a path.
    #[error("Invalid config key: '{key}'. Write it as section.name, for example agent.max_turns.")]
    InvalidKey { key: String },
    /// The value is not allowed; the user has to choose another.
    #[error("{key}: {problem}. Nothing was changed.")]
    InvalidValue { key: String, problem: String },
    /// The name of the variable is not valid; the user has to correct it.
    #[error("Invalid environment variable name: {name}")]
    InvalidName { name: String },
    /// The arguments are incomplete; the caller shows the usage text.
    #[error("{usage}")]
    Usage { usage: &'static str },
    /// The system's own configuration decides, so nothing can be changed here.
    #[error(
        "Cannot {action}: configuration is managed by NixOS (HERMES_MANAGED=true).\n\
         Change services.hermes-agent.settings in the system configuration and rebuild."
    )]
    Managed { action: String },
    /// The key has no value.
    #[error("'{key}' is not set.")]
    NotSet { key: String },
    /// The provider is unknown; the user has to name a known one.
    #[error("Unknown provider '{name}'.")]
    UnknownProvider { name: String },
}

impl Error {
    pub fn unreadable(path: &Path, source: io::Error) -> Self {
        let remedy = match source.kind() {
            io::ErrorKind::PermissionDenied => "Check the owner and mode of the file and its folder.",
            io::ErrorKind::IsADirectory => "A folder stands where the file should be; move it away.",
            _ => "Check that the disk is mounted and healthy.",
        };
        Self::Unreadable { path: path.to_owned(), source, remedy }
    }

    pub fn unwritable(path: &Path, source: io::Error) -> Self {
        let remedy = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "The disk is full: free some space. The old file is unchanged."
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "The file system is read-only: mount it writable or point HERMES_HOME elsewhere."
            }
            io::ErrorKind::PermissionDenied => {
                "Check the owner and mode of the folder, or point HERMES_HOME elsewhere."
            }
            io::ErrorKind::IsADirectory => "A folder stands where the file should be; move it away.",
            io::ErrorKind::NotADirectory => "A file stands where a folder should be; move it away.",
            _ => "The old file is unchanged.",
        };
        Self::Unwritable { path: path.to_owned(), source, remedy }
    }

    pub(crate) fn broken(path: &Path, error: &EditError) -> Self {
        Self::BrokenFile { path: path.to_owned(), problem: error.to_string() }
    }
}

pub type Result<T> = std::result::Result<T, Error>;
