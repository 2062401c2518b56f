//! What can go wrong, by what the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No registry has it.
    #[error("Could not fetch '{0}' from any source.")]
    NotFound(String),
    /// What a registry or an archive sent must not be installed.
    #[error("{0}")]
    Malformed(String),
    /// The request itself is not valid.
    #[error("{0}")]
    Invalid(String),
    /// GitHub answers no more requests for now.
    #[error(
        "GitHub's limit for requests is used up. Set GITHUB_TOKEN in the home's .env (or sign in with `gh auth login`) and \
         try again."
    )]
    GithubLimit,
    #[error("{what} answered with status {status}")]
    Status { what: String, status: u16 },
    #[error(transparent)]
    Network(#[from] hermes_net::Error),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Config(#[from] hermes_config::Error),
    #[error(transparent)]
    Store(#[from] hermes_knowledge::SkillStoreError),
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
