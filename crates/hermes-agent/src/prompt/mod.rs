//! The fixed beginning of a conversation, made of layers.
//!
//! Built once per session and stored with it; a session that is taken up again uses the stored bytes. A new one is built
//! only for a new session, also the one a compressed conversation goes on in. Invariant: the same inputs give the same
//! bytes, so that a provider's cache stays warm.

mod enforcement;

use std::path::PathBuf;

use hermes_config::Home;
use hermes_knowledge::{IDENTITY, MemoryFile, MemoryStore, project_context, soul};
use hermes_types::{CivilTime, ContextItem, Provenance, SessionId};

pub use enforcement::ToolUseEnforcement;

/// Whether the files of folder and home are put before the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContextFiles {
    #[default]
    Load,
    Skip,
}

/// Where the layers come from.
#[derive(Debug, Clone)]
pub struct PromptSource {
    pub home: Home,
    /// The working folder.
    pub folder: PathBuf,
    pub files: ContextFiles,
    /// Absent when remembering is off.
    pub memory: Option<MemoryStore>,
    pub user_profile: Option<MemoryStore>,
    /// The list of skills, as it is shown.
    pub skills: Option<String>,
    pub enforcement: ToolUseEnforcement,
    /// `cli`, a chat platform, `cron`, …
    pub platform: String,
    /// The user's own words about the platform, after ours or instead of them.
    pub platform_hint: HintChange,
    pub environment_hint: Option<String>,
    /// Words of the surface, such as who is talking in which chat.
    pub surface: Option<String>,
    pub provider: String,
    pub session_id: SessionIdLine,
}

/// What the user changed about a platform's hint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum HintChange {
    #[default]
    None,
    Append(String),
    Replace(String),
}

/// Whether the model is told the session's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionIdLine {
    #[default]
    Omit,
    Include,
}

/// What the layers are about, beside their sources.
#[derive(Debug, Clone, Copy)]
pub struct PromptInputs<'a> {
    pub session: &'a SessionId,
    pub model: &'a str,
    pub tools: &'a [&'a str],
    pub now: CivilTime,
    /// The words of another memory about itself.
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
            provider: String::new(),
            session_id: SessionIdLine::Omit,
        }
    }

    /// The layers in their order, without the empty ones.
    pub fn layers(&self, about: &PromptInputs<'_>) -> Vec<ContextItem> {
        let load = self.files == ContextFiles::Load;
        let identity = if load { soul(&self.folder, &self.home) } else { None };
        let block = |memory: &Option<MemoryStore>, target| {
            memory.as_ref().and_then(|memory| memory.prompt_block(target))
        };
        let has = |name: &str| about.tools.contains(&name);
        let skills = ["skills_list", "skill_view", "skill_manage"].iter().any(|name| has(name));
        let enforced = !about.tools.is_empty() && self.enforcement.applies(about.model);
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
            layer(Provenance::Memory, "memory", block(&self.memory, MemoryFile::Memory)),
            layer(Provenance::Memory, "user profile", block(&self.user_profile, MemoryFile::User)),
            layer(Provenance::Skill, "skills", self.skills.clone().filter(|_| skills)),
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
        if !about.model.is_empty() {
            lines.push(format!("Model: {}", about.model));
        }
        if !self.provider.is_empty() {
            lines.push(format!("Provider: {}", self.provider));
        }
        // This provider's models give another name when asked who they are.
        if self.provider == "alibaba" {
            lines.push(format!("You are the model {}; say so when asked which model you are.", about.model));
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

/// The layers as one text.
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

/// What the model should know about using its memory, its past and its skills.
fn guidance(tools: &[&str]) -> Option<String> {
    let paragraphs = [
        ("memory", include_str!("../texts/guidance_memory.md")),
        ("session_search", include_str!("../texts/guidance_search.md")),
        ("skill_manage", include_str!("../texts/guidance_skills.md")),
    ];
    let present: Vec<String> = paragraphs
        .into_iter()
        .filter(|(name, _)| tools.contains(name))
        .map(|(_, file)| text(file).replace('\n', " "))
        .collect();
    (!present.is_empty()).then(|| present.join(" "))
}

fn platform_hint(platform: &str) -> Option<String> {
    include_str!("../texts/platforms.txt").lines().find_map(|line| {
        let (names, text) = line.split_once(": ")?;
        names.split(' ').any(|name| name == platform).then(|| text.to_owned())
    })
}

/// `Sunday, November 15, 2026`. The hour is left out so that the prompt is the same for a day.
fn long_date(at: CivilTime) -> String {
    format!("{}, {} {:02}, {}", at.weekday_name(), at.month_name(), at.day, at.year)
}
