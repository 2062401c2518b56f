//! The models to choose from: those of the provider in use as it lists them, and the known ones of other usable providers.

use anyhow::Result;
use hermes_config::provider::registry::{ProviderKind, REGISTRY};
use hermes_config::{Config, ProgramSurface};
use hermes_model::discovery::ListFreshness;
use hermes_model::provider::{ModelTarget, ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_tui::{PickerItem, PickerSpec};

use crate::context::ProgramContext;
use crate::wiring::model_lists;

/// A model that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfferedModel {
    pub(crate) provider: String,
    pub(crate) model: String,
    is_current: bool,
}

impl OfferedModel {
    /// Returns the model as `/model` and `hermes model` take it.
    pub(crate) fn name(&self) -> String {
        format!("{}:{}", self.provider, self.model)
    }
}

/// Lists the models to choose from, the present one first. May wait for the network, so it must not run on a thread of an async
/// runtime.
pub(crate) fn offered(context: &ProgramContext, config: Config) -> Vec<OfferedModel> {
    let inputs = ProviderInputs::read(&context.home, config, context.env.clone());
    let target = |choice: &ProviderChoice| match resolve(&inputs, choice, ProgramSurface::Cli) {
        Ok(ResolvedModel::Target(target)) => Some(target),
        _ => None,
    };
    let mut offered: Vec<OfferedModel> = Vec::new();
    let mut add = |provider: &str, model: &str, is_current| {
        let known = |offer: &OfferedModel| offer.provider == provider && offer.model == model;
        if !model.is_empty() && !offered.iter().any(known) {
            offered.push(OfferedModel { provider: provider.to_owned(), model: model.to_owned(), is_current });
        }
    };
    let current = target(&ProviderChoice::default());
    if let Some(current) = &current {
        add(current.provider(), &current.model, true);
        // An endpoint that lists nothing is no obstacle: the known models are offered.
        for model in listed(current, context).unwrap_or_default() {
            add(current.provider(), &model, false);
        }
    }
    for provider in REGISTRY {
        if matches!(provider.kind, ProviderKind::Offline | ProviderKind::Custom) {
            continue;
        }
        let choice = ProviderChoice { provider: Some(provider.id.to_owned()), ..ProviderChoice::default() };
        let is_current = current.as_ref().is_some_and(|current| current.provider() == provider.id);
        if is_current || target(&choice).is_some_and(|target| target.key_origin.is_some()) {
            provider.models.iter().for_each(|model| add(provider.id, model, false));
        }
    }
    offered
}

/// Asks the endpoint for its models.
fn listed(target: &ModelTarget, context: &ProgramContext) -> Result<Vec<String>> {
    let models = model_lists::list_models(target, context, ListFreshness::Recent)?;
    Ok(models.into_iter().map(|model| model.id).collect())
}

/// Describes a picker of models.
pub(crate) fn picker(offered: &[OfferedModel]) -> PickerSpec {
    let items = offered.iter().map(|offer| PickerItem {
        label: offer.model.clone(),
        detail: if offer.is_current {
            format!("{} ← in use", offer.provider)
        } else {
            offer.provider.clone()
        },
        preview: String::new(),
    });
    PickerSpec { title: "Models".to_owned(), items: items.collect(), selected: 0 }
}
