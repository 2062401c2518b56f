//! Selects the provider when the user named none.

use hermes_config::{canonical_provider, precedence};

use super::inputs::ProviderInputs;
use super::registry::{DetectionPolicy, Provider, ProviderKind, REGISTRY, find};
use super::resolve::ProviderChoice;
use crate::credential::{aws, codex, nous};
use crate::wire::BaseUrl;

/// The result of detection.
#[derive(Debug, Clone, Copy)]
pub(super) enum DetectedProvider {
    /// No provider is configured.
    Offline,
    /// OpenRouter, or the address that is configured in its place.
    ConfiguredAddress,
    Provider(&'static Provider),
}

pub(super) fn detect(facts: &ProviderInputs, choice: &ProviderChoice) -> DetectedProvider {
    if choice.api_key.is_some() || choice.base_url.is_some() {
        return DetectedProvider::ConfiguredAddress;
    }
    let configured = precedence::base_url(&facts.config, "auto");
    let by_variable = facts.address_in("OPENAI_BASE_URL");
    // An address that the user configured is a deliberate choice and comes before any sign-in.
    if by_variable.is_none() && configured.as_deref().is_some_and(is_unknown_address) {
        return DetectedProvider::ConfiguredAddress;
    }
    if let Some(provider) = active_provider(facts) {
        return DetectedProvider::Provider(provider);
    }
    let openai = facts.key_in(&["OPENAI_API_KEY"]);
    let openrouter = facts.has_key_in(&["OPENROUTER_API_KEY"]) || facts.has_pool("openrouter");
    let moved =
        configured.is_some() || by_variable.is_some() || facts.address_in("OPENROUTER_BASE_URL").is_some();
    if let Some(key) = &openai
        && !openrouter
        && !moved
        && !key.key.expose().starts_with("sk-or-")
        && let Some(provider) = find("openai")
    {
        return DetectedProvider::Provider(provider);
    }
    if openai.is_some() || openrouter {
        return DetectedProvider::ConfiguredAddress;
    }
    let detected = REGISTRY.iter().find(|provider| {
        provider.detection == DetectionPolicy::Allowed
            && (facts.has_key_in(provider.keys) || facts.has_pool(provider.id))
    });
    let bedrock = || find("bedrock").filter(|_| aws::is_detectable(&facts.env));
    match detected.or_else(bedrock) {
        Some(provider) => DetectedProvider::Provider(provider),
        None if configured.is_some() || by_variable.is_some() => DetectedProvider::ConfiguredAddress,
        None => DetectedProvider::Offline,
    }
}

/// Returns the provider signed in to last, if that sign-in is still stored.
fn active_provider(facts: &ProviderInputs) -> Option<&'static Provider> {
    let id = canonical_provider(facts.auth.active_provider()?).ok()?;
    let provider = find(id)?;
    is_signed_in(facts, provider).then_some(provider)
}

/// Tells whether the stored state is usable, not merely present.
pub(super) fn is_signed_in(facts: &ProviderInputs, provider: &Provider) -> bool {
    let state = facts.auth.provider(provider.id);
    let by_state = match provider.id {
        "nous" => state.is_some_and(nous::is_signed_in),
        "openai-codex" => state.is_some_and(codex::is_signed_in),
        "copilot" => {
            state.is_some_and(|state| state.get("access_token").is_some_and(serde_json::Value::is_string))
        }
        _ => false,
    };
    by_state || (provider.kind != ProviderKind::Offline && facts.has_pool(provider.id))
}

/// Tells whether an address belongs to no known provider.
fn is_unknown_address(url: &str) -> bool {
    let base = BaseUrl::parse(url);
    let known = REGISTRY.iter().filter(|provider| !provider.base_url.is_empty());
    !base.host().is_empty() && !known.into_iter().any(|p| BaseUrl::parse(p.base_url).host() == base.host())
}
