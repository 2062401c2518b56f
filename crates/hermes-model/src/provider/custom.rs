//! OpenRouter, and endpoints that stand in its place.
//!
//! Invariant: a key is shown only to a host it was configured for. `OPENROUTER_API_KEY` belongs to openrouter.ai or to
//! the address that was set for OpenRouter; `OPENAI_API_KEY` to api.openai.com, to `OPENAI_BASE_URL`, or to the endpoint in
//! the `model` section. An address given for one call gets a key only if that key's host is the same.

use hermes_config::settings::CustomProvider;

use super::error::ResolveError;
use super::facts::{Facts, FoundKey};
use super::registry::{CUSTOM, LM_STUDIO, OPENAI, OPENROUTER, Provider};
use super::resolve::Search;
use crate::client::Presented;
use crate::credential::Keys;
use crate::wire::{Base, Mode};

/// What was said about the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Auto,
    OpenRouter,
    Custom,
}

/// Where the address came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Flag,
    Config,
    OpenAiVariable,
    OpenRouterVariable,
    Default,
}

pub(super) struct Found {
    pub(super) provider: &'static Provider,
    pub(super) base_url: String,
    pub(super) key: Option<FoundKey>,
}

/// Literal that endpoints without keys are shown, because some insist on a header.
const NO_KEY: &str = "no-key-required";

pub(super) fn find(search: &Search<'_>, asked: Asked) -> Result<Found, ResolveError> {
    let (url, origin) =
        base(search, asked).ok_or_else(|| ResolveError::NoAddress { provider: "custom".to_owned() })?;
    let base = Base::parse(&url);
    let at_openrouter = base.is_under("openrouter.ai");
    let provider = match asked {
        Asked::OpenRouter => OPENROUTER,
        Asked::Auto if at_openrouter || origin == Origin::OpenRouterVariable => OPENROUTER,
        Asked::Auto if base.host() == "api.openai.com" => OPENAI,
        Asked::Auto | Asked::Custom => CUSTOM,
    };
    let key = key(search, asked, &base, origin);
    let needs_key = provider.id == "openrouter" && at_openrouter;
    if key.is_none() && needs_key && !search.facts.has_pool("openrouter") {
        return Err(ResolveError::no_key("openrouter", Some("OPENROUTER_API_KEY")));
    }
    let mode = search.facts.config.text_if_any("model.api_mode").filter(|_| search.config_applies());
    let base_url = if provider.id == "openrouter" { url } else { with_version(&url, mode.as_deref()) };
    Ok(Found { provider, base_url, key })
}

fn base(search: &Search<'_>, asked: Asked) -> Option<(String, Origin)> {
    let facts = search.facts;
    if let Some(url) = &search.choice.base_url {
        return Some((url.clone(), Origin::Flag));
    }
    let by_variable = facts.address_in("OPENAI_BASE_URL").map(|url| (url, Origin::OpenAiVariable));
    let configured = search.configured_base().map(|url| (url, Origin::Config));
    match asked {
        Asked::Custom => {
            let usual = || search.is_lm_studio().then(|| (LM_STUDIO.1.to_owned(), Origin::Default));
            return configured.or(by_variable).or_else(usual);
        }
        Asked::Auto => {
            if let Some(found) = by_variable.or(configured) {
                return Some(found);
            }
        }
        // Any other address in the file is a leftover: the key belongs to OpenRouter.
        Asked::OpenRouter => {
            if let Some(found) = configured.filter(|(url, _)| Base::parse(url).is_under("openrouter.ai")) {
                return Some(found);
            }
        }
    }
    let moved = facts.address_in("OPENROUTER_BASE_URL").map(|url| (url, Origin::OpenRouterVariable));
    Some(moved.unwrap_or_else(|| (OPENROUTER.base_url.to_owned(), Origin::Default)))
}

fn key(search: &Search<'_>, asked: Asked, base: &Base, origin: Origin) -> Option<FoundKey> {
    let facts = search.facts;
    let configured = || search.configured_key();
    let beside_base = || configured().filter(|_| origin == Origin::Config);
    let explicit = search.choice.key();
    if base.is_under("openrouter.ai") || origin == Origin::OpenRouterVariable {
        return explicit
            .or_else(beside_base)
            .or_else(|| facts.key_in(OPENROUTER.keys))
            .or_else(|| configured().filter(|_| asked == Asked::OpenRouter));
    }
    let studio = || facts.key_in(&[LM_STUDIO.2]).filter(|_| search.is_lm_studio());
    let chosen_in_file =
        origin == Origin::Config || search.configured_base().is_some_and(|own| is_same_host(&own, base));
    let beside_same_base = || configured().filter(|_| chosen_in_file);
    let openai =
        || facts.key_in(&["OPENAI_API_KEY"]).filter(|_| chosen_in_file || openai_key_fits(facts, base));
    explicit.or_else(beside_same_base).or_else(studio).or_else(openai)
}

/// Tells whether `OPENAI_API_KEY` may be shown to an address: it is OpenAI's own, or the one set beside the key.
pub(super) fn openai_key_fits(facts: &Facts, base: &Base) -> bool {
    base.host() == "api.openai.com"
        || facts.address_in("OPENAI_BASE_URL").is_some_and(|own| is_same_host(&own, base))
}

fn is_same_host(url: &str, base: &Base) -> bool {
    Base::parse(url).host() == base.host()
}

/// What an endpoint is shown when there is no key for it.
pub(super) fn without_key(base: &Base) -> Keys {
    if base.is_local() {
        Keys::Fixed(Presented::Nothing)
    } else {
        Keys::key(hermes_types::Secret::new(NO_KEY))
    }
}

/// Local servers print their address without the version; the wires below it need one.
pub(super) fn with_version(url: &str, api_mode: Option<&str>) -> String {
    let base = Base::parse(url);
    let messages =
        api_mode.and_then(Mode::parse) == Some(Mode::Anthropic) || base.host() == "api.anthropic.com";
    let bare = base.path().is_empty() && !base.host().is_empty() && !url.contains('?');
    if bare && !messages { format!("{}/v1", base.as_str()) } else { base.as_str().to_owned() }
}

/// What the user wrote about a model of one of their own endpoints.
pub(super) fn context_length(facts: &Facts, base: &Base, model: &str) -> Option<u64> {
    CustomProvider::all(&facts.config)
        .into_iter()
        .filter(|entry| with_version(&entry.base_url, entry.api_mode.as_deref()) == base.as_str())
        .find_map(|entry| entry.context_lengths.iter().find(|(id, _)| *id == model).map(|(_, size)| *size))
}
