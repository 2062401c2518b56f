//! The models that a provider serves now, for commands outside a chat.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use hermes_config::ProgramSurface;
use hermes_model::credential::CredentialContext;
use hermes_model::discovery::{ListFreshness, ListedModel, ModelDiscovery, ZaiEndpoint};
use hermes_model::provider::{ModelTarget, ProviderChoice, ProviderInputs, ResolvedModel, resolve};
use hermes_net::HttpClient;
use hermes_task::SystemClock;
use hermes_types::{Cancel, Clock, Secret};

use super::net_config;
use crate::context::ProgramContext;

/// Returns what a choice of provider leads to; `None` for the offline model.
pub(crate) fn target_of(
    inputs: &ProviderInputs,
    choice: &ProviderChoice,
) -> Result<Option<Box<ModelTarget>>> {
    Ok(match resolve(inputs, choice, ProgramSurface::Cli)? {
        ResolvedModel::Target(target) => Some(target),
        ResolvedModel::Offline => None,
    })
}

/// Asks an endpoint for its models. Must not run on a thread of an async runtime.
pub(crate) fn list_models(
    target: &ModelTarget,
    context: &ProgramContext,
    freshness: ListFreshness,
) -> Result<Vec<ListedModel>> {
    let (discovery, credentials) = discovery(context)?;
    let endpoint = target.endpoint(&credentials);
    Ok(runtime()?.block_on(discovery.models(&endpoint, freshness, &Cancel::new()))?)
}

/// Finds the endpoint of Z.AI that a key belongs to. Must not run on a thread of an async runtime.
pub(crate) fn find_zai_endpoint(key: &Secret, context: &ProgramContext) -> Result<Option<ZaiEndpoint>> {
    let (discovery, _) = discovery(context)?;
    Ok(runtime()?.block_on(discovery.find_zai(key, &Cancel::new())))
}

/// Returns a runtime for one request of a command.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")
}

/// Returns what asks endpoints about their models, with the credentials it uses.
pub(crate) fn discovery(context: &ProgramContext) -> Result<(ModelDiscovery, CredentialContext)> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let net = HttpClient::new(net_config(&context.env, &clock))?;
    let credentials = CredentialContext::new(net, clock, &context.home, context.env.clone());
    Ok((ModelDiscovery::new(credentials.clone(), context.home.clone()), credentials))
}
