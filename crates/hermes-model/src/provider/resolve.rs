//! From what was asked for to one target.
//!
//! The order is a contract with existing homes: a flag, then the file, then the environment, then detection. Nothing
//! here reads the network; a missing key is found out now rather than by a refused request.

use hermes_config::keys::DEFAULT_MODEL;
use hermes_config::settings::CustomProvider;
use hermes_config::{Surface, canonical_provider, custom_slug, precedence};
use hermes_types::Secret;

use super::auto::{self, Picked};
use super::catalogue;
use super::custom::{self, Asked};
use super::error::ResolveError;
use super::facts::{Facts, FoundKey};
use super::name;
use super::registry::{CUSTOM, Kind, LM_STUDIO, Provider, find};
use super::target::{ModelChoice, Target, TargetParts};
use crate::credential::{Keys, pool};
use crate::wire::{AwsAuth, Base, Credential, Mode};

/// What a flag, a command or another setting asks for; empty fields leave it to the configuration.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    pub provider: Option<String>,
    pub model: Option<String>,
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
}

impl Choice {
    pub fn of(provider: &str, model: &str) -> Self {
        Self { provider: Some(provider.to_owned()), model: Some(model.to_owned()), ..Self::default() }
    }

    /// Blank fields count as empty, and addresses lose their final slash.
    fn tidy(&self, facts: &Facts) -> Self {
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

/// Who answers.
#[derive(Debug, Clone)]
pub enum Resolved {
    /// The built-in model of rules: nothing is configured, or it was asked for.
    Offline,
    Target(Box<Target>),
}

impl Resolved {
    /// The id for logs and status lines.
    pub fn provider(&self) -> &str {
        match self {
            Self::Offline => "offline",
            Self::Target(target) => &target.wire.provider,
        }
    }

    pub fn target(self) -> Option<Target> {
        match self {
            Self::Offline => None,
            Self::Target(target) => Some(*target),
        }
    }
}

/// Finds the provider, address, model and key for a choice.
pub fn resolve(facts: &Facts, choice: &Choice, surface: Surface) -> Result<Resolved, ResolveError> {
    let choice = choice.tidy(facts);
    let requested = precedence::provider(&facts.config, &facts.env, choice.provider.as_deref());
    let search = Search { facts, choice: &choice, surface, requested: &requested };
    let target = match search.named()? {
        Named::BuiltIn(provider) if provider.kind == Kind::Offline => return Ok(Resolved::Offline),
        Named::BuiltIn(provider) => search.built_in(provider)?,
        Named::Own(entry) => search.own(&entry),
        Named::Auto => match auto::pick(facts, &choice) {
            Picked::Offline => return Ok(Resolved::Offline),
            Picked::Address => search.address(Asked::Auto)?,
            Picked::Provider(provider) => search.built_in(provider)?,
        },
    };
    Ok(Resolved::Target(Box::new(target)))
}

enum Named {
    Auto,
    BuiltIn(&'static Provider),
    /// One of the user's own endpoints.
    Own(CustomProvider),
}

/// One search, with everything it looks at.
pub(super) struct Search<'a> {
    pub(super) facts: &'a Facts,
    pub(super) choice: &'a Choice,
    pub(super) surface: Surface,
    /// As written: an id, an alias, a custom name, or `auto`.
    pub(super) requested: &'a str,
}

impl Search<'_> {
    /// Built-in names and aliases come before the user's own of the same name.
    fn named(&self) -> Result<Named, ResolveError> {
        let unknown = || ResolveError::UnknownProvider { name: self.requested.trim().to_owned() };
        match canonical_provider(self.requested) {
            Ok("auto") => Ok(Named::Auto),
            Ok(id) => find(id).map(Named::BuiltIn).ok_or_else(unknown),
            Err(_) => {
                let slug = custom_slug(self.requested);
                let own = CustomProvider::all(&self.facts.config);
                own.into_iter()
                    .find(|entry| custom_slug(&entry.name) == slug)
                    .map(Named::Own)
                    .ok_or_else(unknown)
            }
        }
    }

    /// Whether the `model` section speaks about the provider that was chosen.
    pub(super) fn config_applies(&self) -> bool {
        let Some(chosen) = &self.choice.provider else { return true };
        let configured = self.facts.config.text_if_any("model.provider").unwrap_or_else(|| "auto".to_owned());
        match (canonical_provider(&configured), canonical_provider(chosen)) {
            (Ok(a), Ok(b)) => a == b,
            _ => custom_slug(&configured) == custom_slug(chosen),
        }
    }

    /// T41-19: an address left over from another provider is not this one's.
    pub(super) fn configured_base(&self) -> Option<String> {
        precedence::base_url(&self.facts.config, self.requested)
    }

    pub(super) fn configured_key(&self) -> Option<FoundKey> {
        self.facts.configured_key().filter(|_| self.config_applies())
    }

    fn built_in(&self, provider: &'static Provider) -> Result<Target, ResolveError> {
        match provider.kind {
            Kind::Custom => return self.address(Asked::Custom),
            Kind::Aggregator if provider.id == "openrouter" => return self.address(Asked::OpenRouter),
            Kind::Process => {
                return Err(ResolveError::Unusable {
                    provider: provider.id.to_owned(),
                    why: "The Copilot agent process cannot be used as a model here. Use provider `copilot` with the \
                          same GitHub account: set COPILOT_GITHUB_TOKEN, or run `hermes model`."
                        .to_owned(),
                });
            }
            _ => {}
        }
        // A foreign address is an endpoint of its own, whoever chose it: the provider's key stays home. A key given beside it
        // is meant for it.
        if let Some(url) = &self.choice.base_url
            && self.choice.api_key.is_none()
            && !self.owns(provider, url)
        {
            let asked = if self.choice.provider.is_none() { Asked::Auto } else { Asked::Custom };
            return self.address(asked);
        }
        let mut parts = self.parts(provider);
        match provider.kind {
            Kind::Anthropic => self.anthropic(provider, &mut parts)?,
            Kind::OAuth => self.oauth(provider, &mut parts)?,
            Kind::Copilot => self.copilot(provider, &mut parts)?,
            Kind::Aws => self.aws(&mut parts),
            _ => self.api_key(provider, &mut parts)?,
        }
        if parts.base_url.is_empty() {
            return Err(ResolveError::NoAddress { provider: provider.id.to_owned() });
        }
        Ok(Target::build(self, parts))
    }

    /// The openrouter/custom path.
    fn address(&self, asked: Asked) -> Result<Target, ResolveError> {
        let found = custom::find(self, asked)?;
        let mut parts = self.parts(found.provider);
        let pool = if found.provider.id == "openrouter" { "openrouter" } else { "" };
        parts.base_url = found.base_url;
        self.put_key(&mut parts, found.key, pool);
        Ok(Target::build(self, parts))
    }

    /// One of the user's own endpoints.
    fn own(&self, entry: &CustomProvider) -> Target {
        let mut parts = self.parts(CUSTOM);
        let base = self.choice.base_url.clone().unwrap_or_else(|| entry.base_url.clone());
        // Its key belongs to its host.
        let at_home = Base::parse(&base).host() == Base::parse(&entry.base_url).host();
        let own_key = || {
            let origin = format!("custom provider {}", entry.name);
            let written = entry.api_key.as_ref().and_then(|key| FoundKey::new(key.expose(), &origin));
            written.or_else(|| self.facts.key_in(&[entry.api_key_env.as_deref()?]))
        };
        let key = self.choice.key().or_else(|| own_key().filter(|_| at_home)).or_else(|| {
            let fits = custom::openai_key_fits(self.facts, &Base::parse(&base));
            self.facts.key_in(&["OPENAI_API_KEY"]).filter(|_| fits)
        });
        parts.base_url = custom::with_version(&base, entry.api_mode.as_deref());
        parts.api_mode = entry.api_mode.clone().or(parts.api_mode);
        if let Some(model) = &entry.model
            && self.choice.model.is_none()
            && (parts.model_choice == ModelChoice::Assumed || !self.config_applies())
        {
            parts.model.clone_from(model);
            parts.model_choice = ModelChoice::Said;
        }
        let sizes = entry.context_lengths.iter();
        parts.context_length = parts
            .context_length
            .or_else(|| sizes.clone().find(|(id, _)| *id == parts.model).map(|(_, size)| *size));
        self.put_key(&mut parts, key, &format!("custom:{}", custom_slug(&entry.name)));
        Target::build(self, parts)
    }

    /// A key given for this call is used alone; others share the provider's pool, where it has one.
    pub(super) fn put_key(&self, parts: &mut TargetParts, key: Option<FoundKey>, pool_name: &str) {
        let explicit = self.choice.api_key.is_some();
        let base = Base::parse(&parts.base_url);
        parts.key_origin = key.as_ref().map(|found| found.origin.clone());
        if !explicit && !pool_name.is_empty() && self.facts.has_pool(pool_name) {
            parts.keys = Keys::Pool(pool::PoolName {
                name: pool_name.to_owned(),
                host: base.host().to_owned(),
                strategy: pool::Strategy::configured(&self.facts.config, pool_name),
                mode: Mode::Chat,
                besides: key.map(|found| found.key),
            });
            return;
        }
        parts.keys = match key {
            Some(found) => Keys::key(found.key),
            None => custom::without_key(&base),
        };
    }

    fn parts(&self, provider: &'static Provider) -> TargetParts {
        let (model, model_choice) = self.model_for(provider);
        let configured = |key: &str| self.facts.config.text_if_any(key).filter(|_| self.config_applies());
        let same_model = self.choice.model.as_ref().is_none_or(|chosen| {
            self.facts.config.text_if_any("model.default").is_some_and(|default| default == *chosen)
        });
        let size = self.facts.config.int("model.context_length").and_then(|size| u64::try_from(size).ok());
        TargetParts {
            provider,
            model,
            model_choice,
            base_url: String::new(),
            keys: Keys::key(Secret::new(String::new())),
            key_origin: None,
            api_mode: configured("model.api_mode"),
            context_length: size.filter(|size| *size > 0 && same_model && self.config_applies()),
            credential: Credential::ApiKey,
            aws: AwsAuth::Signed,
        }
    }

    /// The model, by the provider's own name for it. A default that was meant for another provider is replaced.
    fn model_for(&self, provider: &Provider) -> (String, ModelChoice) {
        if let Some(model) = &self.choice.model {
            return (name::for_provider(provider, model), ModelChoice::Said);
        }
        let model = precedence::model(&self.facts.config, &self.facts.env, self.surface, None);
        let assumed = model == DEFAULT_MODEL && !self.facts.config.is_user_set("model.default");
        let said = if assumed { ModelChoice::Assumed } else { ModelChoice::Said };
        let own = name::for_provider(provider, &model);
        let foreign = own.contains('/') && !provider.names_vendors();
        match catalogue::models(provider.id).first() {
            Some(default) if foreign && (assumed || !self.config_applies()) => {
                ((*default).to_owned(), ModelChoice::Assumed)
            }
            _ => (own, said),
        }
    }

    pub(super) fn is_lm_studio(&self) -> bool {
        self.requested.trim().eq_ignore_ascii_case(LM_STUDIO.0)
    }
}
