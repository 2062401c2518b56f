//! The skills of a home as the prompt lists them: names, categories and one line each.
//!
//! A skill is a folder with a `SKILL.md`; the folders above it are its category. This module does not write or
//! install skills; `invocation` renders a skill that is called by its name. A skill whose front matter cannot
//! be parsed is listed without a description.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use hermes_config::yaml::{self, YamlValue};
use hermes_config::{Config, Env, Home, expand_tilde};
use hermes_text::head;

use crate::invocation::command_name;

const SKIPPED: [&str; 3] = [".git", ".github", ".hub"];
/// The number of characters read from the beginning of a file.
const MOST_CHARS: usize = 2_000;
const MOST_DESCRIPTION: usize = 60;
const MOST_DEPTH: usize = 6;

/// One entry of the skill index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    pub category: String,
    pub description: String,
    pub folder: PathBuf,
    /// The command that invokes the skill, without the `/`.
    pub command: String,
}

/// The conditions that decide whether a skill is listed.
#[derive(Debug, Clone, Default)]
pub struct SkillFilter {
    pub disabled: BTreeSet<String>,
    pub tools: BTreeSet<String>,
    pub toolsets: BTreeSet<String>,
    /// The operating system: `linux`, `macos` or `windows`.
    pub system: String,
    pub conditions: ToolConditions,
}

/// Selects whether the tool conditions of a skill are applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolConditions {
    /// Applies them; the prompt lists only skills whose tools the model has.
    #[default]
    Apply,
    /// Ignores them; a user who calls a skill by name wants it in any case.
    Ignore,
}

impl SkillFilter {
    /// Builds a filter with the skills that the configuration disables on this platform.
    pub fn from_config(config: &Config, platform: &str) -> Self {
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

    /// Returns this filter without tool conditions.
    #[must_use]
    pub fn ignoring_conditions(self) -> Self {
        Self { conditions: ToolConditions::Ignore, ..self }
    }
}

/// The skills that were found. A skill of the home takes precedence over one of the same name in an external
/// folder.
#[derive(Debug, Clone, Default)]
pub struct SkillSet {
    skills: Vec<Skill>,
    categories: BTreeMap<String, String>,
}

impl SkillSet {
    /// Loads the skills of the home and of the external folders. Unreadable files and folders are left out.
    pub fn load(home: &Home, config: &Config, env: &Env, filter: &SkillFilter) -> Self {
        let mut set = Self::default();
        set.add(&home.join("skills"), filter);
        for folder in config.list("skills.external_dirs") {
            if let Ok(folder) = expand_tilde(&folder, env) {
                set.add(&folder, filter);
            }
        }
        set.skills.sort_by(|a, b| (&a.category, &a.name).cmp(&(&b.category, &b.name)));
        set
    }

    pub fn skills(&self) -> &[Skill] {
        &self.skills
    }

    /// Renders the skills layer of the prompt. Returns `None` if there are no skills.
    pub fn index(&self) -> Option<String> {
        if self.skills.is_empty() {
            return None;
        }
        // Writing to a `String` cannot fail.
        let mut list = String::new();
        let mut category = None;
        for skill in &self.skills {
            if category != Some(&skill.category) {
                category = Some(&skill.category);
                let about = self.categories.get(&skill.category).map(|text| format!(" {text}"));
                let _ = writeln!(list, "  {}:{}", skill.category, about.unwrap_or_default());
            }
            let about = match skill.description.as_str() {
                "" => String::new(),
                text => format!(": {}", shortened(text)),
            };
            let _ = writeln!(list, "    - {}{about}", skill.name);
        }
        let header = include_str!("texts/skills.md").trim();
        Some(format!("{header}\n\n<available_skills>\n{list}</available_skills>"))
    }

    fn add(&mut self, root: &Path, filter: &SkillFilter) {
        let mut waiting = vec![(root.to_owned(), Vec::<String>::new())];
        while let Some((folder, path)) = waiting.pop() {
            let file = folder.join("SKILL.md");
            if !path.is_empty() && file.is_file() {
                self.add_skill(&folder, &file, &path, filter);
                continue;
            }
            if let Some(about) =
                beginning(&folder.join("DESCRIPTION.md")).and_then(|text| front_matter(&text))
            {
                let text = about.get("description").and_then(YamlValue::scalar_text).unwrap_or_default();
                if !text.is_empty() {
                    self.categories.entry(path.join("/")).or_insert(text);
                }
            }
            if path.len() >= MOST_DEPTH {
                continue;
            }
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.path().is_dir()) {
                if let Ok(name) = entry.file_name().into_string()
                    && !SKIPPED.contains(&name.as_str())
                {
                    let mut below = path.clone();
                    below.push(name);
                    waiting.push((entry.path(), below));
                }
            }
        }
    }

    fn add_skill(&mut self, folder: &Path, file: &Path, path: &[String], filter: &SkillFilter) {
        let Some((name, above)) = path.split_last() else { return };
        let head = beginning(file).and_then(|text| front_matter(&text)).unwrap_or_default();
        if self.skills.iter().any(|known| known.name == *name) || !is_shown(name, &head, filter) {
            return;
        }
        let category = if above.is_empty() { name.clone() } else { above.join("/") };
        let description = head.get("description").and_then(YamlValue::scalar_text).unwrap_or_default();
        let own_name =
            head.get("name").and_then(YamlValue::scalar_text).filter(|name| !name.trim().is_empty());
        let command = command_name(own_name.as_deref().unwrap_or(name));
        let folder = folder.to_owned();
        self.skills.push(Skill { name: name.clone(), category, description, folder, command });
    }
}

fn is_shown(name: &str, head: &YamlValue, filter: &SkillFilter) -> bool {
    let own_name = head.get("name").and_then(YamlValue::scalar_text);
    if filter.disabled.contains(name) || own_name.is_some_and(|own| filter.disabled.contains(&own)) {
        return false;
    }
    let systems = list(head, "platforms");
    if !systems.is_empty() && !systems.iter().any(|system| system.eq_ignore_ascii_case(&filter.system)) {
        return false;
    }
    if filter.conditions == ToolConditions::Ignore {
        return true;
    }
    let has = |names: &[String], there: &BTreeSet<String>| names.iter().any(|name| there.contains(name));
    let lacks = |names: &[String], there: &BTreeSet<String>| names.iter().any(|name| !there.contains(name));
    !has(&condition(head, "fallback_for_toolsets"), &filter.toolsets)
        && !has(&condition(head, "fallback_for_tools"), &filter.tools)
        && !lacks(&condition(head, "requires_toolsets"), &filter.toolsets)
        && !lacks(&condition(head, "requires_tools"), &filter.tools)
}

/// Returns a condition, read from `metadata.hermes` or, in hand-written files, from the top level.
fn condition(head: &YamlValue, key: &str) -> Vec<String> {
    match head.get("metadata").and_then(|metadata| metadata.get("hermes")) {
        Some(own) if own.get(key).is_some() => list(own, key),
        _ => list(head, key),
    }
}

fn list(value: &YamlValue, key: &str) -> Vec<String> {
    match value.get(key) {
        Some(YamlValue::Seq(items)) => items.iter().filter_map(YamlValue::scalar_text).collect(),
        Some(YamlValue::Null) | None => Vec::new(),
        Some(other) => other
            .scalar_text()
            .map(|text| text.split(',').map(|part| part.trim().to_owned()).collect())
            .unwrap_or_default(),
    }
}

fn beginning(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    // A character takes at most four bytes.
    File::open(path).ok()?.take(4 * MOST_CHARS as u64).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(head(&text, MOST_CHARS).to_owned())
}

fn front_matter(text: &str) -> Option<YamlValue> {
    let rest = text.strip_prefix('\u{feff}').unwrap_or(text).strip_prefix("---")?;
    let (block, _) = rest.split_once("\n---")?;
    yaml::parse(block).ok().filter(|value| value.as_map().is_some())
}

fn shortened(text: &str) -> String {
    let text = hermes_text::single_line(text);
    if text.chars().count() <= MOST_DESCRIPTION {
        return text;
    }
    format!("{}...", head(&text, MOST_DESCRIPTION - 3))
}
