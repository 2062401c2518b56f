//! Chooses the models of `mixture_of_agents`, all of which are of OpenRouter.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::ProgramSurface;
use hermes_model::client::{ModelClient, RetryPolicy};
use hermes_model::credential::CredentialContext;
use hermes_model::provider::{ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_net::HttpClient;
use hermes_tools::MixtureModels;
use hermes_types::{Clock, SideModel};

/// The attempts for an answer.
const ATTEMPTS: u32 = 6;
/// The limit for one answer. These models think for long.
const TIMEOUT: Duration = Duration::from_mins(10);

/// Returns the models, if the key of OpenRouter is there.
pub(super) fn models(
    facts: &ProviderInputs,
    net: &HttpClient,
    means: &CredentialContext,
    clock: &Arc<dyn Clock>,
) -> Option<MixtureModels> {
    facts.env.get("OPENROUTER_API_KEY")?;
    let model = |name: &str| -> Option<SideModel> {
        let choice = ProviderChoice::of("openrouter", name);
        let target = match resolve(facts, &choice, ProgramSurface::Cli) {
            Ok(ResolvedModel::Target(target)) => target,
            Ok(ResolvedModel::Offline) => return None,
            Err(error) => {
                tracing::warn!(model = name, %error, "a model of mixture_of_agents cannot be used");
                return None;
            }
        };
        let policy = RetryPolicy { attempts: ATTEMPTS, ..RetryPolicy::from_env(&facts.env) };
        let client = ModelClient::new(net.clone(), clock.clone(), vec![target.endpoint(means)], policy)?;
        Some(SideModel { model: Arc::new(client), name: target.model.clone(), timeout: TIMEOUT })
    };
    let config = &facts.config;
    let references: Vec<SideModel> =
        config.list("moa.reference_models").iter().filter_map(|name| model(name)).collect();
    let aggregator = model(&config.text("moa.aggregator_model"))?;
    let min_successes = config.count("moa.min_successes");
    (!references.is_empty()).then_some(MixtureModels { references, aggregator, min_successes })
}
