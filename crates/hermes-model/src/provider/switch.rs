//! `/model X`: resolves what a user typed to another model, and checks whether it exists.
//!
//! `plan` decides without a query; `validate` queries the endpoint and never refuses, because lists are incomplete.
//! Invariant: a switch never selects a provider without credentials, and never an aggregator merely because its
//! list of models contains a name.

use hermes_config::ProgramSurface;
use hermes_types::Cancel;
use thiserror::Error;

use super::error::ResolveError;
use super::inputs::ProviderInputs;
use super::registry::{self, Provider, ProviderKind, REGISTRY};
use super::resolve::{ProviderChoice, ResolvedModel, resolve};
use super::target::ModelTarget;
use super::{name, name_similarity};
use crate::discovery::{ListFreshness, ModelDiscovery, ModelListError};

/// The reason why nothing is switched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SwitchError {
    /// The user must give a name.
    #[error("Name a model, for example: hermes model openrouter:anthropic/claude-opus-4.6")]
    Empty,
    #[error("Model names must not contain spaces.")]
    ContainsSpaces,
    /// There is no such endpoint; the error says why.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
}

/// A notice about a model that was switched to all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwitchNote {
    /// The model is not in the provider's list; `alike` contains similar names.
    NotListed { model: String, provider: String, alike: Vec<String> },
    /// There was no list to check.
    Unchecked { model: String, why: ModelListError },
}

impl std::fmt::Display for SwitchNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotListed { model, provider, alike } => {
                write!(f, "`{model}` is not among the models that {provider} lists; it may still work.")?;
                if alike.is_empty() { Ok(()) } else { write!(f, " Similar: {}.", alike.join(", ")) }
            }
            Self::Unchecked { model, why } => write!(f, "`{model}` was not checked: {why}."),
        }
    }
}

/// Returns the model after the switch, as far as it can be determined without a query.
pub fn plan(
    facts: &ProviderInputs,
    current: Option<&ModelTarget>,
    text: &str,
    surface: ProgramSurface,
) -> Result<ResolvedModel, SwitchError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SwitchError::Empty);
    }
    let wanted = name::parse(text, facts);
    if wanted.model.chars().any(char::is_whitespace) {
        return Err(SwitchError::ContainsSpaces);
    }
    if let Some(provider) = &wanted.provider {
        return Ok(resolve(facts, &ProviderChoice::of(provider, &wanted.model), surface)?);
    }
    let Some(current) = current else {
        return Ok(resolve(facts, &guess(facts, None, &wanted.model, surface), surface)?);
    };
    let own = current.provider() == "custom" || current.wire.base.is_local();
    // On the user's own endpoint any name is taken as a model there, even the name of a provider.
    if own {
        return Ok(ResolvedModel::Target(Box::new(current.with_model(facts, &wanted.model))));
    }
    let choice = guess(facts, registry::find(current.provider()), &wanted.model, surface);
    let stays = choice.provider.as_deref() == Some(current.provider());
    if stays && let Some(model) = &choice.model {
        // The address and key stay the same, also where they came from the command line.
        let provider = registry::find(current.provider()).unwrap_or(registry::CUSTOM);
        let model = name::for_provider(provider, model);
        if provider.kind != ProviderKind::Copilot && provider.kind != ProviderKind::Aws {
            return Ok(ResolvedModel::Target(Box::new(current.with_model(facts, &model))));
        }
    }
    Ok(resolve(facts, &choice, surface)?)
}

/// Returns the provider that a bare name belongs to.
fn guess(
    facts: &ProviderInputs,
    current: Option<&Provider>,
    text: &str,
    surface: ProgramSurface,
) -> ProviderChoice {
    let stay = |model: &str| ProviderChoice {
        provider: current.map(|provider| provider.id.to_owned()),
        model: Some(model.to_owned()),
        ..ProviderChoice::default()
    };
    if name::is_provider(text)
        && let Some(provider) = registry::find_named(text)
    {
        let model = registry::models(provider.id).first().map(|model| (*model).to_owned());
        return ProviderChoice { provider: Some(provider.id.to_owned()), model, ..ProviderChoice::default() };
    }
    let serves = |provider: &Provider| registry::models(provider.id).iter().any(|id| is_same(id, text));
    if current.is_some_and(serves) {
        return stay(text);
    }
    let hits: Vec<&Provider> =
        REGISTRY.iter().filter(|provider| is_direct(provider) && serves(provider)).collect();
    let usable =
        |provider: &Provider| resolve(facts, &ProviderChoice::of(provider.id, text), surface).is_ok();
    if let Some(provider) = hits.iter().find(|provider| usable(provider)) {
        return ProviderChoice::of(provider.id, text);
    }
    let slug = registry::models("openrouter")
        .iter()
        .find(|slug| is_same(slug, text) || slug.rsplit('/').next().is_some_and(|bare| is_same(bare, text)));
    match (slug, current) {
        // The aggregator already in use knows it by that name, too.
        (Some(slug), Some(current)) if current.uses_vendor_prefix() => stay(slug),
        (Some(slug), _) if usable(registry::OPENROUTER) => ProviderChoice::of("openrouter", slug),
        // No other provider has a key for it; the error says which one is missing.
        (_, None) if !hits.is_empty() => {
            hits.first().map_or_else(|| stay(text), |hit| ProviderChoice::of(hit.id, text))
        }
        _ => stay(text),
    }
}

/// Tells whether the provider's list of models is its own. Excludes GitHub, whose tokens are in many environments for
/// other reasons.
fn is_direct(provider: &Provider) -> bool {
    let own = matches!(provider.kind, ProviderKind::ApiKey | ProviderKind::Anthropic | ProviderKind::OAuth);
    own && !provider.uses_vendor_prefix()
}

/// Compares names, because vendors write dots where aggregators write hyphens, and the other way round.
fn is_same(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.to_ascii_lowercase().replace('.', "-");
    plain(a) == plain(b)
}

/// Looks a model up in its endpoint's own list, applies what the list says about it, and returns a notice if there
/// is one.
pub async fn validate(
    lookup: &ModelDiscovery,
    target: &mut ModelTarget,
    cancel: &Cancel,
) -> Option<SwitchNote> {
    let endpoint = target.endpoint(lookup.credential_context());
    match lookup.models(&endpoint, ListFreshness::Current, cancel).await {
        Ok(models) => {
            if let Some(listed) = models.iter().find(|listed| listed.id.eq_ignore_ascii_case(&target.model)) {
                target.apply_listing(listed);
                return None;
            }
            let ids = models.iter().map(|listed| listed.id.as_str());
            Some(SwitchNote::NotListed {
                model: target.model.clone(),
                provider: target.provider().to_owned(),
                alike: name_similarity::closest(&target.model, ids, 3),
            })
        }
        // A missing list is not worth a notice if the model is known.
        Err(ModelListError::NoList { .. })
            if registry::models(target.provider()).contains(&target.model.as_str()) =>
        {
            None
        }
        Err(why) => Some(SwitchNote::Unchecked { model: target.model.clone(), why }),
    }
}
