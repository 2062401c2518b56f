//! End-to-end encryption of Matrix: the keys of this device, encrypted rooms and files, cross-signing and the backup of keys.
//!
//! Does no I/O but to its own file: what must be asked of the server comes out as a [`KeyRequest`], and the response goes back in.
//! Knows neither rooms nor messages beyond what is encrypted. Invariant: a state is on disk before anything made with it
//! leaves, so that a process that is killed never uses a key's position twice and never forgets a key it was given.

mod error;
mod file;
mod keys;
mod pending_records;
mod record_store;
mod recovery;
mod request;
mod verification;

pub use error::Error;
pub use file::{EncryptedFile, decrypt_file, encrypt_file};
pub use keys::{DecryptedEvent, MatrixKeys, RoomKeySharing};
pub use recovery::{KeyBackup, SecretBundle};
pub use request::{KeyRequest, KeyRequestKind, RoomEventRequest};
pub use verification::{VerificationEmoji, VerificationFlow, VerificationPhase, VerificationRefusal};
