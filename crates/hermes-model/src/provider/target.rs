//! A provider, a model, an address and a key, ready to be asked.

use hermes_config::settings::ProviderRouting;
use hermes_config::{Config, yaml};

use super::facts::Facts;
use super::registry::{Kind, Provider, REGISTRY};
use super::resolve::Search;
use super::window::{self, NameValue};
use crate::caching::CachePolicy;
use crate::client::Endpoint;
use crate::credential::{Keys, Means};
use crate::wire::{
    AwsAuth, Base, Credential, Guardrail, Mode, ParameterSupport, Route, Routing, Vendor, WireOptions,
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
        let context_window = window_of(facts, &parts, &wire);
        Self {
            model: parts.model,
            model_choice: parts.model_choice,
            wire,
            keys: parts.keys.shown_on(mode),
            key_origin: parts.key_origin,
            context_window,
        }
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
            wire: self.wire.clone(),
            credentials: self.keys.credentials(means),
            context_window: self.context_window,
            prices: None,
        }
    }
}

fn window_of(facts: &Facts, parts: &TargetParts, wire: &WireOptions) -> u64 {
    if let Some(size) = parts.context_length {
        return size;
    }
    if let Some(size) = facts.learnt.get(&parts.model, wire.base.as_str()) {
        return size;
    }
    let known = |provider: &Provider| {
        !provider.base_url.is_empty() && Base::parse(provider.base_url).host() == wire.base.host()
    };
    let names = if parts.provider.kind == Kind::Custom && !REGISTRY.iter().any(known) {
        NameValue::Meaningless
    } else {
        NameValue::Meaningful
    };
    window::guess(parts.provider.kind, names, &parts.model)
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
