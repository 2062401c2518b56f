//! Providers of models: from a question to an answer, whoever gives it.
//!
//! `wire` and its neighbours are pure: how a question is written on each wire, how an answer is read in whatever pieces
//! it arrives, what to do about a refusal, what a call used and cost. `provider` and `credential` say whom to ask and
//! with whose key. `client` does the waiting, retrying and switching on top of them; `discovery` asks beside the
//! conversation what nobody has said. `offline` answers by rule when nothing is configured.

pub mod caching;
pub mod client;
pub mod context_window;
pub mod credential;
pub mod discovery;
mod error;
pub mod offline;
pub mod price;
pub mod provider;
pub mod usage;
pub mod wire;

pub use error::{Error, ProviderFault};
