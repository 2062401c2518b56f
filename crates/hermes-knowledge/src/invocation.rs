//! Renders the message that the model reads when a skill is called by name.
//!
//! The text of the skill is included unchanged; the other files in its folder are listed, not read.

use std::fs;
use std::path::Path;

use crate::skills::{Skill, SkillSet};

/// The built-in plan skill, used if the user has no skill of that name.
pub const PLAN: &str = include_str!("texts/plan.md");
const MOST_FILES: usize = 50;
/// The most characters of a first line that describe a command.
const MOST_LINE: usize = 80;

/// Skills that are in force for a whole session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreloadedSkills {
    pub names: Vec<String>,
    /// The texts for the model.
    pub texts: Vec<String>,
}

impl SkillSet {
    /// Renders a skill for the model. `called` is its command, its name or its folder; `note` is a remark of
    /// the program about this call.
    pub fn invoke(&self, called: &str, request: &str, note: Option<&str>) -> Option<String> {
        let command = command_name(called);
        let by_command = || self.skills().find(|skill| skill.command == command);
        let skill = self.skills().find(|skill| skill.name == called).or_else(by_command)?;
        let text = fs::read_to_string(skill.folder.join("SKILL.md")).ok()?;
        Some(invocation_text(&invoked(&skill.name), &text, &files_of(skill), request, note))
    }

    /// Renders skills for a whole session. Each is named by its path or its name, also with a leading slash. Returns the
    /// names that no skill has, if there are any.
    pub fn preload(&self, identifiers: &[String]) -> Result<PreloadedSkills, Vec<String>> {
        let mut loaded = PreloadedSkills::default();
        let mut unknown = Vec::new();
        for identifier in identifiers.iter().map(|identifier| identifier.trim()) {
            let skill = self.find(identifier.trim_start_matches('/')).or_else(|| self.in_folder(identifier));
            let text = skill
                .and_then(|skill| Some((skill, fs::read_to_string(skill.folder.join("SKILL.md")).ok()?)));
            match text {
                None if identifier.is_empty() => {}
                None => unknown.push(identifier.to_owned()),
                Some((skill, _)) if loaded.names.contains(&skill.name) => {}
                Some((skill, text)) => {
                    let lead = format!(
                        "[SYSTEM: The user launched this CLI session with the \"{}\" skill preloaded. Its instructions \
                         hold for the whole session.]",
                        skill.name
                    );
                    loaded.texts.push(invocation_text(&lead, &text, &files_of(skill), "", None));
                    loaded.names.push(skill.name.clone());
                }
            }
        }
        if unknown.is_empty() { Ok(loaded) } else { Err(unknown) }
    }

    /// Finds a skill by the absolute path of its folder.
    fn in_folder(&self, path: &str) -> Option<&Skill> {
        self.all().find(|skill| skill.folder == Path::new(path))
    }

    /// Lists the commands that invoke skills, with a description of each.
    pub fn commands(&self) -> Vec<(String, String)> {
        let about = |skill: &Skill| match (skill.description.as_str(), &skill.first_line) {
            ("", Some(line)) => hermes_text::head(line, MOST_LINE).to_owned(),
            ("", None) => format!("Invoke the {} skill", skill.name),
            (text, _) => hermes_text::single_line(text),
        };
        let mut commands: Vec<_> = self
            .skills()
            .filter(|skill| !skill.command.is_empty())
            .map(|skill| (skill.command.clone(), about(skill)))
            .collect();
        commands.sort();
        commands
    }
}

/// Renders a skill text that does not come from a file of the user.
pub fn invoke_text(name: &str, text: &str, request: &str, note: Option<&str>) -> String {
    invocation_text(&invoked(name), text, &[], request, note)
}

fn invoked(name: &str) -> String {
    format!("[SYSTEM: The user has invoked the \"{name}\" skill. Its instructions follow; carry them out.]")
}

fn invocation_text(lead: &str, text: &str, files: &[String], request: &str, note: Option<&str>) -> String {
    let mut parts = vec![lead.to_owned(), text.trim().to_owned()];
    if !files.is_empty() {
        let list: Vec<String> = files.iter().map(|file| format!("- {file}")).collect();
        parts.push(format!("[Files that belong to this skill; read_file shows them:]\n{}", list.join("\n")));
    }
    if !request.trim().is_empty() {
        parts.push(format!("The user said with it: {}", request.trim()));
    }
    parts.extend(note.map(|note| format!("[Runtime note: {note}]")));
    parts.join("\n\n")
}

/// Converts a name to the command a user types.
pub(crate) fn command_name(name: &str) -> String {
    let lower = name.trim().trim_start_matches('/').to_lowercase();
    let mut command = String::new();
    for c in lower.chars().map(|c| if c == ' ' || c == '_' { '-' } else { c }) {
        if c.is_ascii_alphanumeric() || (c == '-' && !command.ends_with('-')) {
            command.push(c);
        }
    }
    command.trim_matches('-').to_owned()
}

/// Lists the absolute paths of the files in the skill's folder, except `SKILL.md` and hidden files.
fn files_of(skill: &Skill) -> Vec<String> {
    let mut files = Vec::new();
    let mut open = vec![skill.folder.clone()];
    while let Some(folder) = open.pop() {
        let mut entries: Vec<_> = fs::read_dir(&folder).into_iter().flatten().flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let Ok(kind) = entry.file_type() else { continue };
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() && !is_itself(&entry.path(), &skill.folder) {
                files.push(entry.path().to_string_lossy().into_owned());
            }
        }
        if files.len() > MOST_FILES {
            files.truncate(MOST_FILES);
            break;
        }
    }
    files.sort();
    files
}

fn is_itself(path: &Path, folder: &Path) -> bool {
    path == folder.join("SKILL.md")
}
