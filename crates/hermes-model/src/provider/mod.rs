//! Which provider is asked, where it is reached, and whose key it is shown.
//!
//! Decides from what is configured; sends nothing and renews nothing. Invariant: a key goes only to the host it belongs
//! to, and a provider somebody named is never silently replaced by another.

mod auto;
pub mod auxiliary;
mod built_in;
pub mod catalogue;
mod custom;
mod error;
mod facts;
pub mod fallback;
mod known;
mod likeness;
pub mod name;
pub mod registry;
mod resolve;
pub mod switch;
mod target;
mod window;

pub use error::ResolveError;
pub use facts::Facts;
pub use known::{Known, KnownModels};
pub use registry::{Kind, Provider};
pub use resolve::{Choice, Resolved, resolve};
pub use target::{ModelChoice, Target};
pub use window::LearntWindows;
