//! Changes to the agent's own skills: create, edit, patch, delete, and the files beside a skill's text.
//!
//! Only skills in the home's folder are changed. Invariants: a change is checked as a whole before anything is
//! written; nothing is written through a link; what was there before is kept in the history.

use std::fs;
use std::path::{Component, Path, PathBuf};

use hermes_config::yaml::{self, YamlValue};
use hermes_config::{Home, write};
use hermes_guard::{SkillFinding, SkillTrust, SkillVerdict, decide_installation};
use hermes_text::{FuzzyError, Occurrences, fuzzy_replace, head};
use hermes_types::Timestamp;

use super::history::{self, ChangedFile, SkillChange};
use super::inspect;
use super::tree::{self, StagedFolder, TreeFile};
use super::usage::{self, SkillUsageEvent};
use super::{SkillStoreError, data_folder, lock};
use crate::skills::front_matter::SkillDocument;
use crate::skills::walk::{self, SUPPORT_FOLDERS};
use crate::skills::{MAX_DESCRIPTION, MAX_NAME, MAX_SKILL_CHARS};

const MAX_FILE_BYTES: usize = 1_024 * 1_024;
const PREVIEW_CHARS: usize = 500;

/// A requested change to a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillEdit {
    Create { category: Option<String>, content: String },
    Replace { content: String },
    Patch { file: Option<String>, old: String, new: String, occurrences: Occurrences },
    Delete,
    WriteFile { path: String, content: String },
    RemoveFile { path: String },
}

impl SkillEdit {
    /// Returns the word for the change in the history.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::Replace { .. } => "edit",
            Self::Patch { .. } => "patch",
            Self::Delete => "delete",
            Self::WriteFile { .. } => "write_file",
            Self::RemoveFile { .. } => "remove_file",
        }
    }
}

/// Who changes a skill, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillAuthor {
    pub at: Timestamp,
    /// `agent`, or `user` for a command of a person.
    pub by: String,
    pub session: Option<String>,
}

/// Says what happens to a change that the scanner finds dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentSkillGuard {
    /// It is written, and a warning is logged.
    #[default]
    Warn,
    Refuse,
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedSkill {
    pub message: String,
    pub folder: PathBuf,
    /// The path of the folder below the skills folder.
    pub path: String,
    /// What the scanner says about the skill now.
    pub findings: Vec<SkillFinding>,
}

/// Changes the skills of a home.
#[derive(Debug, Clone)]
pub struct SkillEditor {
    home: Home,
    guard: AgentSkillGuard,
}

/// A change that was checked and can be written.
struct PlannedEdit {
    folder: PathBuf,
    path: String,
    message: String,
    /// The files that change: path below the folder, content before and after.
    changes: Vec<(String, Option<TreeFile>, Option<TreeFile>)>,
    /// The content of the whole folder after the change.
    after: Vec<TreeFile>,
}

impl SkillEditor {
    pub fn new(home: Home, guard: AgentSkillGuard) -> Self {
        Self { home, guard }
    }

    /// Makes a change, or returns why it was refused. Nothing is written unless the whole change is accepted.
    pub fn apply(
        &self,
        name: &str,
        edit: &SkillEdit,
        author: &SkillAuthor,
    ) -> Result<EditedSkill, SkillStoreError> {
        check_name(name)?;
        let _lock = lock(&self.home)?;
        let planned = self.plan(name, edit)?;
        let findings = self.judge(name, &planned)?;
        let change = SkillChange {
            at: history::iso_time(author.at),
            action: edit.action().to_owned(),
            by: author.by.clone(),
            session: author.session.clone(),
            path: planned.path.clone(),
            files: planned.changes.iter().map(ChangedFile::of).collect(),
        };
        history::record(&self.home, name, &change)?;
        self.write(&planned).map_err(SkillStoreError::io(&planned.folder))?;
        let event = match edit {
            SkillEdit::Create { .. } => SkillUsageEvent::Created { by: &author.by },
            SkillEdit::Delete => SkillUsageEvent::Deleted,
            _ => SkillUsageEvent::Patched,
        };
        usage::record(&self.home, name, event, author.at);
        let PlannedEdit { folder, path, message, .. } = planned;
        Ok(EditedSkill { message, folder, path, findings })
    }

    fn plan(&self, name: &str, edit: &SkillEdit) -> Result<PlannedEdit, SkillStoreError> {
        if let SkillEdit::Create { category, content } = edit {
            return self.plan_creation(name, category.as_deref(), content);
        }
        let folder = self.find(name)?;
        let before = tree::read(&folder).map_err(SkillStoreError::io(&folder))?;
        let path = self.path_of(&folder);
        let file = |path: &str| before.iter().find(|file| file.path == path).cloned();
        let text_file = |path: &str, content: &str, old: Option<&TreeFile>| TreeFile {
            path: path.to_owned(),
            bytes: content.as_bytes().to_vec(),
            executable: old.is_some_and(|old| old.executable),
        };
        let (changed, after, message) = match edit {
            SkillEdit::Create { .. } => (String::new(), None, String::new()),
            SkillEdit::Delete => {
                let changes =
                    before.iter().map(|file| (file.path.clone(), Some(file.clone()), None)).collect();
                let message = format!("Skill '{name}' removed. `hermes skills undo {name}` brings it back.");
                return Ok(PlannedEdit { folder, path, message, changes, after: Vec::new() });
            }
            SkillEdit::Replace { content } => {
                check_content(content)?;
                let old = file("SKILL.md");
                (
                    "SKILL.md".to_owned(),
                    Some(text_file("SKILL.md", content, old.as_ref())),
                    format!("Skill '{name}' updated."),
                )
            }
            SkillEdit::Patch { file: target, old, new, occurrences } => {
                let target = match target {
                    Some(path) => support_path(path)?,
                    None => "SKILL.md".to_owned(),
                };
                let found = file(&target).ok_or_else(|| missing_file(&target, &before))?;
                let content = String::from_utf8(found.bytes.clone())
                    .map_err(|_| SkillStoreError::Invalid(format!("{target} is not a text.")))?;
                let replaced =
                    fuzzy_replace(&content, old, new, *occurrences).map_err(|error| match error {
                        FuzzyError::NotFound => {
                            SkillStoreError::NoMatch { preview: head(&content, PREVIEW_CHARS).to_owned() }
                        }
                        FuzzyError::Ambiguous(count) => SkillStoreError::Ambiguous { count },
                        other => SkillStoreError::Invalid(other.to_string()),
                    })?;
                if target == "SKILL.md" {
                    check_content(&replaced.text)?;
                }
                check_size(&replaced.text)?;
                let times = if replaced.count == 1 {
                    "1 replacement".to_owned()
                } else {
                    format!("{} replacements", replaced.count)
                };
                let message = format!("Skill '{name}' patched: {target}, {times}.");
                let after = text_file(&target, &replaced.text, Some(&found));
                (target, Some(after), message)
            }
            SkillEdit::WriteFile { path, content } => {
                let path = support_path(path)?;
                check_size(content)?;
                let old = file(&path);
                let word = if old.is_some() { "replaced" } else { "added" };
                let message = format!("File {path} {word} in skill '{name}'.");
                let after = text_file(&path, content, old.as_ref());
                (path, Some(after), message)
            }
            SkillEdit::RemoveFile { path } => {
                let path = support_path(path)?;
                if file(&path).is_none() {
                    return Err(missing_file(&path, &before));
                }
                let message = format!("File {path} removed from skill '{name}'.");
                (path, None, message)
            }
        };
        refuse_links(&folder, &changed)?;
        let old = file(&changed);
        let mut whole: Vec<TreeFile> = before.into_iter().filter(|file| file.path != changed).collect();
        whole.extend(after.clone());
        Ok(PlannedEdit { folder, path, message, changes: vec![(changed, old, after)], after: whole })
    }

    fn plan_creation(
        &self,
        name: &str,
        category: Option<&str>,
        content: &str,
    ) -> Result<PlannedEdit, SkillStoreError> {
        let category = category.map(str::trim).filter(|category| !category.is_empty());
        if let Some(category) = category {
            check_component(category, "category")?;
        }
        check_content(content)?;
        let root = self.home.skills();
        let taken = walk::find(&root)
            .into_iter()
            .find(|found| found.has_skill && found.path.last().is_some_and(|last| last == name));
        if let Some(taken) = taken {
            return Err(SkillStoreError::Exists(format!(
                "A skill named '{name}' exists in {}. Change it with action patch or edit.",
                taken.path.join("/")
            )));
        }
        let path = category.map_or_else(|| name.to_owned(), |category| format!("{category}/{name}"));
        let folder = root.join(&path);
        refuse_links(&root, &path)?;
        if folder.symlink_metadata().is_ok() {
            return Err(SkillStoreError::Exists(format!("skills/{path} exists and is not a skill.")));
        }
        let file =
            TreeFile { path: "SKILL.md".to_owned(), bytes: content.as_bytes().to_vec(), executable: false };
        Ok(PlannedEdit {
            folder,
            message: format!("Skill '{name}' created."),
            path,
            changes: vec![("SKILL.md".to_owned(), None, Some(file.clone()))],
            after: vec![file],
        })
    }

    /// Scans the skill as it would be. A dangerous one is refused or reported.
    fn judge(&self, name: &str, planned: &PlannedEdit) -> Result<Vec<SkillFinding>, SkillStoreError> {
        let scan = inspect::scan_files(&planned.after);
        if scan.verdict == SkillVerdict::Dangerous {
            let trust = SkillTrust::AgentCreated;
            let decision = decide_installation(
                trust,
                scan.verdict,
                scan.findings.len(),
                hermes_guard::PolicyOverride::None,
            );
            let report = scan.report(name, trust.as_str(), trust, &decision);
            if self.guard == AgentSkillGuard::Refuse {
                return Err(SkillStoreError::Blocked { report });
            }
            tracing::warn!(skill = name, report, "the agent wrote a skill that the scanner finds dangerous");
        }
        Ok(scan.findings)
    }

    fn write(&self, planned: &PlannedEdit) -> std::io::Result<()> {
        let PlannedEdit { folder, changes, after, .. } = planned;
        if after.is_empty() {
            remove_folder(&self.home, folder)?;
        } else if !folder.exists() {
            let staged = StagedFolder::write(&self.home, after)?;
            tree::sync_all(&data_folder(&self.home))?;
            staged.place(folder)?;
        } else {
            for (path, _, after) in changes {
                write_file(folder, path, after.as_ref())?;
            }
        }
        if let Some(above) = folder.parent().filter(|_| after.is_empty()) {
            tree::remove_empty(above, &self.home.skills());
        }
        Ok(())
    }

    /// Finds the folder of a skill that may be changed.
    fn find(&self, name: &str) -> Result<PathBuf, SkillStoreError> {
        let root = self.home.skills();
        let found = walk::find(&root)
            .into_iter()
            .find(|found| found.has_skill && found.path.last().is_some_and(|last| last == name));
        let Some(found) = found else {
            return Err(SkillStoreError::NotFound(format!(
                "There is no skill '{name}' in the home's skills folder. Skills of external folders are read-only."
            )));
        };
        refuse_links(&root, &found.path.join("/"))?;
        Ok(found.folder)
    }

    fn path_of(&self, folder: &Path) -> String {
        let path = folder.strip_prefix(self.home.skills()).unwrap_or(folder);
        path.to_string_lossy().into_owned()
    }
}

/// Writes or removes one file of a skill.
pub(super) fn write_file(folder: &Path, path: &str, after: Option<&TreeFile>) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let target = folder.join(path);
    let Some(file) = after else {
        fs::remove_file(&target)?;
        if let Some(above) = target.parent() {
            tree::remove_empty(above, folder);
        }
        return Ok(());
    };
    if let Some(above) = target.parent() {
        tree::make_folder(above)?;
    }
    write::replace(&target, &file.bytes).map_err(std::io::Error::other)?;
    if file.executable {
        fs::set_permissions(&target, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Removes the folder of a skill: it disappears in one step.
pub(super) fn remove_folder(home: &Home, folder: &Path) -> std::io::Result<()> {
    let trash = StagedFolder::write(home, &[])?;
    let moved = trash.path().join("removed");
    fs::rename(folder, &moved)
}

/// Checks the name of a skill.
pub(crate) fn check_name(name: &str) -> Result<(), SkillStoreError> {
    let is_first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_other = |c: char| is_first(c) || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > MAX_NAME || !name.starts_with(is_first) || !name.chars().all(is_other)
    {
        return Err(SkillStoreError::Invalid(format!(
            "'{name}' is not a name for a skill: use up to {MAX_NAME} lowercase letters, digits, '-', '_' and '.', \
             beginning with a letter or a digit."
        )));
    }
    Ok(())
}

/// Checks one component of a path.
pub(crate) fn check_component(text: &str, what: &str) -> Result<(), SkillStoreError> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ' ');
    if text.is_empty() || text.starts_with('.') || text.len() > MAX_NAME || !text.chars().all(plain) {
        return Err(SkillStoreError::Invalid(format!(
            "'{text}' is not a {what}: use one folder name without '/', not beginning with '.'."
        )));
    }
    Ok(())
}

/// Checks the text of a skill.
fn check_content(content: &str) -> Result<(), SkillStoreError> {
    let invalid = |words: &str| Err(SkillStoreError::Invalid(words.to_owned()));
    let text = content.strip_prefix('\u{feff}').unwrap_or(content);
    if !text.starts_with("---") {
        return invalid("SKILL.md must begin with YAML front matter between two lines of '---'.");
    }
    let Some(block) = SkillDocument::front_matter(text) else {
        return invalid("The front matter is not closed by a line of '---'.");
    };
    match yaml::parse(block) {
        Ok(YamlValue::Map(_)) => {}
        Ok(_) => return invalid("The front matter is not a mapping of keys to values."),
        Err(error) => return Err(SkillStoreError::Invalid(format!("The front matter is not YAML: {error}"))),
    }
    let document = SkillDocument::parse(text);
    if document.text("name").is_none() {
        return invalid("The front matter needs a 'name'.");
    }
    let Some(description) = document.text("description") else {
        return invalid("The front matter needs a 'description'.");
    };
    if description.chars().count() > MAX_DESCRIPTION {
        return Err(SkillStoreError::Invalid(format!(
            "The description is longer than {MAX_DESCRIPTION} characters."
        )));
    }
    if document.body.trim().is_empty() {
        return invalid("There are no instructions after the front matter.");
    }
    if content.chars().count() > MAX_SKILL_CHARS {
        return Err(SkillStoreError::Invalid(format!(
            "SKILL.md is longer than {MAX_SKILL_CHARS} characters. Move parts into files below references/."
        )));
    }
    Ok(())
}

fn check_size(content: &str) -> Result<(), SkillStoreError> {
    if content.len() > MAX_FILE_BYTES {
        return Err(SkillStoreError::Invalid("The file would be larger than 1 MiB.".to_owned()));
    }
    Ok(())
}

/// Checks the path of a file beside the text of a skill, and returns it in plain form.
fn support_path(path: &str) -> Result<String, SkillStoreError> {
    let mut parts = Vec::new();
    for part in Path::new(path.trim()).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            _ => {
                return Err(SkillStoreError::Invalid(
                    "Path traversal ('..') and absolute paths are not allowed.".to_owned(),
                ));
            }
        }
    }
    let known = parts.first().is_some_and(|first| SUPPORT_FOLDERS.contains(&first.as_str()));
    if !known || parts.len() < 2 || path.contains(['\0', '\\']) {
        return Err(SkillStoreError::Invalid(format!(
            "file_path must name a file below one of: {}.",
            SUPPORT_FOLDERS.join(", ")
        )));
    }
    Ok(parts.join("/"))
}

/// Refuses a path with a link in it, which could lead anywhere.
pub(super) fn refuse_links(root: &Path, path: &str) -> Result<(), SkillStoreError> {
    let mut here = root.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        here.push(part);
        if here.symlink_metadata().is_ok_and(|meta| meta.file_type().is_symlink()) {
            return Err(SkillStoreError::Invalid(format!(
                "{} is a link; skills are not changed through links.",
                here.display()
            )));
        }
    }
    Ok(())
}

fn missing_file(path: &str, files: &[TreeFile]) -> SkillStoreError {
    let available = files.iter().map(|file| file.path.clone()).filter(|path| path != "SKILL.md").collect();
    SkillStoreError::MissingFile { path: path.to_owned(), available }
}
