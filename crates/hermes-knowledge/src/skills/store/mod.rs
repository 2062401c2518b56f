//! Writes the skills of a home: the bundled ones, the agent's own ones, their earlier versions and their use.
//!
//! Nothing here reads the network or decides what is dangerous. Invariants: every writer holds the lock of the
//! skills folder; a skill appears, changes and disappears in one step; the data beside the skills is in `.hub/`,
//! which no program searches for skills.

pub(crate) mod bundle;
pub(crate) mod curator;
pub(crate) mod edit;
pub(crate) mod history;
pub(crate) mod inspect;
pub(crate) mod similar;
pub(crate) mod sync;
pub(crate) mod tree;
pub(crate) mod usage;

use std::io;
use std::path::{Path, PathBuf};

use hermes_config::Home;
use hermes_config::lock::{FileLock, LockTimeout};

/// The reason why a skill was not changed, worded for the user and the model.
#[derive(Debug, thiserror::Error)]
pub enum SkillStoreError {
    /// The request itself is not valid.
    #[error("{0}")]
    Invalid(String),
    /// There is no such skill or file.
    #[error("{0}")]
    NotFound(String),
    /// Something with this name exists.
    #[error("{0}")]
    Exists(String),
    /// The text to replace is not in the file, whose beginning is given.
    #[error("old_string was not found in the file.")]
    NoMatch { preview: String },
    #[error("old_string matches {count} places. Quote more of the text around it, or set replace_all.")]
    Ambiguous { count: usize },
    #[error("The skill has no file '{path}'.")]
    MissingFile { path: String, available: Vec<String> },
    /// The scanner finds the result dangerous.
    #[error("The skill would be dangerous; nothing was changed.")]
    Blocked { report: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Config(#[from] hermes_config::Error),
}

impl SkillStoreError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Returns the folder for data about skills that is not a skill.
pub(crate) fn data_folder(home: &Home) -> PathBuf {
    home.join("skills/.hub")
}

/// Waits for the lock of the skills folder, and creates the folder if it is missing.
pub(crate) fn lock(home: &Home) -> Result<FileLock, SkillStoreError> {
    let data = home.folder("skills").and_then(|_| home.folder("skills/.hub"))?;
    Ok(FileLock::acquire(&data.join(".lock"), LockTimeout::SETTINGS)?)
}

/// The lock of the skills folder, held until it is dropped.
#[derive(Debug)]
pub struct SkillsLock {
    _file: FileLock,
}

/// Waits until no other process writes skills of the home.
pub fn lock_skills(home: &Home) -> Result<SkillsLock, SkillStoreError> {
    Ok(SkillsLock { _file: lock(home)? })
}

/// Puts files in the place of a folder, in one step. The caller holds the lock.
pub fn replace_skill_folder(
    home: &Home,
    folder: &Path,
    files: &[tree::TreeFile],
) -> Result<(), SkillStoreError> {
    let path = folder.strip_prefix(home.skills()).unwrap_or(folder).to_string_lossy().into_owned();
    edit::refuse_links(&home.skills(), &path)?;
    sync::replace_folder(home, folder, files).map_err(SkillStoreError::io(folder))
}

/// Removes the folder of a skill in one step, and its category if that is empty then. The caller holds the lock.
pub fn remove_skill_folder(home: &Home, path: &str) -> Result<(), SkillStoreError> {
    let root = home.skills();
    edit::refuse_links(&root, path)?;
    let folder = root.join(path);
    if !folder.exists() {
        return Ok(());
    }
    edit::remove_folder(home, &folder).map_err(SkillStoreError::io(&folder))?;
    if let Some(above) = folder.parent() {
        tree::remove_empty(above, &root);
    }
    Ok(())
}

/// Returns the name and the description in the front matter of a text.
pub fn skill_header(text: &str) -> (Option<String>, Option<String>) {
    let document = super::front_matter::SkillDocument::parse(text);
    (document.text("name"), document.text("description"))
}
