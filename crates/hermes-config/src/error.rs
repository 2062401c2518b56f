//! What can go wrong with the home's files, by what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::yaml::edit::EditError;

/// Texts name the file or key and the remedy, and never a value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Ask the user to say where the home is.
    #[error(
        "cannot find your home directory: HOME is not set and {reason}. Set HERMES_HOME to the folder Hermes should use."
    )]
    NoHome { reason: String },
    /// Ask the user to fix access.
    #[error("cannot read {path}: {source}. {remedy}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error, remedy: &'static str },
    /// Ask the user to make room or fix access; the old file is intact.
    #[error("cannot write {path}: {source}. {remedy}", path = path.display())]
    Unwritable { path: PathBuf, source: io::Error, remedy: &'static str },
    /// Retry later.
    #[error("another Hermes process keeps {path} locked; gave up after {seconds} s. Try again, or end that process.", path = path.display())]
    Busy { path: PathBuf, seconds: u64 },
    /// Ask the user to repair the file by hand.
    #[error("{path} cannot be changed: {problem}. Fix the file by hand (hermes config edit); nothing was written.", path = path.display())]
    BrokenFile { path: PathBuf, problem: String },
    /// Ask the user to repair the file; acting on the defaults could allow what the file forbids.
    #[error("{path} cannot be used: {problem}. Nothing was run. Fix it with: hermes config edit", path = path.display())]
    Unusable { path: PathBuf, problem: String },
    /// The same for `.env`.
    #[error("{problem} Nothing was run.")]
    UnusableEnvironment { problem: String },
    /// Ask for a key that can be addressed.
    #[error("Invalid config key: '{key}'. Write it as section.name, for example agent.max_turns.")]
    InvalidKey { key: String },
    /// Ask for another value.
    #[error("{key}: {problem}. Nothing was changed.")]
    InvalidValue { key: String, problem: String },
    /// Ask for another spelling.
    #[error("Invalid environment variable name: {name}")]
    InvalidName { name: String },
    /// Show the usage text.
    #[error("{usage}")]
    Usage { usage: &'static str },
    /// Give up: the system's own configuration decides.
    #[error(
        "Cannot {action}: configuration is managed by NixOS (HERMES_MANAGED=true).\n\
         Change services.hermes-agent.settings in the system configuration and rebuild."
    )]
    Managed { action: String },
    /// Say that nothing is there.
    #[error("'{key}' is not set.")]
    NotSet { key: String },
    /// Ask for a provider we know.
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
