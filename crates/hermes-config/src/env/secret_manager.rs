//! Variables whose values a secret manager holds.
//!
//! They are fetched once, at the start of the process, and are in its memory only: no file and no process gets them.
//! Invariant: they never replace the variable with which the secret manager itself is reached.

use std::sync::OnceLock;

/// A variable and its value.
pub type SecretValue = (String, String);

/// Says which value counts when `.env` or the shell has one too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretPrecedence {
    SecretManager,
    Environment,
}

/// The fetched variables of this process.
static FETCHED: OnceLock<Vec<(SecretValue, SecretPrecedence)>> = OnceLock::new();

/// Keeps the fetched variables for every environment that is made from now on. Only the first call of a process counts.
pub fn provide_secrets(values: Vec<(SecretValue, SecretPrecedence)>) {
    let _ = FETCHED.set(values);
}

/// Returns the fetched variables.
pub(super) fn fetched() -> &'static [(SecretValue, SecretPrecedence)] {
    FETCHED.get().map_or(&[], Vec::as_slice)
}
