//! A provider, a model, an address and a key, ready for requests.

use std::sync::Arc;

use hermes_config::settings::ProviderRouting;
use hermes_config::{Config, yaml};

use super::custom_endpoint;
use super::inputs::ProviderInputs;
use super::registry::{self, Provider, ProviderKind};
use super::resolve::TargetResolver;
use super::window::{self, NameSignificance};
use crate::caching::CachePolicy;
use crate::client::Endpoint;
use crate::context_window::WindowOrigin;
use crate::credential::{CredentialContext, KeySource};
use crate::discovery::ListedModel;
use crate::price::ModelPrices;
use crate::wire::{
    AwsAuth, CredentialKind, EndpointVendor, Guardrail, ModelRoute, ParameterSupport, UpstreamRouting,
    WireOptions,
};

/// Tells whether the user chose the model, or it is only the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelChoice {
    Explicit,
    /// A local server that serves a single model may be asked for its name instead.
    Default,
}

/// Everything about an endpoint except the services that renew its key.
#[derive(Debug, Clone)]
pub struct ModelTarget {
    pub model: String,
    pub model_choice: ModelChoice,
    pub wire: WireOptions,
    pub key_source: KeySource,
    /// The variable, file or setting where the key was found, for messages.
    pub key_origin: Option<String>,
    pub context_window: u64,
    pub window_origin: WindowOrigin,
    /// The prices from the provider's own list, as it was when it was last read.
    pub prices: Option<ModelPrices>,
}

/// The parts that a resolution has found so far.
pub(super) struct TargetParts {
    pub(super) provider: &'static Provider,
    pub(super) model: String,
    pub(super) model_choice: ModelChoice,
    pub(super) base_url: String,
    pub(super) key_source: KeySource,
    pub(super) key_origin: Option<String>,
    pub(super) api_mode: Option<String>,
    /// The context length that the user set.
    pub(super) context_length: Option<u64>,
    pub(super) credential: CredentialKind,
    pub(super) aws: AwsAuth,
}

impl ModelTarget {
    pub(super) fn build(search: &TargetResolver<'_>, parts: TargetParts) -> Self {
        let facts = search.inputs;
        let provider = parts.provider.id;
        let mode = ModelRoute {
            provider,
            base_url: &parts.base_url,
            model: &parts.model,
            explicit: parts.api_mode.as_deref(),
            endpoints: &[],
            aws: parts.aws,
        }
        .api_mode();
        let mut wire = WireOptions::new(mode, provider, &parts.base_url);
        wire.credential = parts.credential;
        wire.aws = parts.aws;
        wire.cache = CachePolicy::for_route(mode, wire.vendor, &parts.model, configured_cache(&facts.config));
        wire.context_length = parts.context_length;
        wire.service_tier = facts.config.non_empty_text("agent.service_tier");
        match wire.vendor {
            EndpointVendor::OpenRouter => wire.routing = routing(&facts.config),
            EndpointVendor::Nous => wire.tags = vec!["product=hermes-agent".to_owned()],
            EndpointVendor::Bedrock => wire.guardrail = guardrail(&facts.config),
            _ => {}
        }
        if parts.provider.kind == ProviderKind::Custom {
            let size = facts.config.int("model.ollama_num_ctx").and_then(|size| u64::try_from(size).ok());
            wire.ollama_num_ctx = size.filter(|size| *size > 0);
        }
        let (context_window, window_origin) =
            window_of(facts, parts.provider, &parts.model, &wire, parts.context_length);
        let prices = facts.model_facts.get(&parts.model, wire.base.as_str()).and_then(|known| known.prices);
        Self {
            model: parts.model,
            model_choice: parts.model_choice,
            wire,
            key_source: parts.key_source.for_mode(mode),
            key_origin: parts.key_origin,
            context_window,
            window_origin,
            prices,
        }
    }

    /// Returns the same endpoint with another of its models.
    #[must_use]
    pub fn with_model(&self, facts: &ProviderInputs, model: &str) -> Self {
        let provider = registry::find(self.provider()).unwrap_or(registry::CUSTOM);
        let mut wire = self.wire.clone();
        wire.context_length = configured_window(facts, provider, model)
            .or_else(|| custom_endpoint::context_length(facts, &wire.base, model));
        wire.cache = CachePolicy::for_route(wire.mode, wire.vendor, model, configured_cache(&facts.config));
        wire.effort_levels = None;
        let (context_window, window_origin) = window_of(facts, provider, model, &wire, wire.context_length);
        let prices = facts.model_facts.get(model, wire.base.as_str()).and_then(|known| known.prices);
        Self {
            model: model.to_owned(),
            model_choice: ModelChoice::Explicit,
            wire,
            key_source: self.key_source.clone(),
            key_origin: self.key_origin.clone(),
            context_window,
            window_origin,
            prices,
        }
    }

    /// Applies what a provider's own list says about the model: its wires and effort levels.
    pub fn apply_listing(&mut self, listed: &ListedModel) {
        if !listed.efforts.is_empty() {
            self.wire.effort_levels = Some(listed.efforts.clone());
        }
        let endpoints: Vec<&str> = listed.endpoints.iter().map(String::as_str).collect();
        if self.provider() != "copilot" || endpoints.is_empty() {
            return;
        }
        let mode = ModelRoute {
            provider: self.provider(),
            base_url: self.base_url(),
            model: &self.model,
            endpoints: &endpoints,
            ..ModelRoute::default()
        }
        .api_mode();
        self.wire.mode = mode;
        self.key_source = self.key_source.clone().for_mode(mode);
    }

    pub fn provider(&self) -> &str {
        &self.wire.provider
    }

    pub fn base_url(&self) -> &str {
        self.wire.base.as_str()
    }

    /// Returns the endpoint, with credentials that renew themselves.
    pub fn endpoint(&self, means: &CredentialContext) -> Endpoint {
        Endpoint {
            model: self.model.clone(),
            model_choice: self.model_choice,
            wire: self.wire.clone(),
            credentials: self.key_source.credentials(means),
            key_origin: self.key_origin.clone(),
            context_window: self.context_window,
            window_origin: self.window_origin,
            prices: self.prices,
            stats: Arc::default(),
        }
    }
}

/// Returns `model.context_length`, where it was set for this model and this provider.
fn configured_window(facts: &ProviderInputs, provider: &Provider, model: &str) -> Option<u64> {
    let config = &facts.config;
    let named = config.non_empty_text("model.provider").unwrap_or_else(|| "auto".to_owned());
    let about = registry::find_named(&named).is_none_or(|other| other.id == provider.id)
        && config.non_empty_text("model.default").is_some_and(|default| default == model);
    let size = config.int("model.context_length").and_then(|size| u64::try_from(size).ok());
    size.filter(|size| about && *size > 0)
}

fn window_of(
    facts: &ProviderInputs,
    provider: &Provider,
    model: &str,
    wire: &WireOptions,
    configured: Option<u64>,
) -> (u64, WindowOrigin) {
    if let Some(size) = configured {
        return (size, WindowOrigin::Configured);
    }
    if let Some(size) = facts.learnt_windows.get(model, wire.base.as_str()) {
        return (size, WindowOrigin::Refusal);
    }
    let asked = facts.model_facts.get(model, wire.base.as_str()).and_then(|known| known.window);
    if let Some((size, at)) = asked {
        return (size, WindowOrigin::Asked(at));
    }
    let names = if provider.kind == ProviderKind::Custom && registry::find_by_host(wire.base.host()).is_none()
    {
        NameSignificance::Meaningless
    } else {
        NameSignificance::Meaningful
    };
    (window::guess(provider.kind, names, model), WindowOrigin::Guessed)
}

fn configured_cache(config: &Config) -> CachePolicy {
    match config.text("prompt_caching.cache_ttl").trim() {
        "1h" => CachePolicy::OneHour,
        _ => CachePolicy::FiveMinutes,
    }
}

fn routing(config: &Config) -> UpstreamRouting {
    let wanted = ProviderRouting::from_config(config);
    let required = wanted.require_parameters == Some(true);
    UpstreamRouting {
        only: wanted.only,
        ignore: wanted.ignore,
        order: wanted.order,
        sort: wanted.sort,
        parameters: if required { ParameterSupport::Required } else { ParameterSupport::Any },
        data_collection: wanted.data_collection,
    }
}

fn guardrail(config: &Config) -> Option<Guardrail> {
    let map = config.map("bedrock.guardrail");
    let text = |key: &str| {
        map.get(key)
            .and_then(yaml::YamlValue::scalar_text)
            .map(|t| t.trim().to_owned())
            .filter(|t| !t.is_empty())
    };
    Some(Guardrail {
        identifier: text("guardrail_identifier")?,
        version: text("guardrail_version")?,
        stream_processing_mode: text("stream_processing_mode"),
        trace: text("trace"),
    })
}
