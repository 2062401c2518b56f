//! The rules that decide which skills a surface sees.

use std::collections::BTreeSet;

use hermes_config::yaml::YamlValue;
use hermes_config::{Config, Env};
use serde::{Deserialize, Serialize};

use super::front_matter::list;

/// The conditions that decide whether a skill is offered.
#[derive(Debug, Clone, Default)]
pub struct SkillFilter {
    pub disabled: BTreeSet<String>,
    pub tools: BTreeSet<String>,
    pub toolsets: BTreeSet<String>,
    /// The operating system: `linux`, `macos` or `windows`.
    pub system: String,
    pub usage: SkillUse,
}

/// The use for which skills are loaded: it decides how much of each file is read, and whether the conditions
/// about tools apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SkillUse {
    /// The list in the prompt; only here do the conditions about tools apply.
    #[default]
    Index,
    /// The list that a tool returns.
    List,
    /// Commands, and skills that are loaded by name.
    Command,
}

/// What a filter says about a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillStatus {
    Offered,
    /// The configuration disables it.
    Disabled,
    /// It is for another operating system.
    Unsupported,
    /// A condition about tools is not met.
    Inapplicable,
    /// A skill with the same folder name was found before it.
    Shadowed,
}

impl SkillUse {
    /// Returns the number of characters read from a `SKILL.md`.
    pub(super) fn chars(self) -> usize {
        match self {
            Self::Index => 2_000,
            Self::List => 4_000,
            Self::Command => super::MAX_SKILL_CHARS,
        }
    }
}

impl SkillFilter {
    /// Builds a filter with the skills that the configuration disables on this platform.
    pub fn from_config(config: &Config, env: &Env, platform: &str) -> Self {
        let platform = env.get("HERMES_PLATFORM").unwrap_or(platform);
        let per_platform = format!("skills.platform_disabled.{platform}");
        let names = if config.is_user_set(&per_platform) {
            config.list(&per_platform)
        } else {
            config.list("skills.disabled")
        };
        Self {
            disabled: names.into_iter().collect(),
            system: std::env::consts::OS.to_owned(),
            ..Self::default()
        }
    }

    /// Returns this filter for another use.
    #[must_use]
    pub fn for_use(self, usage: SkillUse) -> Self {
        Self { usage, ..self }
    }

    /// Judges a skill by its names and its conditions.
    pub(super) fn status(&self, name: &str, own_name: &str, conditions: &SkillConditions) -> SkillStatus {
        if self.disabled.contains(name) || self.disabled.contains(own_name) {
            return SkillStatus::Disabled;
        }
        let systems = &conditions.platforms;
        if !systems.is_empty() && !systems.iter().any(|system| self.runs_on(system)) {
            return SkillStatus::Unsupported;
        }
        if self.usage == SkillUse::Index && !self.conditions_hold(conditions) {
            return SkillStatus::Inapplicable;
        }
        SkillStatus::Offered
    }

    fn runs_on(&self, given: &str) -> bool {
        let identifier = |name: &str| match name.to_lowercase().as_str() {
            "macos" => "darwin".to_owned(),
            "windows" => "win32".to_owned(),
            other => other.to_owned(),
        };
        identifier(&self.system).starts_with(&identifier(given))
    }

    fn conditions_hold(&self, conditions: &SkillConditions) -> bool {
        let any_of =
            |names: &[String], there: &BTreeSet<String>| names.iter().any(|name| there.contains(name));
        let lacks_one =
            |names: &[String], there: &BTreeSet<String>| names.iter().any(|name| !there.contains(name));
        !any_of(&conditions.fallback_for_toolsets, &self.toolsets)
            && !any_of(&conditions.fallback_for_tools, &self.tools)
            && !lacks_one(&conditions.requires_toolsets, &self.toolsets)
            && !lacks_one(&conditions.requires_tools, &self.tools)
    }
}

/// The conditions in the front matter of a skill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SkillConditions {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    platforms: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fallback_for_toolsets: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fallback_for_tools: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requires_toolsets: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requires_tools: Vec<String>,
}

impl SkillConditions {
    pub(super) fn of(data: &YamlValue) -> Self {
        Self {
            platforms: list(data, "platforms"),
            fallback_for_toolsets: condition(data, "fallback_for_toolsets"),
            fallback_for_tools: condition(data, "fallback_for_tools"),
            requires_toolsets: condition(data, "requires_toolsets"),
            requires_tools: condition(data, "requires_tools"),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns a condition, read from `metadata.hermes` or, in hand-written files, from the top level.
fn condition(data: &YamlValue, key: &str) -> Vec<String> {
    match super::hermes_data(data) {
        Some(own) if own.get(key).is_some() => list(own, key),
        _ => list(data, key),
    }
}
