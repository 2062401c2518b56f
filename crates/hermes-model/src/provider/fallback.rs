//! Fallback models for when the main one fails.

use hermes_config::ProgramSurface;
use hermes_config::settings::FallbackModel;
use hermes_types::Secret;

use super::error::ResolveError;
use super::inputs::ProviderInputs;
use super::resolve::{ProviderChoice, resolve};
use super::target::ModelTarget;

/// An entry of the chain that cannot be used, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFallback {
    pub provider: String,
    pub model: String,
    pub error: ResolveError,
}

/// Returns the chain in the order to try. An entry without credentials is skipped, which is not an error; so is one
/// that repeats the main model, since it would fail the same way.
pub fn chain(
    facts: &ProviderInputs,
    main: Option<&ModelTarget>,
    surface: ProgramSurface,
) -> (Vec<ModelTarget>, Vec<SkippedFallback>) {
    let mut targets: Vec<ModelTarget> = Vec::new();
    let mut skipped = Vec::new();
    for entry in FallbackModel::chain(&facts.config) {
        match resolve_entry(facts, &entry, surface) {
            Ok(target) => {
                let known = main.into_iter().chain(&targets).any(|other| is_same(other, &target));
                if !known {
                    targets.push(target);
                }
            }
            Err(why) => {
                skipped.push(SkippedFallback { provider: entry.provider, model: entry.model, error: why });
            }
        }
    }
    (targets, skipped)
}

/// Resolves a model that a setting names: a fallback, or the cheap model for simple turns.
pub fn resolve_entry(
    facts: &ProviderInputs,
    entry: &FallbackModel,
    surface: ProgramSurface,
) -> Result<ModelTarget, ResolveError> {
    let key = entry.api_key_env.as_deref().and_then(|variable| facts.key_in(&[variable]));
    let choice = ProviderChoice {
        provider: Some(entry.provider.clone()),
        model: Some(entry.model.clone()),
        base_url: entry.base_url.clone(),
        api_key: key.map(|found| Secret::new(found.key.expose())),
    };
    let unusable = || ResolveError::Unusable {
        provider: entry.provider.clone(),
        why: "The offline model cannot stand in for another.".to_owned(),
    };
    resolve(facts, &choice, surface)?.target().ok_or_else(unusable)
}

fn is_same(a: &ModelTarget, b: &ModelTarget) -> bool {
    (a.provider(), &a.model, a.base_url()) == (b.provider(), &b.model, b.base_url())
}
