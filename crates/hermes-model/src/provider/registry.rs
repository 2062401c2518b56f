//! The table of known providers, and the search for the provider of an address.

pub use hermes_config::provider::registry::{
    CUSTOM, DetectionPolicy, KIMI_PLAN, LM_STUDIO, OPENAI, OPENROUTER, Provider, ProviderKind, REGISTRY,
    find, find_named, models,
};

use crate::wire::BaseUrl;

/// Finds the provider of a host.
pub(crate) fn find_by_host(host: &str) -> Option<&'static Provider> {
    let lives = |provider: &&Provider| {
        !provider.base_url.is_empty() && BaseUrl::parse(provider.base_url).host() == host && !host.is_empty()
    };
    REGISTRY.iter().find(lives)
}
