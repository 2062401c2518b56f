//! `/model X`: from what a person typed to another model, with a word about whether it is there.
//!
//! `plan` decides without asking anybody; `validate` asks the endpoint and never refuses, because lists are incomplete.
//! Invariant: nobody is switched to a provider they have no credentials for, and never to an aggregator merely because
//! its catalogue holds a name.

use hermes_config::Surface;
use hermes_types::Cancel;
use thiserror::Error;

use super::error::ResolveError;
use super::facts::Facts;
use super::registry::{self, Kind, Provider, REGISTRY};
use super::resolve::{Choice, Resolved, resolve};
use super::target::Target;
use super::{catalogue, likeness, name};
use crate::discovery::{Age, Lookup, Unlisted};

/// Why nothing is switched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SwitchError {
    /// Ask for a name.
    #[error("Name a model, for example: hermes model openrouter:anthropic/claude-opus-4.6")]
    Empty,
    #[error("Model names must not contain spaces.")]
    Blank,
    /// Show why there is no such endpoint.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
}

/// Something to know about a model that was switched to all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// Not in the provider's list; these are alike.
    NotListed { model: String, provider: String, alike: Vec<String> },
    /// There was no list to look in.
    Unchecked { model: String, why: Unlisted },
}

impl std::fmt::Display for Note {
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

/// Who answers after the switch, as far as it can be said without asking.
pub fn plan(
    facts: &Facts,
    current: Option<&Target>,
    text: &str,
    surface: Surface,
) -> Result<Resolved, SwitchError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SwitchError::Empty);
    }
    let wanted = name::parse(text, facts);
    if wanted.model.chars().any(char::is_whitespace) {
        return Err(SwitchError::Blank);
    }
    if let Some(provider) = &wanted.provider {
        return Ok(resolve(facts, &Choice::of(provider, &wanted.model), surface)?);
    }
    let Some(current) = current else {
        return Ok(resolve(facts, &guess(facts, None, &wanted.model, surface), surface)?);
    };
    let own = current.provider() == "custom" || current.wire.base.is_local();
    // At home any name may mean anything, also that of a provider: it is taken as a model there.
    if own {
        return Ok(Resolved::Target(Box::new(current.with_model(facts, &wanted.model))));
    }
    let choice = guess(facts, registry::find(current.provider()), &wanted.model, surface);
    let stays = choice.provider.as_deref() == Some(current.provider());
    if stays && let Some(model) = &choice.model {
        // The same address and key, also where those came from the command line.
        let provider = registry::find(current.provider()).unwrap_or(registry::CUSTOM);
        let model = name::for_provider(provider, model);
        if provider.kind != Kind::Copilot && provider.kind != Kind::Aws {
            return Ok(Resolved::Target(Box::new(current.with_model(facts, &model))));
        }
    }
    Ok(resolve(facts, &choice, surface)?)
}

/// The provider a bare name belongs to.
fn guess(facts: &Facts, current: Option<&Provider>, text: &str, surface: Surface) -> Choice {
    let stay = |model: &str| Choice {
        provider: current.map(|provider| provider.id.to_owned()),
        model: Some(model.to_owned()),
        ..Choice::default()
    };
    if name::is_provider(text)
        && let Some(provider) = registry::find_named(text)
    {
        let model = catalogue::models(provider.id).first().map(|model| (*model).to_owned());
        return Choice { provider: Some(provider.id.to_owned()), model, ..Choice::default() };
    }
    let serves = |provider: &Provider| catalogue::models(provider.id).iter().any(|id| is_same(id, text));
    if current.is_some_and(serves) {
        return stay(text);
    }
    let hits: Vec<&Provider> =
        REGISTRY.iter().filter(|provider| is_direct(provider) && serves(provider)).collect();
    let usable = |provider: &Provider| resolve(facts, &Choice::of(provider.id, text), surface).is_ok();
    if let Some(provider) = hits.iter().find(|provider| usable(provider)) {
        return Choice::of(provider.id, text);
    }
    let slug = catalogue::models("openrouter")
        .iter()
        .find(|slug| is_same(slug, text) || slug.rsplit('/').next().is_some_and(|bare| is_same(bare, text)));
    match (slug, current) {
        // An aggregator that one already uses knows it by that name, too.
        (Some(slug), Some(current)) if current.names_vendors() => stay(slug),
        (Some(slug), _) if usable(registry::OPENROUTER) => Choice::of("openrouter", slug),
        // Nobody else has a key for it; the refusal says which one is missing.
        (_, None) if !hits.is_empty() => {
            hits.first().map_or_else(|| stay(text), |hit| Choice::of(hit.id, text))
        }
        _ => stay(text),
    }
}

/// A provider whose catalogue is its own. GitHub tokens are in many environments for other reasons.
fn is_direct(provider: &Provider) -> bool {
    let own = matches!(provider.kind, Kind::ApiKey | Kind::Anthropic | Kind::OAuth);
    own && !provider.names_vendors()
}

/// Vendors write dots where aggregators write hyphens, and the other way round.
fn is_same(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.to_ascii_lowercase().replace('.', "-");
    plain(a) == plain(b)
}

/// Looks a model up in its endpoint's own list, takes over what the list says about it, and gives what is worth a word.
pub async fn validate(lookup: &Lookup, target: &mut Target, cancel: &Cancel) -> Option<Note> {
    let endpoint = target.endpoint(lookup.means());
    match lookup.models(&endpoint, Age::New, cancel).await {
        Ok(models) => {
            if let Some(listed) = models.iter().find(|listed| listed.id.eq_ignore_ascii_case(&target.model)) {
                target.heed(listed);
                return None;
            }
            let ids = models.iter().map(|listed| listed.id.as_str());
            Some(Note::NotListed {
                model: target.model.clone(),
                provider: target.provider().to_owned(),
                alike: likeness::closest(&target.model, ids, 3),
            })
        }
        // A provider without a list is no worse for it, if we know the model.
        Err(Unlisted::NoList { .. })
            if catalogue::models(target.provider()).contains(&target.model.as_str()) =>
        {
            None
        }
        Err(why) => Some(Note::Unchecked { model: target.model.clone(), why }),
    }
}
