//! Bundles: several skills under one command, in `skill-bundles/NAME.yaml` of the home.

use std::fs;
use std::path::PathBuf;

use hermes_config::yaml::{self, YamlMap, YamlValue};
use hermes_config::{Home, write};

use crate::invocation::command_name;
use crate::skills::SkillSet;

const FOLDER: &str = "skill-bundles";

/// Several skills that are called together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SkillGroup {
    pub name: String,
    pub description: String,
    pub skills: Vec<String>,
    /// What the model is told besides.
    pub instruction: String,
}

impl SkillGroup {
    /// Reads all bundles of a home, sorted by name. Unreadable ones are left out with a log entry.
    pub fn all(home: &Home) -> Vec<Self> {
        let entries = fs::read_dir(home.join(FOLDER)).into_iter().flatten().flatten();
        let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        let mut groups: Vec<Self> =
            entries.map(|entry| entry.path()).filter(is_yaml).filter_map(|path| Self::read(&path)).collect();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        groups
    }

    fn read(path: &std::path::Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let data = match yaml::parse(&text) {
            Ok(data) => data,
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "this bundle cannot be read; it is left out");
                return None;
            }
        };
        let field = |key: &str| data.get(key).and_then(YamlValue::scalar_text).unwrap_or_default();
        let usual = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let skills = data.get("skills").and_then(YamlValue::as_seq).unwrap_or_default();
        let name = Some(field("name")).filter(|name| !name.is_empty()).unwrap_or(usual);
        Some(Self {
            name: command_name(&name),
            description: field("description"),
            skills: skills.iter().filter_map(YamlValue::scalar_text).collect(),
            instruction: field("instruction"),
        })
        .filter(|group| !group.name.is_empty() && !group.skills.is_empty())
    }

    /// Finds a bundle by its name.
    pub fn find(home: &Home, name: &str) -> Option<Self> {
        let name = command_name(name);
        Self::all(home).into_iter().find(|group| group.name == name)
    }

    /// Writes the bundle, and returns its file.
    pub fn save(&self, home: &Home) -> Result<PathBuf, hermes_config::Error> {
        let mut data = YamlMap::new();
        data.insert("name", YamlValue::Str(self.name.clone()));
        data.insert("description", YamlValue::Str(self.description.clone()));
        data.insert("skills", YamlValue::Seq(self.skills.iter().cloned().map(YamlValue::Str).collect()));
        if !self.instruction.is_empty() {
            data.insert("instruction", YamlValue::Str(self.instruction.clone()));
        }
        let file = home.folder(FOLDER)?.join(format!("{}.yaml", self.name));
        write::replace(&file, yaml::emit_block(&YamlValue::Map(data)).as_bytes())?;
        Ok(file)
    }

    /// Removes the file of a bundle. Returns false if there is none.
    pub fn remove(home: &Home, name: &str) -> std::io::Result<bool> {
        let name = command_name(name);
        for entry in fs::read_dir(home.join(FOLDER)).into_iter().flatten().flatten() {
            if Self::read(&entry.path()).is_some_and(|group| group.name == name) {
                fs::remove_file(entry.path())?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Renders the bundle for the model. Skills that do not exist are named.
    pub fn invoke(&self, skills: &SkillSet, request: &str) -> String {
        let mut parts = vec![format!(
            "[SYSTEM: The user has invoked the bundle \"{}\", which stands for these skills: {}. Their instructions \
             follow; carry them out together.]",
            self.name,
            self.skills.join(", ")
        )];
        if !self.instruction.is_empty() {
            parts.push(self.instruction.clone());
        }
        for name in &self.skills {
            let missing = || format!("[The skill \"{name}\" of this bundle is not there.]");
            parts.push(skills.invoke(name, "", None).unwrap_or_else(missing));
        }
        if !request.trim().is_empty() {
            parts.push(format!("The user said with it: {}", request.trim()));
        }
        parts.join("\n\n")
    }
}
