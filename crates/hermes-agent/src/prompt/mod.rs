//! The system prompt of a session, made of layers.
//!
//! It is built once per session and stored with it; a loaded session uses the stored bytes. Only a new session
//! gets a new prompt, including the session in which a compressed conversation continues. Invariant: the same
//! inputs give the same bytes, so that the provider's cache stays valid.

mod enforcement;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use hermes_config::Home;
use hermes_knowledge::{IDENTITY, MemoryFile, MemoryStore, project_context, soul};
use hermes_types::{CivilTime, ContextItem, Provenance, SessionId, ToolDescriptor, ToolRole, platform_facts};

pub use enforcement::ToolUseEnforcement;

use crate::agent::{AgentModels, ModelIdentityLine};

/// Says whether the context files of the working folder and the home are part of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContextFiles {
    #[default]
    Load,
    Skip,
}

/// The sources of the layers.
#[derive(Debug, Clone)]
pub struct PromptSource {
    pub home: Home,
    /// The working folder.
    pub folder: PathBuf,
    pub files: ContextFiles,
    /// The agent's memory; absent when memory is off.
    pub memory: Option<MemoryStore>,
    pub user_profile: Option<MemoryStore>,
    pub skills: Option<SkillList>,
    pub enforcement: ToolUseEnforcement,
    /// The platform: `cli`, a chat platform, `cron`, …
    pub platform: String,
    /// The user's own hint about the platform, added to the default or replacing it.
    pub platform_hint: HintChange,
    pub environment_hint: Option<String>,
    /// A text from the frontend, such as who is talking in which chat.
    pub surface: Option<String>,
    pub session_id: SessionIdLine,
}

/// Renders the list of skills as it is shown to the model. It is rendered for each new prompt, so that a session sees the
/// skills that were written before it.
#[derive(Clone)]
pub struct SkillList(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl SkillList {
    pub fn new(render: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(render))
    }
}

impl fmt::Debug for SkillList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SkillList")
    }
}

/// The user's change to a platform's hint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HintChange {
    #[default]
    None,
    Append(String),
    Replace(String),
}

/// Says whether the prompt contains the session's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionIdLine {
    #[default]
    Omit,
    Include,
}

/// The inputs of the layers beside their sources.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it borrows ports")]
pub struct PromptInputs<'a> {
    pub session: &'a SessionId,
    pub models: &'a AgentModels,
    /// The tools of the session, sorted by name.
    pub tools: &'a [ToolDescriptor<'a>],
    pub now: CivilTime,
    /// An external memory's description of itself.
    pub external_memory: Option<&'a str>,
}

impl PromptSource {
    pub fn new(home: Home, folder: PathBuf) -> Self {
        Self {
            home,
            folder,
            files: ContextFiles::Load,
            memory: None,
            user_profile: None,
            skills: None,
            enforcement: ToolUseEnforcement::default(),
            platform: "cli".to_owned(),
            platform_hint: HintChange::None,
            environment_hint: None,
            surface: None,
            session_id: SessionIdLine::Omit,
        }
    }

    /// Returns the layers in order, without the empty ones.
    pub fn layers(&self, about: &PromptInputs<'_>) -> Vec<ContextItem> {
        let load = self.files == ContextFiles::Load;
        let identity = if load { soul(&self.folder, &self.home) } else { None };
        let block = |memory: &Option<MemoryStore>, target| {
            memory.as_ref().and_then(|memory| memory.prompt_block(target))
        };
        let is_for_skills = |tool: &ToolDescriptor<'_>| {
            matches!(tool.role, Some(ToolRole::SkillReader | ToolRole::SkillEditor))
        };
        let has_skill_tools = about.tools.iter().any(is_for_skills);
        let skills = self.skills.as_ref().filter(|_| has_skill_tools).and_then(|list| (list.0)());
        let enforced = !about.tools.is_empty() && self.enforcement.applies(&about.models.name);
        let layers = [
            layer(Provenance::System, "identity", Some(identity.unwrap_or_else(|| IDENTITY.to_owned()))),
            layer(Provenance::System, "tool guidance", guidance(about.tools)),
            layer(
                Provenance::System,
                "tool use",
                enforced.then(|| text(include_str!("../texts/enforcement.md"))),
            ),
            layer(Provenance::Memory, "external memory", about.external_memory.map(str::to_owned)),
            layer(Provenance::System, "surface", self.surface.clone()),
            layer(Provenance::Memory, MemoryFile::Memory.as_str(), block(&self.memory, MemoryFile::Memory)),
            layer(Provenance::Memory, "user profile", block(&self.user_profile, MemoryFile::User)),
            layer(Provenance::Skill, "skills", skills),
            layer(Provenance::System, "project", if load { project_context(&self.folder) } else { None }),
            layer(Provenance::System, "facts", Some(self.facts(about))),
            layer(Provenance::System, "environment", Some(self.environment())),
            layer(Provenance::System, "platform", self.hint()),
        ];
        layers.into_iter().flatten().collect()
    }

    fn facts(&self, about: &PromptInputs<'_>) -> String {
        let mut lines = vec![format!("Conversation started: {}", long_date(about.now))];
        if self.session_id == SessionIdLine::Include {
            lines.push(format!("Session ID: {}", about.session));
        }
        let AgentModels { name, provider, identity, .. } = about.models;
        if !name.is_empty() {
            lines.push(format!("Model: {name}"));
        }
        if !provider.is_empty() {
            lines.push(format!("Provider: {provider}"));
        }
        if *identity == ModelIdentityLine::Include {
            lines.push(format!("You are the model {name}; say so when asked which model you are."));
        }
        lines.join("\n")
    }

    fn environment(&self) -> String {
        let mut line = format!("System: {}. Working folder: {}", std::env::consts::OS, self.folder.display());
        if let Some(hint) = &self.environment_hint {
            line.push('\n');
            line.push_str(hint);
        }
        line
    }

    fn hint(&self) -> Option<String> {
        let ours = platform_hint(&self.platform);
        match (&self.platform_hint, ours) {
            (HintChange::Append(text), Some(ours)) => Some(format!("{ours}\n{text}")),
            (HintChange::Replace(text), _) | (HintChange::Append(text), None) => Some(text.clone()),
            (HintChange::None, ours) => ours,
        }
    }
}

/// Joins the layers into one text.
pub fn join(layers: &[ContextItem]) -> String {
    layers.iter().map(|layer| layer.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

fn layer(provenance: Provenance, label: &str, text: Option<String>) -> Option<ContextItem> {
    let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())?;
    Some(ContextItem { provenance, label: label.to_owned(), text })
}

fn text(file: &str) -> String {
    file.trim().to_owned()
}

/// Returns the guidance of the available tools, one paragraph.
fn guidance(tools: &[ToolDescriptor<'_>]) -> Option<String> {
    let present: Vec<String> =
        tools.iter().filter_map(|tool| Some(text(tool.guidance?).replace('\n', " "))).collect();
    (!present.is_empty()).then(|| present.join(" "))
}

/// Returns the hint about what a platform shows. Platforms of one text form have the same.
fn platform_hint(platform: &str) -> Option<String> {
    let wanted = platform_facts(platform).map_or(platform, |facts| facts.text_form.hint_name());
    include_str!("../texts/platforms.txt").lines().find_map(|line| {
        let (name, text) = line.split_once(": ")?;
        (name == wanted).then(|| text.to_owned())
    })
}

/// Formats a date as `Sunday, November 15, 2026`. The hour is left out so that the prompt stays the same for a
/// day.
fn long_date(at: CivilTime) -> String {
    format!("{}, {} {:02}, {}", at.weekday_name(), at.month_name(), at.day, at.year)
}
