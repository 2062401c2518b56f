//! The skills of a home and of external folders: where they are, what they are called and who sees them.
//!
//! A skill is a folder with a `SKILL.md`; the folders above it are its category. This module does not write or
//! install skills; `invocation` renders a skill that is called by its name, `view` loads one for the model. A
//! skill whose front matter cannot be parsed is listed without a description.

mod cache;
mod filter;
pub(crate) mod front_matter;
pub(crate) mod rendering;
pub(crate) mod requirements;
pub(crate) mod store;
pub(crate) mod view;
pub(crate) mod walk;

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hermes_config::yaml::YamlValue;
use hermes_config::{Config, Env, Home};
use hermes_text::head;

use crate::invocation::command_name;
pub use filter::{SkillFilter, SkillStatus, SkillUse};
pub use rendering::{SkillSetting, fill_in_outputs};
pub use requirements::RequiredVariable;
pub use view::{SkillFile, SkillFileError, SkillView};
use walk::FolderRecord;

/// The most characters that are read from one file of a skill.
pub(crate) const MAX_SKILL_CHARS: usize = 100_000;
const MAX_NAME: usize = 64;
const MAX_INDEX_DESCRIPTION: usize = 60;
/// The most characters of the list in the prompt.
const MAX_INDEX: usize = 40_000;
const MAX_DESCRIPTION: usize = 1_024;
/// The category of a `SKILL.md` that lies in a root itself.
const ROOT_CATEGORY: &str = "general";

/// A skill that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name of the folder.
    pub name: String,
    /// The name in the front matter, otherwise that of the folder.
    pub own_name: String,
    /// The folders above the skill, joined by `/`; its own name if there are none.
    pub category: String,
    /// The first of the folders above the skill.
    pub list_category: Option<String>,
    /// The description in the front matter, or an empty text.
    pub description: String,
    /// The first line of the body that is not a heading.
    pub first_line: Option<String>,
    pub folder: PathBuf,
    /// The path of the folder below its root, with `/`.
    pub path: String,
    /// The command that invokes the skill, without the `/`.
    pub command: String,
    pub status: SkillStatus,
}

impl Skill {
    /// Returns the description for a list: that of the front matter, otherwise the first line of the text.
    pub fn list_description(&self) -> String {
        let text = match self.description.as_str() {
            "" => self.first_line.clone().unwrap_or_default(),
            text => text.to_owned(),
        };
        shortened(text.trim(), MAX_DESCRIPTION)
    }
}

/// Says what the list in the prompt tells of each skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexDetail {
    Descriptions,
    Names,
    /// Only how many there are in each category.
    Counts,
}

impl IndexDetail {
    const ALL: [Self; 3] = [Self::Descriptions, Self::Names, Self::Counts];
}

/// The skills that were found. A skill of the home takes precedence over one of the same name in an external
/// folder.
#[derive(Debug, Clone, Default)]
pub struct SkillSet {
    skills: Vec<Skill>,
    categories: BTreeMap<String, String>,
    roots: Vec<PathBuf>,
    filter: SkillFilter,
    pub(crate) rendering: rendering::SkillRendering,
}

impl SkillSet {
    /// Loads the skills of the home and of the external folders. Unreadable files and folders are left out.
    pub fn load(home: &Home, config: &Config, env: &Env, filter: &SkillFilter) -> Self {
        let roots = walk::roots(home, config, env);
        let rendering = rendering::SkillRendering::from_config(config);
        let mut set = Self { roots, filter: filter.clone(), rendering, ..Self::default() };
        let mut names = HashSet::new();
        let found = cache::index(home, &set.roots);
        for (root, records) in set.roots.clone().iter().zip(found) {
            for record in records {
                set.add(root, record, &mut names);
            }
        }
        set.skills.sort_by(|a, b| (&a.category, &a.name).cmp(&(&b.category, &b.name)));
        set
    }

    /// Returns the skills that the filter offers, by category and name.
    pub fn skills(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().filter(|skill| skill.status == SkillStatus::Offered)
    }

    /// Returns all skills that were found, offered or not.
    pub fn all(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter()
    }

    /// Finds a skill, offered or not, by the path or the name of its folder, or by its own name.
    pub fn find(&self, called: &str) -> Option<&Skill> {
        let visible = || self.skills.iter().filter(|skill| skill.status != SkillStatus::Shadowed);
        let by_path = self.skills.iter().find(|skill| !skill.path.is_empty() && skill.path == called);
        by_path
            .or_else(|| visible().find(|skill| skill.name == called))
            .or_else(|| visible().find(|skill| skill.own_name == called))
    }

    /// Renders the skills layer of the prompt. Returns `None` if there are no skills. Where they are too many for the
    /// prompt, it has only their names, or only the categories.
    pub fn index(&self) -> Option<String> {
        self.skills().next()?;
        let list = IndexDetail::ALL.into_iter().map(|detail| self.listing(detail));
        // The last one is cut where it is too long, too.
        let list =
            list.enumerate().find(|(at, list)| list.len() <= MAX_INDEX || at + 1 == IndexDetail::ALL.len());
        let (_, list) = list?;
        let header = include_str!("../texts/skills.md").trim();
        Some(format!("{header}\n\n<available_skills>\n{}</available_skills>", head(&list, MAX_INDEX)))
    }

    /// Lists the skills; ends soon after the list has become too long for the prompt.
    fn listing(&self, detail: IndexDetail) -> String {
        let mut categories: Vec<(&str, Vec<&Skill>)> = Vec::new();
        for skill in self.skills() {
            match categories.last_mut().filter(|(name, _)| *name == skill.category) {
                Some((_, skills)) => skills.push(skill),
                None => categories.push((&skill.category, vec![skill])),
            }
        }
        // Writing to a `String` cannot fail.
        let mut list = match detail {
            IndexDetail::Descriptions => String::new(),
            IndexDetail::Names => {
                "  (There are too many skills to describe here; skills_list(category) shows what they do.)\n"
                    .to_owned()
            }
            IndexDetail::Counts => {
                "  (There are too many skills to name here; skills_list(category) lists them.)\n".to_owned()
            }
        };
        for (category, skills) in categories {
            if list.len() > MAX_INDEX {
                break;
            }
            let about = self.categories.get(category).map(|text| format!(" {text}")).unwrap_or_default();
            if detail == IndexDetail::Counts {
                let _ = writeln!(list, "  {category}: {} skills{about}", skills.len());
                continue;
            }
            let _ = writeln!(list, "  {category}:{about}");
            if detail == IndexDetail::Names {
                let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
                let _ = writeln!(list, "    {}", names.join(", "));
                continue;
            }
            for skill in skills {
                let about = match skill.description.as_str() {
                    "" => String::new(),
                    text => {
                        format!(": {}", shortened(&hermes_text::single_line(text), MAX_INDEX_DESCRIPTION))
                    }
                };
                let _ = writeln!(list, "    - {}{about}", skill.name);
            }
        }
        list
    }

    /// Adds what a walk found. `names` has the folder names that were found before.
    fn add(&mut self, root: &Path, record: FolderRecord, names: &mut HashSet<String>) {
        if let Some(text) = record.about.and_then(|about| about.text) {
            self.categories.entry(record.path.clone()).or_insert(text);
        }
        let Some(found) = record.skill.filter(|skill| skill.readable) else { return };
        // A list reads only the beginning of each file: longer front matter counts as none.
        let is_whole = found.header_chars <= self.filter.usage.chars();
        let found = if is_whole { found } else { found.without_front_matter() };
        let folder = if record.path.is_empty() { root.to_owned() } else { root.join(&record.path) };
        let path = walk::components(&record.path);
        let folder_name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let (name, category) = match path.split_last() {
            None => (folder_name.unwrap_or_default(), ROOT_CATEGORY.to_owned()),
            Some((name, [])) => (name.clone(), name.clone()),
            Some((name, above)) => (name.clone(), above.join("/")),
        };
        let own_name = found.own_name.map_or_else(|| name.clone(), |own| own.trim().to_owned());
        let own_name = head(&own_name, MAX_NAME).to_owned();
        let shadowed = !names.insert(name.clone());
        // What may not be loaded stays so under its path, too.
        let status = match self.filter.status(&name, &own_name, &found.conditions) {
            refused @ (SkillStatus::Disabled | SkillStatus::Unsupported) => refused,
            SkillStatus::Offered | SkillStatus::Inapplicable | SkillStatus::Shadowed if shadowed => {
                SkillStatus::Shadowed
            }
            other => other,
        };
        self.skills.push(Skill {
            status,
            list_category: path.first().filter(|_| path.len() > 1).cloned(),
            description: found.description.unwrap_or_default(),
            first_line: found.first_line,
            folder,
            path: record.path,
            command: command_name(&own_name),
            name,
            own_name,
            category,
        });
    }
}

/// Returns `metadata.hermes`.
pub(crate) fn hermes_data(data: &YamlValue) -> Option<&YamlValue> {
    data.get("metadata").and_then(|metadata| metadata.get("hermes"))
}

fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    format!("{}...", head(text, chars - 3))
}
