//! Which model does the side tasks: summaries, titles, pictures, web extracts.
//!
//! Side tasks never use fallbacks and never take the main conversation's place. With nothing suitable there is none,
//! and the caller goes without.

use std::time::Duration;

use hermes_config::settings::AuxiliaryTask;
use hermes_config::{Surface, canonical_provider};
use hermes_types::Secret;

use super::auto::is_signed_in;
use super::error::ResolveError;
use super::facts::Facts;
use super::registry::{Detection, Kind, Provider, REGISTRY, find};
use super::resolve::{Choice, Resolved, resolve};
use super::target::Target;
use crate::credential::{anthropic, codex};

/// A side task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Vision,
    WebExtract,
    Compression,
    SessionSearch,
    SkillsHub,
    Approval,
    Mcp,
    FlushMemories,
    /// Has no settings of its own; those of compression count.
    Title,
}

impl Task {
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

/// Who does a side task, and how long it may take.
#[derive(Debug, Clone)]
pub struct Auxiliary {
    pub target: Target,
    pub timeout: Duration,
}

/// `None` when no model is at hand. An explicitly named provider that cannot be used is an error, except for pictures,
/// which then go the automatic way.
pub fn find_model(
    facts: &Facts,
    task: Task,
    explicit: &Choice,
    main: Option<&Target>,
    surface: Surface,
) -> Result<Option<Auxiliary>, ResolveError> {
    let settings = AuxiliaryTask::resolve(&facts.config, &facts.env, task.as_str());
    let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    let wish = Wish {
        provider: said(&explicit.provider).unwrap_or_else(|| settings.provider.clone()),
        model: said(&explicit.model).or_else(|| settings.model.clone()),
        base_url: said(&explicit.base_url).or_else(|| settings.base_url.clone()),
        api_key: explicit
            .api_key
            .clone()
            .or_else(|| settings.api_key.as_ref().map(|key| Secret::new(key.expose()))),
    };
    let chains = Chains { facts, main, surface, wish: &wish };
    let target = if wish.base_url.is_some() {
        Some(chains.direct()?)
    } else {
        match wish.provider.trim().to_ascii_lowercase().as_str() {
            "auto" | "" => chains.automatic(task),
            "main" => chains.main_like(),
            named => match chains.named(named) {
                Ok(target) => Some(target),
                Err(_) if task == Task::Vision => chains.automatic(task),
                Err(error) => return Err(error),
            },
        }
    };
    Ok(target.map(|target| Auxiliary { target, timeout: settings.timeout }))
}

struct Wish {
    provider: String,
    model: Option<String>,
    base_url: Option<String>,
    api_key: Option<Secret>,
}

struct Chains<'a> {
    facts: &'a Facts,
    main: Option<&'a Target>,
    surface: Surface,
    wish: &'a Wish,
}

/// Whose turn it is in a chain.
#[derive(Debug, Clone, Copy)]
enum Step {
    OpenRouter,
    Nous,
    Codex,
    Anthropic,
    Custom,
    ApiKeys,
}

impl Chains<'_> {
    fn automatic(&self, task: Task) -> Option<Target> {
        let text = [Step::OpenRouter, Step::Nous, Step::Custom, Step::Codex, Step::ApiKeys];
        let pictures = [Step::OpenRouter, Step::Nous, Step::Codex, Step::Anthropic, Step::Custom];
        if task == Task::Vision {
            let first = pictures.into_iter().filter(|step| self.is_main(*step));
            return first.chain(pictures).find_map(|step| self.step(step));
        }
        text.into_iter().find_map(|step| self.step(step))
    }

    fn main_like(&self) -> Option<Target> {
        [Step::Custom, Step::Codex, Step::ApiKeys].into_iter().find_map(|step| self.step(step))
    }

    fn is_main(&self, step: Step) -> bool {
        let main = self.main.map(Target::provider).unwrap_or_default();
        match step {
            Step::OpenRouter => main == "openrouter",
            Step::Nous => main == "nous",
            Step::Codex => main == "openai-codex",
            Step::Anthropic => main == "anthropic",
            Step::Custom => main == "custom",
            Step::ApiKeys => false,
        }
    }

    fn step(&self, step: Step) -> Option<Target> {
        let facts = self.facts;
        match step {
            Step::OpenRouter => {
                let has_key = facts.has_key_in(&["OPENROUTER_API_KEY"]) || facts.has_pool("openrouter");
                has_key.then(|| self.provider(find("openrouter")?)).flatten()
            }
            Step::Nous => {
                let active = facts.auth.active_provider() == Some("nous") || self.is_main(Step::Nous);
                let nous = find("nous").filter(|nous| active && is_signed_in(facts, nous))?;
                self.provider(nous)
            }
            Step::Custom => self.custom(),
            Step::Codex => {
                let usable = facts.auth.provider("openai-codex").is_some_and(codex::is_signed_in);
                usable.then(|| self.provider(find("openai-codex")?)).flatten()
            }
            Step::Anthropic => anthropic::find(&facts.env).and_then(|_| self.provider(find("anthropic")?)),
            Step::ApiKeys => REGISTRY
                .iter()
                .filter(|provider| provider.detection == Detection::Allowed)
                .filter(|provider| facts.has_key_in(provider.keys) || facts.has_pool(provider.id))
                .find_map(|provider| self.provider(provider)),
        }
    }

    /// A provider with its model for side tasks. In the automatic chains a wish for `vendor/model` holds only where
    /// models are named like that.
    fn provider(&self, provider: &'static Provider) -> Option<Target> {
        let wish = self.wish.model.clone().filter(|model| !model.contains('/') || provider.names_vendors());
        let model = wish.unwrap_or_else(|| self.usual_model(provider));
        self.ask(&Choice::of(provider.id, &model)).ok()
    }

    fn usual_model(&self, provider: &Provider) -> String {
        let main = self.main.filter(|main| main.provider() == provider.id).map(|main| main.model.clone());
        if provider.auxiliary_model.is_empty() {
            let first = super::catalogue::models(provider.id).first().map(|model| (*model).to_owned());
            return main.or(first).unwrap_or_default();
        }
        provider.auxiliary_model.to_owned()
    }

    /// The user's own endpoint, or OpenAI itself, with the main model.
    fn custom(&self) -> Option<Target> {
        let main = self.main.filter(|main| matches!(main.provider(), "custom" | "openai"));
        let wish = self.wish.model.clone().filter(|model| !model.contains('/'));
        if let Some(main) = main {
            let mut target = main.clone();
            target.model = wish.unwrap_or(target.model);
            return Some(target);
        }
        self.facts.address_in("OPENAI_BASE_URL")?;
        let model = wish.unwrap_or_else(|| "gpt-4o-mini".to_owned());
        self.ask(&Choice::of("custom", &model)).ok()
    }

    /// An address of the task's own; keys of other endpoints do not go there.
    fn direct(&self) -> Result<Target, ResolveError> {
        let model = self
            .wish
            .model
            .clone()
            .or_else(|| self.main.map(|main| main.model.clone()))
            .unwrap_or_else(|| "gpt-4o-mini".to_owned());
        self.ask(&Choice {
            base_url: self.wish.base_url.clone(),
            api_key: self.wish.api_key.clone(),
            ..Choice::of("custom", &model)
        })
    }

    fn named(&self, name: &str) -> Result<Target, ResolveError> {
        let provider = canonical_provider(name).ok().and_then(find);
        let usual = || provider.filter(|p| p.kind != Kind::Custom).map(|p| self.usual_model(p));
        let main = || self.main.map(|main| main.model.clone());
        let model = self.wish.model.clone().or_else(usual).or_else(main);
        self.ask(&Choice {
            provider: Some(name.to_owned()),
            model: model.or_else(|| Some("gpt-4o-mini".to_owned())),
            base_url: None,
            api_key: self.wish.api_key.clone(),
        })
    }

    fn ask(&self, choice: &Choice) -> Result<Target, ResolveError> {
        match resolve(self.facts, choice, self.surface)? {
            Resolved::Target(target) => Ok(*target),
            Resolved::Offline => {
                Err(ResolveError::UnknownProvider { name: choice.provider.clone().unwrap_or_default() })
            }
        }
    }
}
