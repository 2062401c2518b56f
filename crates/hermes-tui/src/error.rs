//! The reasons why there is no screen.

use std::io;

use thiserror::Error as ThisError;

/// The reason why a screen could not be opened.
#[derive(Debug, ThisError)]
pub enum Error {
    /// Use the line interface instead.
    #[error("the terminal cannot be used: {0}")]
    Terminal(#[source] io::Error),
}
