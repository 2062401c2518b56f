//! Model providers: from a request to an answer, whichever provider gives it.
//!
//! `wire` and the modules beside it are pure: how a request is written on each wire, how an answer is read from
//! chunks of any size, what to do about a refusal, what a call used and cost. `provider` and `credential` select
//! the endpoint and the key. `client` waits, retries and switches on top of them; `discovery` queries facts outside
//! the conversation. `offline` answers by rule when nothing is configured.

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
