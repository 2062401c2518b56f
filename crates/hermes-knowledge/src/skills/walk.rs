//! Finds the folders with a `SKILL.md` below a root, and the descriptions of categories.
//!
//! The walk goes on below a skill. With the records of an earlier walk it looks only at what may have changed: a folder
//! whose time of change is the same holds the same names. Invariant: it ends whatever links a tree contains, because no
//! folder is entered below itself and the depth and number of folders are limited.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hermes_config::{Config, Env, Home, expand_tilde};
use serde::{Deserialize, Serialize};

use super::filter::SkillConditions;
use super::front_matter::{SkillDocument, bounded_text};
use super::{MAX_SKILL_CHARS, SkillUse};

/// Folders that hold no skills: data of version control and of package managers, and what the program keeps
/// beside the skills.
const IGNORED: [&str; 9] =
    [".git", ".github", ".hub", ".archive", "venv", ".venv", "node_modules", "site-packages", "__pycache__"];
/// Folders of a skill that hold its own files.
pub(crate) const SUPPORT_FOLDERS: [&str; 4] = ["references", "templates", "assets", "scripts"];
const MAX_DEPTH: usize = 8;
const MAX_FOLDERS: usize = 50_000;

/// A file or folder as it was: the time of its change and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangeStamp(i64, i64, u64);

impl ChangeStamp {
    fn of(meta: &Metadata) -> Self {
        Self(meta.mtime(), meta.mtime_nsec(), if meta.is_dir() { 0 } else { meta.size() })
    }

    /// Returns the second of the change.
    pub(super) fn second(self) -> i64 {
        self.0
    }
}

/// What a walk learned about one folder. Names of fields are short because there may be thousands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderRecord {
    /// The path below the root, with `/`.
    #[serde(rename = "p")]
    pub(super) path: String,
    #[serde(rename = "t")]
    pub(super) stamp: ChangeStamp,
    /// The names of the folders in it that are entered, in order.
    #[serde(rename = "f", default, skip_serializing_if = "Vec::is_empty")]
    folders: Vec<String>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub(super) skill: Option<SkillRecord>,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub(super) about: Option<CategoryRecord>,
}

/// What a `SKILL.md` says, as far as lists need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SkillRecord {
    #[serde(rename = "t")]
    pub(super) stamp: ChangeStamp,
    /// Whether the file can be read.
    #[serde(rename = "r")]
    pub(super) readable: bool,
    /// The number of characters up to the end of the front matter.
    #[serde(rename = "h")]
    pub(super) header_chars: usize,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub(super) own_name: Option<String>,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub(super) first_line: Option<String>,
    #[serde(rename = "c", default, skip_serializing_if = "SkillConditions::is_empty")]
    pub(super) conditions: SkillConditions,
}

/// What a `DESCRIPTION.md` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CategoryRecord {
    #[serde(rename = "t")]
    pub(super) stamp: ChangeStamp,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

/// A folder below a root that has a `SKILL.md` or a `DESCRIPTION.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundFolder {
    pub(super) folder: PathBuf,
    /// The names of the folders from the root to this one.
    pub(super) path: Vec<String>,
    pub(super) has_skill: bool,
}

/// Returns the folder of the home's skills and the existing external ones, each once.
pub(super) fn roots(home: &Home, config: &Config, env: &Env) -> Vec<PathBuf> {
    let own = home.join("skills");
    let mut known: Vec<PathBuf> = own.canonicalize().into_iter().collect();
    let mut roots = vec![own];
    for given in config.list("skills.external_dirs") {
        let Ok(folder) = expand_tilde(&expand_variables(&given, env), env) else { continue };
        let Ok(real) = folder.canonicalize() else { continue };
        if real.is_dir() && !known.contains(&real) {
            known.push(real);
            roots.push(folder);
        }
    }
    roots
}

/// Walks a root in the order of names, links after folders, and reads no file.
pub(super) fn find(root: &Path) -> Vec<FoundFolder> {
    let mut walk = Walk::new(root, &[], i64::MAX);
    walk.reading = FileReading::Skip;
    walk.enter("", &mut Vec::new());
    let found = walk.records.into_iter().filter(|record| record.skill.is_some() || record.about.is_some());
    found
        .map(|record| FoundFolder {
            folder: root.join(&record.path),
            path: components(&record.path),
            has_skill: record.skill.is_some(),
        })
        .collect()
}

/// Walks a root and reads what is not in `known` or has changed since. Records with times from `unsure_from` on are not
/// relied on: the file may have changed again within the same second. Also tells whether anything differs.
pub(super) fn index(root: &Path, known: &[FolderRecord], unsure_from: i64) -> (Vec<FolderRecord>, bool) {
    let mut walk = Walk::new(root, known, unsure_from);
    walk.enter("", &mut Vec::new());
    let changed = walk.changed || walk.records.len() != known.len();
    (walk.records, changed)
}

pub(super) fn components(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileReading {
    Read,
    Skip,
}

struct Walk<'a> {
    root: &'a Path,
    known: HashMap<&'a str, &'a FolderRecord>,
    unsure_from: i64,
    reading: FileReading,
    records: Vec<FolderRecord>,
    changed: bool,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Path, known: &'a [FolderRecord], unsure_from: i64) -> Self {
        let known = known.iter().map(|record| (record.path.as_str(), record)).collect();
        Self { root, known, unsure_from, reading: FileReading::Read, records: Vec::new(), changed: false }
    }

    /// Records a folder and those in it. `above` has the identities of the folders above it.
    fn enter(&mut self, path: &str, above: &mut Vec<(u64, u64)>) {
        let folder = if path.is_empty() { self.root.to_owned() } else { self.root.join(path) };
        let Ok(meta) = fs::metadata(&folder) else { return };
        let identity = (meta.dev(), meta.ino());
        if !meta.is_dir() || self.records.len() >= MAX_FOLDERS || above.contains(&identity) {
            return;
        }
        let stamp = ChangeStamp::of(&meta);
        let known =
            self.known.get(path).copied().filter(|record| record.stamp == stamp && self.is_sure(stamp));
        let had = |present: bool| known.is_none() || present;
        let skill_file =
            had(known.is_some_and(|record| record.skill.is_some())).then(|| folder.join("SKILL.md"));
        let skill = skill_file.and_then(|file| self.skill(&file, known));
        let about_file =
            had(known.is_some_and(|record| record.about.is_some())).then(|| folder.join("DESCRIPTION.md"));
        let about = about_file.and_then(|file| self.about(&file, known));
        let folders = match known {
            Some(record) if record.skill.is_some() == skill.is_some() => record.folders.clone(),
            _ => {
                self.changed = true;
                folders_in(&folder, skill.is_some())
            }
        };
        let depth = above.len();
        self.records.push(FolderRecord {
            path: path.to_owned(),
            stamp,
            folders: folders.clone(),
            skill,
            about,
        });
        if depth >= MAX_DEPTH {
            return;
        }
        above.push(identity);
        for name in folders {
            let below = if path.is_empty() { name } else { format!("{path}/{name}") };
            self.enter(&below, above);
        }
        above.pop();
    }

    fn is_sure(&self, stamp: ChangeStamp) -> bool {
        stamp.second() < self.unsure_from
    }

    fn skill(&mut self, file: &Path, known: Option<&FolderRecord>) -> Option<SkillRecord> {
        let meta = fs::metadata(file).ok().filter(Metadata::is_file)?;
        let stamp = ChangeStamp::of(&meta);
        let known = known.and_then(|record| record.skill.as_ref());
        if let Some(record) = known.filter(|record| record.stamp == stamp && self.is_sure(stamp)) {
            return Some(record.clone());
        }
        self.changed = true;
        Some(match self.reading {
            FileReading::Read => SkillRecord::read(file, stamp),
            FileReading::Skip => SkillRecord::unread(stamp),
        })
    }

    fn about(&mut self, file: &Path, known: Option<&FolderRecord>) -> Option<CategoryRecord> {
        let meta = fs::metadata(file).ok().filter(Metadata::is_file)?;
        let stamp = ChangeStamp::of(&meta);
        let known = known.and_then(|record| record.about.as_ref());
        if let Some(record) = known.filter(|record| record.stamp == stamp && self.is_sure(stamp)) {
            return Some(record.clone());
        }
        self.changed = true;
        let text = match self.reading {
            FileReading::Read => SkillDocument::read(file, SkillUse::Index.chars())
                .and_then(|document| document.text("description")),
            FileReading::Skip => None,
        };
        Some(CategoryRecord { stamp, text: text.map(|text| hermes_text::single_line(&text)) })
    }
}

impl SkillRecord {
    fn unread(stamp: ChangeStamp) -> Self {
        Self {
            stamp,
            readable: false,
            header_chars: 0,
            own_name: None,
            description: None,
            first_line: None,
            conditions: SkillConditions::default(),
        }
    }

    /// Returns the record of the same file if its front matter is not read.
    pub(super) fn without_front_matter(self) -> Self {
        Self { readable: true, ..Self::unread(self.stamp) }
    }

    fn read(file: &Path, stamp: ChangeStamp) -> Self {
        let Some(text) = SkillDocument::real_path(file).and_then(|real| bounded_text(&real, MAX_SKILL_CHARS))
        else {
            return Self::unread(stamp);
        };
        let document = SkillDocument::parse(&text);
        let header = text.len() - document.body.len();
        Self {
            stamp,
            readable: true,
            header_chars: text.get(..header).unwrap_or_default().chars().count(),
            own_name: document.text("name"),
            description: document.text("description"),
            first_line: document.first_line(),
            conditions: SkillConditions::of(&document.data),
        }
    }
}

/// Returns the names of the folders in a folder that are entered.
fn folders_in(folder: &Path, is_skill: bool) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut named: Vec<(bool, String)> = entries
        .filter_map(|entry| {
            let kind = entry.file_type().ok()?;
            let is_folder = kind.is_dir() || (kind.is_symlink() && entry.path().is_dir());
            let name = entry.file_name().into_string().ok().filter(|_| is_folder)?;
            Some((kind.is_symlink(), name))
        })
        .filter(|(_, name)| {
            let is_support = is_skill && SUPPORT_FOLDERS.contains(&name.as_str());
            !is_support && !IGNORED.contains(&name.as_str())
        })
        .collect();
    named.sort();
    named.into_iter().map(|(_, name)| name).collect()
}

/// Replaces `$NAME` and `${NAME}` by the values of variables. An unset name stays as written.
fn expand_variables(text: &str, env: &Env) -> String {
    let text = hermes_config::expand_text(text, env);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, tail) = after.split_at(end);
        match env.get(name) {
            Some(value) if !name.is_empty() => out.push_str(value),
            _ => out.extend(["$", name]),
        }
        rest = tail;
    }
    out.push_str(rest);
    out
}
