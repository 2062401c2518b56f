//! Earlier versions of skills, so that the last change can be undone.
//!
//! `.hub/history/{name}/{number}.json` holds one change: what its files contained before, and a sum of what they
//! contained after it. Invariant: a change is recorded before it is made; it is undone only while the files are
//! still as it left them.

use std::fs;
use std::path::PathBuf;

use hermes_config::{Home, write};
use hermes_types::{CivilTime, Timestamp};
use serde::{Deserialize, Serialize};

use super::edit::{refuse_links, remove_folder, write_file};
use super::tree::{self, StagedFolder, TreeFile};
use super::{SkillStoreError, data_folder, lock};

/// The number of changes kept for each skill.
const KEPT: usize = 50;

/// A recorded change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillChange {
    pub at: String,
    pub action: String,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The path of the skill below the skills folder.
    pub path: String,
    pub files: Vec<ChangedFile>,
}

/// What a change did to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    pub path: String,
    /// The content before the change; a missing file has none.
    pub before: Option<StoredContent>,
    /// The MD5 sum of the content after the change; a removed file has none.
    pub after: Option<String>,
    #[serde(default)]
    pub executable: bool,
}

/// The content of a file, as text where it is text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredContent {
    Text(String),
    Base64(String),
}

impl StoredContent {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(data_encoding::BASE64.encode(bytes)),
        }
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.as_bytes().to_vec()),
            Self::Base64(text) => data_encoding::BASE64.decode(text.as_bytes()).ok(),
        }
    }
}

impl ChangedFile {
    pub(super) fn of((path, before, after): &(String, Option<TreeFile>, Option<TreeFile>)) -> Self {
        Self {
            path: path.clone(),
            before: before.as_ref().map(|file| StoredContent::of(&file.bytes)),
            after: after.as_ref().map(|file| tree::md5_of_bytes(&file.bytes)),
            executable: before.as_ref().is_some_and(|file| file.executable),
        }
    }

    fn restored(&self) -> Option<TreeFile> {
        let bytes = self.before.as_ref()?.bytes()?;
        Some(TreeFile { path: self.path.clone(), bytes, executable: self.executable })
    }
}

/// Returns the recorded changes of a skill, the latest first.
pub fn skill_history(home: &Home, name: &str) -> Vec<SkillChange> {
    numbers(home, name).into_iter().rev().filter_map(|number| read(home, name, number)).collect()
}

/// Undoes the last recorded change of a skill, and returns it.
pub fn undo_skill_change(home: &Home, name: &str) -> Result<SkillChange, SkillStoreError> {
    super::edit::check_name(name)?;
    let _lock = lock(home)?;
    let last = numbers(home, name).last().copied();
    let last = last.and_then(|number| Some((number, read(home, name, number)?)));
    let Some((number, change)) = last else {
        return Err(SkillStoreError::NotFound(format!(
            "No change of '{name}' is recorded; nothing was changed."
        )));
    };
    let root = home.skills();
    refuse_links(&root, &change.path)?;
    let folder = root.join(&change.path);
    for file in &change.files {
        let now = fs::read(folder.join(&file.path)).ok().map(|bytes| tree::md5_of_bytes(&bytes));
        if now != file.after {
            return Err(SkillStoreError::Invalid(format!(
                "{} was changed after the last recorded change; nothing was undone.",
                folder.join(&file.path).display()
            )));
        }
    }
    let failed = SkillStoreError::io(&folder);
    let restored: Vec<TreeFile> = change.files.iter().filter_map(ChangedFile::restored).collect();
    let done = if !folder.exists() {
        StagedFolder::write(home, &restored).and_then(|staged| {
            tree::sync_all(&data_folder(home))?;
            staged.place(&folder)
        })
    } else if change.action == "create" {
        remove_folder(home, &folder).map(|()| {
            if let Some(above) = folder.parent() {
                tree::remove_empty(above, &root);
            }
        })
    } else {
        change.files.iter().try_for_each(|file| write_file(&folder, &file.path, file.restored().as_ref()))
    };
    done.map_err(failed)?;
    let path = file_of(home, name, number);
    fs::remove_file(&path).map_err(SkillStoreError::io(&path))?;
    Ok(change)
}

/// Records a change that is about to be made.
pub(super) fn record(home: &Home, name: &str, change: &SkillChange) -> Result<(), SkillStoreError> {
    let numbers = numbers(home, name);
    home.folder("skills/.hub/history").and_then(|_| home.folder(format!("skills/.hub/history/{name}")))?;
    let next = numbers.last().map_or(1, |number| number + 1);
    let text =
        serde_json::to_vec_pretty(change).map_err(|error| SkillStoreError::Invalid(error.to_string()))?;
    write::replace(&file_of(home, name, next), &text)?;
    for old in numbers.iter().take((numbers.len() + 1).saturating_sub(KEPT)) {
        // One that stays only takes space.
        let _ = fs::remove_file(file_of(home, name, *old));
    }
    Ok(())
}

/// Formats a time as ISO 8601 in UTC.
pub fn iso_time(at: Timestamp) -> String {
    let CivilTime { year, month, day, hour, minute, second } = CivilTime::utc(at);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
}

fn read(home: &Home, name: &str, number: u64) -> Option<SkillChange> {
    serde_json::from_slice(&fs::read(file_of(home, name, number)).ok()?).ok()
}

fn file_of(home: &Home, name: &str, number: u64) -> PathBuf {
    folder_of(home, name).join(format!("{number:06}.json"))
}

fn folder_of(home: &Home, name: &str) -> PathBuf {
    data_folder(home).join("history").join(name)
}

fn numbers(home: &Home, name: &str) -> Vec<u64> {
    let entries = fs::read_dir(folder_of(home, name)).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok();
    let mut numbers: Vec<u64> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}
