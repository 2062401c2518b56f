//! Renders the message that the model reads when a skill is called by name.
//!
//! The text of the skill is included unchanged; the other files in its folder are listed, not read.

use std::fs;
use std::path::Path;

use crate::skills::front_matter::{SkillDocument, bounded_text};
use crate::skills::requirements::{credential_files, variables};
use crate::skills::{MAX_SKILL_CHARS, Skill, SkillSet};

/// The built-in plan skill, used if the user has no skill of that name.
pub const PLAN: &str = include_str!("texts/plan.md");
/// Asks the model to keep what was worked out as a skill.
pub const LEARN: &str = include_str!("texts/learn.md");
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
        let text = self.text_of(skill)?;
        let notes = self.notes(skill, &text);
        Some(invocation_text(&invoked(&skill.name), &text, &notes, request, note))
    }

    /// Renders skills for a whole session. Each is named by its path or its name, also with a leading slash. Returns the
    /// names that no skill has, if there are any.
    pub fn preload(&self, identifiers: &[String]) -> Result<PreloadedSkills, Vec<String>> {
        let mut loaded = PreloadedSkills::default();
        let mut unknown = Vec::new();
        for identifier in identifiers.iter().map(|identifier| identifier.trim()) {
            let skill = self.find(identifier.trim_start_matches('/')).or_else(|| self.in_folder(identifier));
            let text = skill.and_then(|skill| Some((skill, self.text_of(skill)?)));
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
                    let notes = self.notes(skill, &text);
                    loaded.texts.push(invocation_text(&lead, &text, &notes, "", None));
                    loaded.names.push(skill.name.clone());
                }
            }
        }
        if unknown.is_empty() { Ok(loaded) } else { Err(unknown) }
    }

    /// Returns the text of a skill, filled in and bounded.
    fn text_of(&self, skill: &Skill) -> Option<String> {
        let text = bounded_text(&skill.folder.join("SKILL.md"), MAX_SKILL_CHARS)?;
        Some(self.rendering.fill(&text, &skill.folder, None))
    }

    /// Returns what the model is told about a skill beside its text: its settings, what has to be done before, its files.
    fn notes(&self, skill: &Skill, text: &str) -> Vec<String> {
        let document = SkillDocument::parse(text);
        let mut notes = Vec::new();
        let settings = self.rendering.settings(&document.data);
        if !settings.is_empty() {
            let list: Vec<String> =
                settings.iter().map(|setting| format!("- {}: {}", setting.key, setting.value)).collect();
            notes.push(format!("[Settings of the user for this skill:]\n{}", list.join("\n")));
        }
        let needs_set_up = !variables(&document.data).is_empty()
            || !credential_files(&document.data).is_empty()
            || !self.rendering.commands(text).is_empty();
        if needs_set_up {
            notes.push(format!(
                "[Skill setup note: call skill_view(name=\"{}\") before you begin. It makes the variables and files that \
                 this skill needs available to your commands, names missing ones, and runs the commands in its text.]",
                skill.name
            ));
        }
        let files = files_of(skill);
        if !files.is_empty() {
            let list: Vec<String> = files.iter().map(|file| format!("- {file}")).collect();
            notes.push(format!(
                "[Files that belong to this skill:]\n{}\n\nTo read one: skill_view(name=\"{}\", file_path=\"<path>\")",
                list.join("\n"),
                skill.name
            ));
        }
        notes
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

fn invocation_text(lead: &str, text: &str, notes: &[String], request: &str, note: Option<&str>) -> String {
    let mut parts = vec![lead.to_owned(), text.trim().to_owned()];
    parts.extend(notes.iter().cloned());
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

/// Lists the paths below the skill's folder of the files in it, except `SKILL.md` and hidden files.
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
                let path = entry.path();
                let path = path.strip_prefix(&skill.folder).unwrap_or(&path);
                files.push(path.to_string_lossy().into_owned());
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
