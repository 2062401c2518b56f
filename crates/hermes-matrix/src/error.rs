//! The errors of the encryption, by what the caller can do about them.

use matrix_sdk_crypto::CryptoStoreError;
use thiserror::Error as ThisError;

/// A failure of this crate.
#[derive(Debug, ThisError)]
pub enum Error {
    /// Another process uses the keys; it works again when that one has ended.
    #[error("another Hermes process uses the keys of this Matrix device")]
    InUse,

    /// The keys are those of another user or another device.
    #[error("the stored keys are those of {user} on device {device}")]
    OtherDevice { user: String, device: String },

    /// The key of an event is not known; it may come later.
    #[error("the key of this message is not known")]
    MissingKey,

    /// The sender of an event is not the owner of the key it is encrypted with.
    #[error("the message is encrypted with the key of somebody else")]
    WrongSender,

    /// Something that came from outside is not what it should be.
    #[error("{0}")]
    Invalid(String),

    /// The recovery key does not open the stored secrets.
    #[error("the recovery key does not fit")]
    WrongRecoveryKey,

    /// The keys could not be read or written; nothing was changed.
    #[error("{0}")]
    Storage(String),
}

impl Error {
    pub(crate) fn invalid(error: impl std::fmt::Display) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<CryptoStoreError> for Error {
    fn from(error: CryptoStoreError) -> Self {
        match error {
            CryptoStoreError::MismatchedAccount { expected, .. } => {
                Self::OtherDevice { user: expected.0.to_string(), device: expected.1.to_string() }
            }
            error => Self::Storage(error.to_string()),
        }
    }
}

impl From<hermes_store::Error> for Error {
    fn from(error: hermes_store::Error) -> Self {
        match error {
            hermes_store::Error::Busy { .. } => Self::InUse,
            error => Self::Storage(error.to_string()),
        }
    }
}
