//! Chooses the model of subagents from `delegation.model`, `provider`, `base_url` and `api_key`.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::ProgramSurface;
use hermes_config::settings::DelegationSettings;
use hermes_model::client::{ModelClient, RetryPolicy};
use hermes_model::credential::CredentialContext;
use hermes_model::provider::{ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_net::HttpClient;
use hermes_types::{
    BoxFuture, Clock, Completion, DeltaSink, Model, ModelError, ModelRequest, Secret, SideModel,
};

/// Returns `None` where subagents use their parent's model. If the model cannot be resolved, subagents fail with
/// the reason: using another model silently could cost more than the user intended.
pub(super) fn subagent_model(
    facts: &ProviderInputs,
    parent: &ProviderChoice,
    net: &HttpClient,
    means: &CredentialContext,
    clock: &Arc<dyn Clock>,
) -> Option<SideModel> {
    let settings = DelegationSettings::from_config(&facts.config);
    let choice = choice(&settings, parent)?;
    let name = choice.model.clone().unwrap_or_default();
    let found = match resolve(facts, &choice, ProgramSurface::Cli) {
        Ok(ResolvedModel::Target(target)) => {
            let endpoints = vec![target.endpoint(means)];
            ModelClient::new(net.clone(), clock.clone(), endpoints, RetryPolicy::default())
                .map(|client| (Arc::new(client) as Arc<dyn Model>, target.model.clone()))
                .ok_or_else(|| "`delegation` names no endpoint".to_owned())
        }
        Ok(ResolvedModel::Offline) => {
            Err("`delegation` names the offline model, which cannot do tasks".to_owned())
        }
        Err(error) => {
            Err(format!("the model of subagents (`delegation` in config.yaml) cannot be used: {error}"))
        }
    };
    let (model, name) = found.unwrap_or_else(|reason| (Arc::new(UnusableModel(reason)), name));
    Some(SideModel { model, name, timeout: Duration::MAX })
}

/// Returns the choice: a base URL wins over a provider, which wins over the parent's; the model name always
/// applies.
fn choice(settings: &DelegationSettings, parent: &ProviderChoice) -> Option<ProviderChoice> {
    let model = settings.model.clone().or_else(|| parent.model.clone());
    if let Some(base_url) = settings.base_url.clone() {
        let api_key = settings.api_key.as_ref().map(|key| Secret::new(key.expose()));
        return Some(ProviderChoice {
            provider: Some("custom".to_owned()),
            model,
            base_url: Some(base_url),
            api_key,
        });
    }
    if settings.provider.is_none() && settings.model.is_none() {
        return None;
    }
    let provider = settings.provider.clone().or_else(|| parent.provider.clone());
    Some(ProviderChoice { provider, model: settings.model.clone().or(model), ..ProviderChoice::default() })
}

struct UnusableModel(String);

impl Model for UnusableModel {
    fn complete<'a>(
        &'a self,
        _: &'a ModelRequest,
        _: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(std::future::ready(Err(ModelError::Configure(self.0.clone()))))
    }

    fn context_window(&self, _: &str) -> u64 {
        128_000
    }
}
