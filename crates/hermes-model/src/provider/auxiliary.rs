//! Selects the model for side tasks: summaries, titles, images, web extracts.
//!
//! Side tasks never use fallbacks and never replace the model of the main conversation. When no model is suitable,
//! there is none and the caller skips the task.

use std::time::Duration;

use hermes_config::settings::AuxiliaryTaskSettings;
use hermes_config::{ProgramSurface, canonical_provider};
use hermes_types::Secret;

use super::detection::is_signed_in;
use super::error::ResolveError;
use super::inputs::ProviderInputs;
use super::registry::{DetectionPolicy, Provider, ProviderKind, REGISTRY, find};
use super::resolve::{ProviderChoice, ResolvedModel, resolve};
use super::target::ModelTarget;
use crate::credential::{anthropic, codex};

/// A side task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideTask {
    Vision,
    WebExtract,
    Compression,
    SessionSearch,
    SkillsHub,
    Approval,
    Mcp,
    FlushMemories,
    /// Has no settings of its own and uses those of compression.
    Title,
}

impl SideTask {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vision => "vision",
            Self::WebExtract => "web_extract",
            Self::Compression | Self::Title => "compression",
            Self::SessionSearch => "session_search",
            Self::SkillsHub => "skills_hub",
            Self::Approval => "approval",
            Self::Mcp => "mcp",
            Self::FlushMemories => "flush_memories",
        }
    }
}

/// The model for a side task, and its time limit.
#[derive(Debug, Clone)]
pub struct SideTaskTarget {
    pub target: ModelTarget,
    pub timeout: Duration,
}

/// Returns the model, or `None` when none is available. An explicitly named provider that cannot be used is an
/// error, except for images, which then use the automatic chain.
pub fn find_model(
    facts: &ProviderInputs,
    task: SideTask,
    explicit: &ProviderChoice,
    main: Option<&ModelTarget>,
    surface: ProgramSurface,
) -> Result<Option<SideTaskTarget>, ResolveError> {
    let settings = AuxiliaryTaskSettings::resolve(&facts.config, &facts.env, task.as_str());
    let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    let wish = SideTaskRequest {
        provider: said(&explicit.provider).unwrap_or_else(|| settings.provider.clone()),
        model: said(&explicit.model).or_else(|| settings.model.clone()),
        base_url: said(&explicit.base_url).or_else(|| settings.base_url.clone()),
        api_key: explicit
            .api_key
            .clone()
            .or_else(|| settings.api_key.as_ref().map(|key| Secret::new(key.expose()))),
    };
    let chains = SideTaskResolver { inputs: facts, main, surface, request: &wish };
    let target = if wish.base_url.is_some() {
        Some(chains.direct()?)
    } else {
        match wish.provider.trim().to_ascii_lowercase().as_str() {
            "auto" | "" => chains.automatic(task),
            "main" => chains.first_configured(),
            named => match chains.named(named) {
                Ok(target) => Some(target),
                Err(_) if task == SideTask::Vision => chains.automatic(task),
                Err(error) => return Err(error),
            },
        }
    };
    Ok(target.map(|target| SideTaskTarget { target, timeout: settings.timeout }))
}

struct SideTaskRequest {
    provider: String,
    model: Option<String>,
    base_url: Option<String>,
    api_key: Option<Secret>,
}

struct SideTaskResolver<'a> {
    inputs: &'a ProviderInputs,
    main: Option<&'a ModelTarget>,
    surface: ProgramSurface,
    request: &'a SideTaskRequest,
}

/// One candidate in a chain.
#[derive(Debug, Clone, Copy)]
enum ChainStep {
    OpenRouter,
    Nous,
    Codex,
    Anthropic,
    Custom,
    ApiKeys,
}

impl SideTaskResolver<'_> {
    fn automatic(&self, task: SideTask) -> Option<ModelTarget> {
        let text =
            [ChainStep::OpenRouter, ChainStep::Nous, ChainStep::Custom, ChainStep::Codex, ChainStep::ApiKeys];
        let pictures = [
            ChainStep::OpenRouter,
            ChainStep::Nous,
            ChainStep::Codex,
            ChainStep::Anthropic,
            ChainStep::Custom,
        ];
        if task == SideTask::Vision {
            let first = pictures.into_iter().filter(|step| self.is_main(*step));
            return first.chain(pictures).find_map(|step| self.step(step));
        }
        text.into_iter().find_map(|step| self.step(step))
    }

    fn first_configured(&self) -> Option<ModelTarget> {
        [ChainStep::Custom, ChainStep::Codex, ChainStep::ApiKeys].into_iter().find_map(|step| self.step(step))
    }

    fn is_main(&self, step: ChainStep) -> bool {
        let main = self.main.map(ModelTarget::provider).unwrap_or_default();
        match step {
            ChainStep::OpenRouter => main == "openrouter",
            ChainStep::Nous => main == "nous",
            ChainStep::Codex => main == "openai-codex",
            ChainStep::Anthropic => main == "anthropic",
            ChainStep::Custom => main == "custom",
            ChainStep::ApiKeys => false,
        }
    }

    fn step(&self, step: ChainStep) -> Option<ModelTarget> {
        let facts = self.inputs;
        match step {
            ChainStep::OpenRouter => {
                let has_key = facts.has_key_in(&["OPENROUTER_API_KEY"]) || facts.has_pool("openrouter");
                has_key.then(|| self.provider(find("openrouter")?)).flatten()
            }
            ChainStep::Nous => {
                let active = facts.auth.active_provider() == Some("nous") || self.is_main(ChainStep::Nous);
                let nous = find("nous").filter(|nous| active && is_signed_in(facts, nous))?;
                self.provider(nous)
            }
            ChainStep::Custom => self.custom(),
            ChainStep::Codex => {
                let usable = facts.auth.provider("openai-codex").is_some_and(codex::is_signed_in);
                usable.then(|| self.provider(find("openai-codex")?)).flatten()
            }
            ChainStep::Anthropic => {
                anthropic::find(&facts.env).and_then(|_| self.provider(find("anthropic")?))
            }
            ChainStep::ApiKeys => REGISTRY
                .iter()
                .filter(|provider| provider.detection == DetectionPolicy::Allowed)
                .filter(|provider| facts.has_key_in(provider.keys) || facts.has_pool(provider.id))
                .find_map(|provider| self.provider(provider)),
        }
    }

    /// Returns a provider with its model for side tasks. In the automatic chains a configured `vendor/model`
    /// applies only where models are named like that.
    fn provider(&self, provider: &'static Provider) -> Option<ModelTarget> {
        let wish =
            self.request.model.clone().filter(|model| !model.contains('/') || provider.uses_vendor_prefix());
        let model = wish.unwrap_or_else(|| self.usual_model(provider));
        self.ask(&ProviderChoice::of(provider.id, &model)).ok()
    }

    fn usual_model(&self, provider: &Provider) -> String {
        let main = self.main.filter(|main| main.provider() == provider.id).map(|main| main.model.clone());
        if provider.auxiliary_model.is_empty() {
            let first = super::registry::models(provider.id).first().map(|model| (*model).to_owned());
            return main.or(first).unwrap_or_default();
        }
        provider.auxiliary_model.to_owned()
    }

    /// Returns the user's own endpoint, or OpenAI itself, with the main model.
    fn custom(&self) -> Option<ModelTarget> {
        let main = self.main.filter(|main| matches!(main.provider(), "custom" | "openai"));
        let wish = self.request.model.clone().filter(|model| !model.contains('/'));
        if let Some(main) = main {
            let mut target = main.clone();
            target.model = wish.unwrap_or(target.model);
            return Some(target);
        }
        self.inputs.address_in("OPENAI_BASE_URL")?;
        let model = wish.unwrap_or_else(|| "gpt-4o-mini".to_owned());
        self.ask(&ProviderChoice::of("custom", &model)).ok()
    }

    /// Returns the task's own endpoint; keys of other endpoints are not sent there.
    fn direct(&self) -> Result<ModelTarget, ResolveError> {
        let model = self
            .request
            .model
            .clone()
            .or_else(|| self.main.map(|main| main.model.clone()))
            .unwrap_or_else(|| "gpt-4o-mini".to_owned());
        self.ask(&ProviderChoice {
            base_url: self.request.base_url.clone(),
            api_key: self.request.api_key.clone(),
            ..ProviderChoice::of("custom", &model)
        })
    }

    fn named(&self, name: &str) -> Result<ModelTarget, ResolveError> {
        let provider = canonical_provider(name).ok().and_then(find);
        let usual = || provider.filter(|p| p.kind != ProviderKind::Custom).map(|p| self.usual_model(p));
        let main = || self.main.map(|main| main.model.clone());
        let model = self.request.model.clone().or_else(usual).or_else(main);
        self.ask(&ProviderChoice {
            provider: Some(name.to_owned()),
            model: model.or_else(|| Some("gpt-4o-mini".to_owned())),
            base_url: None,
            api_key: self.request.api_key.clone(),
        })
    }

    fn ask(&self, choice: &ProviderChoice) -> Result<ModelTarget, ResolveError> {
        match resolve(self.inputs, choice, self.surface)? {
            ResolvedModel::Target(target) => Ok(*target),
            ResolvedModel::Offline => {
                Err(ResolveError::UnknownProvider { name: choice.provider.clone().unwrap_or_default() })
            }
        }
    }
}
