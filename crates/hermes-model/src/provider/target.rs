//! A provider, a model, an address and a key, ready to be asked.

use std::sync::Arc;

use hermes_config::settings::ProviderRouting;
use hermes_config::{Config, yaml};

use super::custom;
use super::facts::Facts;
use super::registry::{self, Kind, Provider};
use super::resolve::Search;
use super::window::{self, NameValue};
use crate::caching::CachePolicy;
use crate::client::Endpoint;
use crate::context_window::Origin;
use crate::credential::{Keys, Means};
use crate::discovery::ListedModel;
use crate::price::Prices;
use crate::wire::{
    AwsAuth, Credential, Guardrail, Mode, ParameterSupport, Route, Routing, Vendor, WireOptions,
};

/// Whether somebody asked for the model, or it is only our default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelChoice {
    Said,
    /// A local server that serves a single model may be asked for its name instead.
    Assumed,
}

/// Everything about an endpoint except the means to renew its key.
#[derive(Debug, Clone)]
pub struct Target {
    pub model: String,
    pub model_choice: ModelChoice,
    pub wire: WireOptions,
    pub keys: Keys,
    /// A variable, a file, a setting: where the key was found, for messages.
    pub key_origin: Option<String>,
    pub context_window: u64,
    pub window_origin: Origin,
    /// From the provider's own list, as it was when it was last read.
    pub prices: Option<Prices>,
}

/// What a search has found so far.
pub(super) struct TargetParts {
    pub(super) provider: &'static Provider,
    pub(super) model: String,
    pub(super) model_choice: ModelChoice,
    pub(super) base_url: String,
    pub(super) keys: Keys,
    pub(super) key_origin: Option<String>,
    pub(super) api_mode: Option<String>,
    /// As the user set it.
    pub(super) context_length: Option<u64>,
    pub(super) credential: Credential,
    pub(super) aws: AwsAuth,
}

impl Target {
    pub(super) fn build(search: &Search<'_>, parts: TargetParts) -> Self {
        let facts = search.facts;
        let provider = parts.provider.id;
        let mode = Mode::choose(&Route {
            provider,
            base_url: &parts.base_url,
            model: &parts.model,
            explicit: parts.api_mode.as_deref(),
            endpoints: &[],
            aws: parts.aws,
        });
        let mut wire = WireOptions::new(mode, provider, &parts.base_url);
        wire.credential = parts.credential;
        wire.aws = parts.aws;
        wire.cache = CachePolicy::for_route(mode, wire.vendor, &parts.model, wanted_cache(&facts.config));
        wire.context_length = parts.context_length;
        match wire.vendor {
            Vendor::OpenRouter => wire.routing = routing(&facts.config),
            Vendor::Nous => wire.tags = vec!["product=hermes-agent".to_owned()],
            Vendor::Bedrock => wire.guardrail = guardrail(&facts.config),
            _ => {}
        }
        if parts.provider.kind == Kind::Custom {
            let size = facts.config.int("model.ollama_num_ctx").and_then(|size| u64::try_from(size).ok());
            wire.ollama_num_ctx = size.filter(|size| *size > 0);
        }
        let (context_window, window_origin) =
            window_of(facts, parts.provider, &parts.model, &wire, parts.context_length);
        let prices = facts.known.get(&parts.model, wire.base.as_str()).and_then(|known| known.prices);
        Self {
            model: parts.model,
            model_choice: parts.model_choice,
            wire,
            keys: parts.keys.shown_on(mode),
            key_origin: parts.key_origin,
            context_window,
            window_origin,
            prices,
        }
    }

    /// The same endpoint, asked for another of its models.
    #[must_use]
    pub fn with_model(&self, facts: &Facts, model: &str) -> Self {
        let provider = registry::find(self.provider()).unwrap_or(registry::CUSTOM);
        let mut wire = self.wire.clone();
        wire.context_length =
            said_about(facts, provider, model).or_else(|| custom::context_length(facts, &wire.base, model));
        wire.cache = CachePolicy::for_route(wire.mode, wire.vendor, model, wanted_cache(&facts.config));
        wire.effort_levels = None;
        let (context_window, window_origin) = window_of(facts, provider, model, &wire, wire.context_length);
        let prices = facts.known.get(model, wire.base.as_str()).and_then(|known| known.prices);
        Self {
            model: model.to_owned(),
            model_choice: ModelChoice::Said,
            wire,
            keys: self.keys.clone(),
            key_origin: self.key_origin.clone(),
            context_window,
            window_origin,
            prices,
        }
    }

    /// Takes over what a provider's own list says about the model: the wires it can be asked on, the levels of effort.
    pub fn heed(&mut self, listed: &ListedModel) {
        if !listed.efforts.is_empty() {
            self.wire.effort_levels = Some(listed.efforts.clone());
        }
        let endpoints: Vec<&str> = listed.endpoints.iter().map(String::as_str).collect();
        if self.provider() != "copilot" || endpoints.is_empty() {
            return;
        }
        let mode = Mode::choose(&Route {
            provider: self.provider(),
            base_url: self.base_url(),
            model: &self.model,
            endpoints: &endpoints,
            ..Route::default()
        });
        self.wire.mode = mode;
        self.keys = self.keys.clone().shown_on(mode);
    }

    pub fn provider(&self) -> &str {
        &self.wire.provider
    }

    pub fn base_url(&self) -> &str {
        self.wire.base.as_str()
    }

    /// The endpoint, with credentials that know how to renew themselves.
    pub fn endpoint(&self, means: &Means) -> Endpoint {
        Endpoint {
            model: self.model.clone(),
            model_choice: self.model_choice,
            wire: self.wire.clone(),
            credentials: self.keys.credentials(means),
            key_origin: self.key_origin.clone(),
            context_window: self.context_window,
            window_origin: self.window_origin,
            prices: self.prices,
            learnt: Arc::default(),
        }
    }
}

/// `model.context_length`, where it was written about this model and this provider.
fn said_about(facts: &Facts, provider: &Provider, model: &str) -> Option<u64> {
    let config = &facts.config;
    let named = config.text_if_any("model.provider").unwrap_or_else(|| "auto".to_owned());
    let about = registry::find_named(&named).is_none_or(|other| other.id == provider.id)
        && config.text_if_any("model.default").is_some_and(|default| default == model);
    let size = config.int("model.context_length").and_then(|size| u64::try_from(size).ok());
    size.filter(|size| about && *size > 0)
}

fn window_of(
    facts: &Facts,
    provider: &Provider,
    model: &str,
    wire: &WireOptions,
    configured: Option<u64>,
) -> (u64, Origin) {
    if let Some(size) = configured {
        return (size, Origin::Configured);
    }
    if let Some(size) = facts.learnt.get(model, wire.base.as_str()) {
        return (size, Origin::Refusal);
    }
    let asked = facts.known.get(model, wire.base.as_str()).and_then(|known| known.window);
    if let Some((size, at)) = asked {
        return (size, Origin::Asked(at));
    }
    let names = if provider.kind == Kind::Custom && registry::at_host(wire.base.host()).is_none() {
        NameValue::Meaningless
    } else {
        NameValue::Meaningful
    };
    (window::guess(provider.kind, names, model), Origin::Guessed)
}

fn wanted_cache(config: &Config) -> CachePolicy {
    match config.text("prompt_caching.cache_ttl").trim() {
        "1h" => CachePolicy::OneHour,
        _ => CachePolicy::FiveMinutes,
    }
}

fn routing(config: &Config) -> Routing {
    let wanted = ProviderRouting::from_config(config);
    let required = wanted.require_parameters == Some(true);
    Routing {
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
        map.get(key).and_then(yaml::Value::scalar_text).map(|t| t.trim().to_owned()).filter(|t| !t.is_empty())
    };
    Some(Guardrail {
        identifier: text("guardrail_identifier")?,
        version: text("guardrail_version")?,
        stream_processing_mode: text("stream_processing_mode"),
        trace: text("trace"),
    })
}
