//! Resolves a choice to one target.
//!
//! The order is a contract with existing homes: a flag, then the file, then the environment, then detection.
//! Nothing here uses the network; a missing key is reported now rather than by a refused request.

use hermes_config::keys::DEFAULT_MODEL;
use hermes_config::settings::CustomProvider;
use hermes_config::{ProgramSurface, canonical_provider, custom_slug, precedence};
use hermes_types::Secret;

use super::custom_endpoint::{self, RequestedProvider};
use super::detection::{self, DetectedProvider};
use super::error::ResolveError;
use super::inputs::{FoundKey, ProviderInputs};
use super::name;
use super::registry::{CUSTOM, LM_STUDIO, Provider, ProviderKind, find};
use super::target::{ModelChoice, ModelTarget, TargetParts};
use crate::credential::{KeySource, pool};
use crate::wire::{ApiMode, AwsAuth, BaseUrl, CredentialKind};

/// The choice made by a flag, a command or another setting; empty fields leave it to the configuration.
#[derive(Debug, Clone, Default)]
pub struct ProviderChoice {
    pub provider: Option<String>,
    pub model: Option<String>,
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
}

impl ProviderChoice {
    pub fn of(provider: &str, model: &str) -> Self {
        Self { provider: Some(provider.to_owned()), model: Some(model.to_owned()), ..Self::default() }
    }

    /// Returns the choice with blank fields empty and addresses without their final slash.
    fn normalized(&self, facts: &ProviderInputs) -> Self {
        let said = |text: &Option<String>| {
            text.as_deref().map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned)
        };
        let mut choice = Self {
            provider: said(&self.provider),
            model: said(&self.model),
            base_url: said(&self.base_url).map(|url| url.trim_end_matches('/').to_owned()),
            api_key: self.api_key.clone().filter(|key| !key.is_empty()),
        };
        if let (None, Some(model)) = (&choice.provider, &choice.model) {
            let wanted = name::parse(model, facts);
            choice.provider = wanted.provider;
            choice.model = Some(wanted.model);
        }
        choice
    }

    pub(super) fn key(&self) -> Option<FoundKey> {
        let key = self.api_key.clone()?;
        Some(FoundKey { key, origin: "the command line".to_owned() })
    }
}

/// The model that answers.
#[derive(Debug, Clone)]
pub enum ResolvedModel {
    /// The built-in rule-based model: nothing is configured, or it was requested.
    Offline,
    Target(Box<ModelTarget>),
}

impl ResolvedModel {
    /// Returns the provider id for logs and status lines.
    pub fn provider(&self) -> &str {
        match self {
            Self::Offline => "offline",
            Self::Target(target) => &target.wire.provider,
        }
    }

    pub fn target(self) -> Option<ModelTarget> {
        match self {
            Self::Offline => None,
            Self::Target(target) => Some(*target),
        }
    }
}

/// Finds the provider, address, model and key for a choice.
pub fn resolve(
    facts: &ProviderInputs,
    choice: &ProviderChoice,
    surface: ProgramSurface,
) -> Result<ResolvedModel, ResolveError> {
    let choice = choice.normalized(facts);
    let requested = precedence::provider(&facts.config, &facts.env, choice.provider.as_deref());
    let search = TargetResolver { inputs: facts, choice: &choice, surface, requested: &requested };
    let target = match search.named()? {
        NamedProvider::BuiltIn(provider) if provider.kind == ProviderKind::Offline => {
            return Ok(ResolvedModel::Offline);
        }
        NamedProvider::BuiltIn(provider) => search.resolve_built_in(provider)?,
        NamedProvider::Own(entry) => search.resolve_custom(&entry),
        NamedProvider::Auto => match detection::detect(facts, &choice) {
            DetectedProvider::Offline => return Ok(ResolvedModel::Offline),
            DetectedProvider::ConfiguredAddress => search.resolve_address(RequestedProvider::Auto)?,
            DetectedProvider::Provider(provider) => search.resolve_built_in(provider)?,
        },
    };
    Ok(ResolvedModel::Target(Box::new(target)))
}

enum NamedProvider {
    Auto,
    BuiltIn(&'static Provider),
    /// One of the user's own endpoints.
    Own(CustomProvider),
}

/// One resolution, with all its inputs.
pub(super) struct TargetResolver<'a> {
    pub(super) inputs: &'a ProviderInputs,
    pub(super) choice: &'a ProviderChoice,
    pub(super) surface: ProgramSurface,
    /// The provider as written: an id, an alias, a custom name, or `auto`.
    pub(super) requested: &'a str,
}

impl TargetResolver<'_> {
    /// Finds the named provider; built-in names and aliases come before the user's own of the same name.
    fn named(&self) -> Result<NamedProvider, ResolveError> {
        let unknown = || ResolveError::UnknownProvider { name: self.requested.trim().to_owned() };
        match canonical_provider(self.requested) {
            Ok("auto") => Ok(NamedProvider::Auto),
            Ok(id) => find(id).map(NamedProvider::BuiltIn).ok_or_else(unknown),
            Err(_) => {
                let slug = custom_slug(self.requested);
                let own = CustomProvider::all(&self.inputs.config);
                own.into_iter()
                    .find(|entry| custom_slug(&entry.name) == slug)
                    .map(NamedProvider::Own)
                    .ok_or_else(unknown)
            }
        }
    }

    /// Tells whether the `model` section is about the provider that was chosen.
    pub(super) fn config_applies(&self) -> bool {
        let Some(chosen) = &self.choice.provider else { return true };
        let configured =
            self.inputs.config.non_empty_text("model.provider").unwrap_or_else(|| "auto".to_owned());
        match (canonical_provider(&configured), canonical_provider(chosen)) {
            (Ok(a), Ok(b)) => a == b,
            _ => custom_slug(&configured) == custom_slug(chosen),
        }
    }

    /// Returns the configured address, unless it is left over from another provider.
    pub(super) fn configured_base(&self) -> Option<String> {
        precedence::base_url(&self.inputs.config, self.requested)
    }

    pub(super) fn configured_key(&self) -> Option<FoundKey> {
        self.inputs.configured_key().filter(|_| self.config_applies())
    }

    fn resolve_built_in(&self, provider: &'static Provider) -> Result<ModelTarget, ResolveError> {
        match provider.kind {
            ProviderKind::Custom => return self.resolve_address(RequestedProvider::Custom),
            ProviderKind::Aggregator if provider.id == "openrouter" => {
                return self.resolve_address(RequestedProvider::OpenRouter);
            }
            ProviderKind::Process => {
                return Err(ResolveError::Unusable {
                    provider: provider.id.to_owned(),
                    why: "The Copilot agent process cannot be used as a model here. Use provider `copilot` with the \
                          same GitHub account: set COPILOT_GITHUB_TOKEN, or run `hermes model`."
                        .to_owned(),
                });
            }
            _ => {}
        }
        // A foreign address is a separate endpoint, whichever provider was chosen: the provider's key is not sent
        // to it. A key given beside the address is meant for it.
        if let Some(url) = &self.choice.base_url
            && self.choice.api_key.is_none()
            && !self.is_key_address(provider, url)
        {
            let asked = if self.choice.provider.is_none() {
                RequestedProvider::Auto
            } else {
                RequestedProvider::Custom
            };
            return self.resolve_address(asked);
        }
        let mut parts = self.parts(provider);
        match provider.kind {
            ProviderKind::Anthropic => self.anthropic(provider, &mut parts)?,
            ProviderKind::OAuth => self.oauth(provider, &mut parts)?,
            ProviderKind::Copilot => self.copilot(provider, &mut parts)?,
            ProviderKind::Aws => self.aws(&mut parts),
            _ => self.api_key(provider, &mut parts)?,
        }
        if parts.base_url.is_empty() {
            return Err(ResolveError::NoAddress { provider: provider.id.to_owned() });
        }
        Ok(ModelTarget::build(self, parts))
    }

    /// Resolves OpenRouter or a custom address.
    fn resolve_address(&self, asked: RequestedProvider) -> Result<ModelTarget, ResolveError> {
        let found = custom_endpoint::find(self, asked)?;
        let mut parts = self.parts(found.provider);
        let pool = if found.provider.id == "openrouter" { "openrouter" } else { "" };
        parts.base_url = found.base_url;
        self.set_key(&mut parts, found.key, pool);
        Ok(ModelTarget::build(self, parts))
    }

    /// Resolves one of the user's own endpoints.
    fn resolve_custom(&self, entry: &CustomProvider) -> ModelTarget {
        let mut parts = self.parts(CUSTOM);
        let base = self.choice.base_url.clone().unwrap_or_else(|| entry.base_url.clone());
        // The key belongs to the endpoint's own host.
        let at_home = BaseUrl::parse(&base).host() == BaseUrl::parse(&entry.base_url).host();
        let own_key = || {
            let origin = format!("custom provider {}", entry.name);
            let written = entry.api_key.as_ref().and_then(|key| FoundKey::new(key.expose(), &origin));
            written.or_else(|| self.inputs.key_in(&[entry.api_key_env.as_deref()?]))
        };
        let key = self.choice.key().or_else(|| own_key().filter(|_| at_home)).or_else(|| {
            let fits = custom_endpoint::openai_key_fits(self.inputs, &BaseUrl::parse(&base));
            self.inputs.key_in(&["OPENAI_API_KEY"]).filter(|_| fits)
        });
        parts.base_url = custom_endpoint::with_version(&base, entry.api_mode.as_deref());
        parts.api_mode = entry.api_mode.clone().or(parts.api_mode);
        if let Some(model) = &entry.model
            && self.choice.model.is_none()
            && (parts.model_choice == ModelChoice::Default || !self.config_applies())
        {
            parts.model.clone_from(model);
            parts.model_choice = ModelChoice::Explicit;
        }
        let sizes = entry.context_lengths.iter();
        parts.context_length = parts
            .context_length
            .or_else(|| sizes.clone().find(|(id, _)| *id == parts.model).map(|(_, size)| *size));
        self.set_key(&mut parts, key, &format!("custom:{}", custom_slug(&entry.name)));
        ModelTarget::build(self, parts)
    }

    /// Sets the key: one given for this call is used alone; others use the provider's pool, where it has one.
    pub(super) fn set_key(&self, parts: &mut TargetParts, key: Option<FoundKey>, pool_name: &str) {
        let explicit = self.choice.api_key.is_some();
        let base = BaseUrl::parse(&parts.base_url);
        parts.key_origin = key.as_ref().map(|found| found.origin.clone());
        if !explicit && !pool_name.is_empty() && self.inputs.has_pool(pool_name) {
            parts.key_source = KeySource::Pool(pool::PoolSpec {
                name: pool_name.to_owned(),
                host: base.host().to_owned(),
                strategy: pool::PoolStrategy::from_config(&self.inputs.config, pool_name),
                mode: ApiMode::Chat,
                extra_key: key.map(|found| found.key),
            });
            return;
        }
        parts.key_source = match key {
            Some(found) => KeySource::bearer(found.key),
            None => custom_endpoint::missing_key_source(&base),
        };
    }

    fn parts(&self, provider: &'static Provider) -> TargetParts {
        let (model, model_choice) = self.model_for(provider);
        let configured = |key: &str| self.inputs.config.non_empty_text(key).filter(|_| self.config_applies());
        let same_model = self.choice.model.as_ref().is_none_or(|chosen| {
            self.inputs.config.non_empty_text("model.default").is_some_and(|default| default == *chosen)
        });
        let size = self.inputs.config.int("model.context_length").and_then(|size| u64::try_from(size).ok());
        TargetParts {
            provider,
            model,
            model_choice,
            base_url: String::new(),
            key_source: KeySource::bearer(Secret::new(String::new())),
            key_origin: None,
            api_mode: configured("model.api_mode"),
            context_length: size.filter(|size| *size > 0 && same_model && self.config_applies()),
            credential: CredentialKind::ApiKey,
            aws: AwsAuth::Signed,
        }
    }

    /// Returns the model by the provider's own name for it. A default that was meant for another provider is
    /// replaced.
    fn model_for(&self, provider: &Provider) -> (String, ModelChoice) {
        if let Some(model) = &self.choice.model {
            return (name::for_provider(provider, model), ModelChoice::Explicit);
        }
        let model = precedence::model(&self.inputs.config, &self.inputs.env, self.surface, None);
        let assumed = model == DEFAULT_MODEL && !self.inputs.config.is_user_set("model.default");
        let said = if assumed { ModelChoice::Default } else { ModelChoice::Explicit };
        let own = name::for_provider(provider, &model);
        let foreign = own.contains('/') && !provider.uses_vendor_prefix();
        match super::registry::models(provider.id).first() {
            Some(default) if foreign && (assumed || !self.config_applies()) => {
                ((*default).to_owned(), ModelChoice::Default)
            }
            _ => (own, said),
        }
    }

    pub(super) fn is_lm_studio(&self) -> bool {
        self.requested.trim().eq_ignore_ascii_case(LM_STUDIO.0)
    }
}
