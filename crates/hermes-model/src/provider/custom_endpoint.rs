//! OpenRouter, and endpoints configured in its place.
//!
//! Invariant: a key is sent only to a host it was configured for. `OPENROUTER_API_KEY` belongs to openrouter.ai or
//! to the address that was set for OpenRouter; `OPENAI_API_KEY` to api.openai.com, to `OPENAI_BASE_URL`, or to the
//! endpoint in the `model` section. An address given for one call gets a key only if that key's host is the same.

use hermes_config::settings::CustomProvider;

use super::error::ResolveError;
use super::inputs::{FoundKey, ProviderInputs};
use super::registry::{CUSTOM, LM_STUDIO, OPENAI, OPENROUTER, Provider};
use super::resolve::TargetResolver;
use crate::client::PresentedCredential;
use crate::credential::KeySource;
use crate::wire::{ApiMode, BaseUrl};

/// The provider that the caller requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestedProvider {
    Auto,
    OpenRouter,
    Custom,
}

/// The source of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressOrigin {
    Flag,
    Config,
    OpenAiVariable,
    OpenRouterVariable,
    Default,
}

pub(super) struct CustomEndpoint {
    pub(super) provider: &'static Provider,
    pub(super) base_url: String,
    pub(super) key: Option<FoundKey>,
}

/// The placeholder sent to endpoints without keys, because some require the header.
const NO_KEY: &str = "no-key-required";

pub(super) fn find(
    search: &TargetResolver<'_>,
    asked: RequestedProvider,
) -> Result<CustomEndpoint, ResolveError> {
    let (url, origin) =
        base(search, asked).ok_or_else(|| ResolveError::NoAddress { provider: "custom".to_owned() })?;
    let base = BaseUrl::parse(&url);
    let at_openrouter = base.is_under("openrouter.ai");
    let provider = match asked {
        RequestedProvider::OpenRouter => OPENROUTER,
        RequestedProvider::Auto if at_openrouter || origin == AddressOrigin::OpenRouterVariable => OPENROUTER,
        RequestedProvider::Auto if base.host() == "api.openai.com" => OPENAI,
        RequestedProvider::Auto | RequestedProvider::Custom => CUSTOM,
    };
    let key = key(search, asked, &base, origin);
    let needs_key = provider.id == "openrouter" && at_openrouter;
    if key.is_none() && needs_key && !search.inputs.has_pool("openrouter") {
        return Err(ResolveError::no_key("openrouter", Some("OPENROUTER_API_KEY")));
    }
    let mode = search.inputs.config.non_empty_text("model.api_mode").filter(|_| search.config_applies());
    let base_url = if provider.id == "openrouter" { url } else { with_version(&url, mode.as_deref()) };
    Ok(CustomEndpoint { provider, base_url, key })
}

fn base(search: &TargetResolver<'_>, asked: RequestedProvider) -> Option<(String, AddressOrigin)> {
    let facts = search.inputs;
    if let Some(url) = &search.choice.base_url {
        return Some((url.clone(), AddressOrigin::Flag));
    }
    let by_variable = facts.address_in("OPENAI_BASE_URL").map(|url| (url, AddressOrigin::OpenAiVariable));
    let configured = search.configured_base().map(|url| (url, AddressOrigin::Config));
    match asked {
        RequestedProvider::Custom => {
            let usual = || search.is_lm_studio().then(|| (LM_STUDIO.1.to_owned(), AddressOrigin::Default));
            return configured.or(by_variable).or_else(usual);
        }
        RequestedProvider::Auto => {
            if let Some(found) = by_variable.or(configured) {
                return Some(found);
            }
        }
        // Any other address in the file is left over from another provider: the key belongs to OpenRouter.
        RequestedProvider::OpenRouter => {
            if let Some(found) = configured.filter(|(url, _)| BaseUrl::parse(url).is_under("openrouter.ai")) {
                return Some(found);
            }
        }
    }
    let moved = facts.address_in("OPENROUTER_BASE_URL").map(|url| (url, AddressOrigin::OpenRouterVariable));
    Some(moved.unwrap_or_else(|| (OPENROUTER.base_url.to_owned(), AddressOrigin::Default)))
}

fn key(
    search: &TargetResolver<'_>,
    asked: RequestedProvider,
    base: &BaseUrl,
    origin: AddressOrigin,
) -> Option<FoundKey> {
    let facts = search.inputs;
    let configured = || search.configured_key();
    let beside_base = || configured().filter(|_| origin == AddressOrigin::Config);
    let explicit = search.choice.key();
    if base.is_under("openrouter.ai") || origin == AddressOrigin::OpenRouterVariable {
        return explicit
            .or_else(beside_base)
            .or_else(|| facts.key_in(OPENROUTER.keys))
            .or_else(|| configured().filter(|_| asked == RequestedProvider::OpenRouter));
    }
    let studio = || facts.key_in(&[LM_STUDIO.2]).filter(|_| search.is_lm_studio());
    let chosen_in_file = origin == AddressOrigin::Config
        || search.configured_base().is_some_and(|own| is_same_host(&own, base));
    let beside_same_base = || configured().filter(|_| chosen_in_file);
    let openai =
        || facts.key_in(&["OPENAI_API_KEY"]).filter(|_| chosen_in_file || openai_key_fits(facts, base));
    explicit.or_else(beside_same_base).or_else(studio).or_else(openai)
}

/// Tells whether `OPENAI_API_KEY` may be sent to an address: it is OpenAI's own, or the one set beside the key.
pub(super) fn openai_key_fits(facts: &ProviderInputs, base: &BaseUrl) -> bool {
    base.host() == "api.openai.com"
        || facts.address_in("OPENAI_BASE_URL").is_some_and(|own| is_same_host(&own, base))
}

fn is_same_host(url: &str, base: &BaseUrl) -> bool {
    BaseUrl::parse(url).host() == base.host()
}

/// Returns the key source for an endpoint without a key.
pub(super) fn missing_key_source(base: &BaseUrl) -> KeySource {
    if base.is_local() {
        KeySource::Fixed(PresentedCredential::Anonymous)
    } else {
        KeySource::bearer(hermes_types::Secret::new(NO_KEY))
    }
}

/// Appends the version: local servers print their URL without it, but the wires need it.
pub(super) fn with_version(url: &str, api_mode: Option<&str>) -> String {
    let base = BaseUrl::parse(url);
    let messages =
        api_mode.and_then(ApiMode::parse) == Some(ApiMode::Anthropic) || base.host() == "api.anthropic.com";
    let bare = base.path().is_empty() && !base.host().is_empty() && !url.contains('?');
    if bare && !messages { format!("{}/v1", base.as_str()) } else { base.as_str().to_owned() }
}

/// Returns the context length that the user configured for a model of one of their own endpoints.
pub(super) fn context_length(facts: &ProviderInputs, base: &BaseUrl, model: &str) -> Option<u64> {
    CustomProvider::all(&facts.config)
        .into_iter()
        .filter(|entry| with_version(&entry.base_url, entry.api_mode.as_deref()) == base.as_str())
        .find_map(|entry| entry.context_lengths.iter().find(|(id, _)| *id == model).map(|(_, size)| *size))
}
