//! Selects the provider, its address, and the key sent to it.
//!
//! Decides from what is configured; sends nothing and renews nothing. Invariant: a key is sent only to the host it
//! belongs to, and a provider that the user named is never silently replaced by another.

pub mod auxiliary;
mod built_in;
mod custom_endpoint;
mod detection;
mod error;
pub mod fallback;
mod inputs;
mod model_facts;
pub mod name;
mod name_similarity;
pub mod registry;
mod resolve;
mod sight;
pub mod switch;
mod target;
mod window;

pub use error::ResolveError;
pub use inputs::ProviderInputs;
pub use model_facts::{ModelFacts, ModelFactsFile};
pub use registry::{Provider, ProviderKind};
pub use resolve::{ProviderChoice, ResolvedModel, resolve};
pub use sight::reads_pictures;
pub use target::{ModelChoice, ModelTarget};
pub use window::LearntWindows;
