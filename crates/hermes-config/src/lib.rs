//! The home folder: its layout, and reading, checking, editing and migrating config.yaml, .env and auth.json.
//!
//! This crate is the only reader of the process environment. It starts no process, opens no socket and prints
//! nothing. Invariants: a read never replaces a file the user wrote; a single-key write changes that key only; no
//! error, log line or `Debug` output contains a secret.

pub mod auth;
pub mod env;
mod error;
mod home;
pub mod keys;
mod load;
pub mod lock;
mod managed_mode;
pub mod migrate;
pub mod precedence;
pub mod provider;
pub mod save;
pub mod secrets;
pub mod set;
pub mod settings;
mod tree;
pub mod write;
pub mod yaml;

pub use env::Env;
pub use error::{Error, Result};
pub use home::{Home, expand_tilde, make_private, user_home};
pub use load::{Config, ConfigFileState, ConfigWarning};
pub use managed_mode::ManagedMode;
pub use precedence::ProgramSurface;
pub use provider::{canonical_provider, custom_slug, is_usable_key};
pub use tree::expand_text;
