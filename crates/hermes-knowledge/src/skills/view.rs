//! Loads one skill, or one of its files.
//!
//! Invariant: a file is read only if it is inside the skill's folder after all links are resolved, and never
//! beyond a limit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hermes_config::Home;
use hermes_config::yaml::YamlValue;
use hermes_guard::{TextOrigin, find_injections};

use super::filter::SkillConditions;
use super::front_matter::{SkillDocument, bounded_text, list, scalar};
use super::rendering::{SkillRendering, SkillSetting};
use super::requirements::{RequiredVariable, credential_files, stays_inside, variables};
use super::walk::SUPPORT_FOLDERS;
use super::{MAX_SKILL_CHARS, Skill, SkillSet, hermes_data};

const MAX_LISTED: usize = 200;
const MAX_LISTED_DEPTH: usize = 4;

/// A skill as the model reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillView {
    /// The whole text, front matter included.
    pub content: String,
    /// Whether the text was longer than what is read.
    pub truncated: bool,
    pub tags: Vec<String>,
    pub related_skills: Vec<String>,
    /// The skill's own files by folder.
    pub linked_files: BTreeMap<&'static str, Vec<String>>,
    pub variables: Vec<RequiredVariable>,
    /// The required files of the home that are there.
    pub credential_files: Vec<String>,
    pub missing_credential_files: Vec<String>,
    /// The settings the skill asks for.
    pub settings: Vec<SkillSetting>,
    /// The commands in its text that are to be run before it is shown.
    pub commands: Vec<String>,
    pub setup_help: Option<String>,
    pub compatibility: Option<String>,
    pub metadata: Option<serde_json::Value>,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillFile {
    Text { content: String, truncated: bool },
    Binary { bytes: u64 },
}

/// The reason why a file of a skill is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SkillFileError {
    #[error("Path traversal ('..') is not allowed.")]
    Traversal,
    #[error("Path escapes skill directory boundary.")]
    Outside,
    #[error("File not found in the skill.")]
    Missing,
}

impl SkillSet {
    /// Loads a skill of this set. Returns `None` if its text cannot be read.
    pub fn view(&self, skill: &Skill, home: &Home, session: Option<&str>) -> Option<SkillView> {
        skill.view(home, &self.rendering, session)
    }
}

impl Skill {
    /// Loads the skill. Returns `None` if its text cannot be read.
    pub(crate) fn view(
        &self,
        home: &Home,
        rendering: &SkillRendering,
        session: Option<&str>,
    ) -> Option<SkillView> {
        let file = if self.folder.is_dir() { self.folder.join("SKILL.md") } else { self.folder.clone() };
        // One character more than is shown tells whether anything is missing.
        let mut content = bounded_text(&file, MAX_SKILL_CHARS + 1)?;
        let truncated = cut(&mut content);
        let document = SkillDocument::parse(&content);
        let found = find_injections(&content, TextOrigin::ContextFile);
        if !found.is_empty() {
            let ids = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            tracing::warn!(skill = self.name, findings = ids, "a skill contains suspicious text");
        }
        let data = &document.data;
        let listing = |key: &str| {
            let nested = hermes_data(data).map(|own| list(own, key)).unwrap_or_default();
            if nested.is_empty() { list(data, key) } else { nested }
        };
        let (credential_files, missing_credential_files) =
            credential_files(data).into_iter().partition(|path| home.join(path).is_file());
        let content = rendering.fill(&content, &self.folder, session);
        Some(SkillView {
            truncated,
            tags: listing("tags"),
            related_skills: listing("related_skills"),
            linked_files: self.linked_files(),
            variables: variables(data),
            credential_files,
            missing_credential_files,
            settings: rendering.settings(data),
            commands: rendering.commands(&content),
            setup_help: data.get("setup").and_then(|setup| scalar(setup, "help")),
            compatibility: document.text("compatibility"),
            metadata: data.get("metadata").filter(|value| !value.is_null()).map(YamlValue::to_json),
            content,
        })
    }

    /// Reads one file of the skill by its path below the folder.
    pub fn read_file(&self, path: &str) -> Result<SkillFile, SkillFileError> {
        if path.split(['/', '\\']).any(|part| part == "..") {
            return Err(SkillFileError::Traversal);
        }
        if !stays_inside(path) {
            return Err(SkillFileError::Outside);
        }
        let root = self.folder.canonicalize().map_err(|_| SkillFileError::Missing)?;
        let real = root.join(path).canonicalize().map_err(|_| SkillFileError::Missing)?;
        if !real.starts_with(&root) || !root.is_dir() {
            return Err(SkillFileError::Outside);
        }
        let bytes = real.metadata().map_err(|_| SkillFileError::Missing)?.len();
        let mut content = bounded_text(&real, MAX_SKILL_CHARS + 1).ok_or(SkillFileError::Missing)?;
        if content.contains('\0') || content.contains(char::REPLACEMENT_CHARACTER) {
            return Ok(SkillFile::Binary { bytes });
        }
        let truncated = cut(&mut content);
        Ok(SkillFile::Text { content, truncated })
    }

    /// Lists all files of the skill except its text, by folder; files elsewhere are under `other`.
    pub fn files(&self) -> BTreeMap<&'static str, Vec<String>> {
        let mut groups: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for path in files_below(&self.folder) {
            let first = path.split_once('/').map_or("", |(first, _)| first);
            let group = SUPPORT_FOLDERS.iter().find(|name| **name == first).copied().unwrap_or("other");
            groups.entry(group).or_default().push(path);
        }
        groups
    }

    fn linked_files(&self) -> BTreeMap<&'static str, Vec<String>> {
        let mut groups = self.files();
        groups.remove("other");
        for (group, files) in &mut groups {
            files.retain(|path| is_linked(group, path));
        }
        groups.retain(|_, files| !files.is_empty());
        groups
    }
}

impl SkillSet {
    /// Finds a file `{name}.md` directly in a root: the form that older homes have.
    pub fn find_flat(&self, name: &str) -> Option<Skill> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) || name == "DESCRIPTION" {
            return None;
        }
        let file_name = format!("{name}.md");
        let file = self.roots.iter().map(|root| root.join(&file_name)).find(|file| file.is_file())?;
        let document = SkillDocument::read(&file, MAX_SKILL_CHARS)?;
        let own_name = document.text("name").unwrap_or_else(|| name.to_owned());
        Some(Skill {
            name: name.to_owned(),
            category: name.to_owned(),
            list_category: None,
            description: document.text("description").unwrap_or_default(),
            first_line: document.first_line(),
            path: file_name,
            command: String::new(),
            status: self.filter.status(name, &own_name, &SkillConditions::of(&document.data)),
            own_name,
            folder: file,
        })
    }
}

/// Cuts a text to the limit and tells whether it was longer.
fn cut(content: &mut String) -> bool {
    let kept = hermes_text::head(content, MAX_SKILL_CHARS).len();
    let truncated = kept < content.len();
    content.truncate(kept);
    truncated
}

fn is_linked(group: &str, path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|end| end.to_str()).unwrap_or_default();
    let is_direct = path.matches('/').count() == 1;
    match group {
        "references" => is_direct && extension == "md",
        "templates" => ["md", "py", "yaml", "yml", "json", "tex", "sh"].contains(&extension),
        "scripts" => is_direct && ["py", "sh", "bash", "js", "ts", "rb"].contains(&extension),
        _ => true,
    }
}

/// Lists the regular files below a folder, by their paths with `/`. Links, hidden files and the folders of other
/// skills are left out.
fn files_below(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut open: Vec<(PathBuf, String, usize)> = vec![(folder.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = open.pop() {
        let mut entries: Vec<_> = fs::read_dir(&folder).into_iter().flatten().flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
            let path = format!("{prefix}{name}");
            let is_own_text = depth == 0 && (name == "SKILL.md" || name == "DESCRIPTION.md");
            if name.starts_with('.') || is_own_text {
                continue;
            }
            if kind.is_file() && files.len() < MAX_LISTED {
                files.push(path);
            } else if kind.is_dir() && depth < MAX_LISTED_DEPTH && !entry.path().join("SKILL.md").is_file() {
                open.push((entry.path(), format!("{path}/"), depth + 1));
            }
        }
    }
    files.sort();
    files
}
