//! Skills of this machine: optional ones that came with the program, folders and archives.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_guard::SkillTrust;
use hermes_knowledge::{TreeFile, read_tree, skill_header};

use super::{FetchedSkill, MAX_SKILL_BYTES, checked, matches};
use crate::Error;
use crate::identifier::SkillRegistry;
use crate::search::HubListing;
use crate::zip::unpack_zip;

/// The optional skills in a folder.
pub(super) struct OptionalSkills<'a>(pub(super) Option<&'a Path>);

impl OptionalSkills<'_> {
    pub(super) fn fetch(&self, path: &str) -> Result<Option<FetchedSkill>, Error> {
        let Some(folder) = self.0.map(|optional| optional.join(path)) else {
            return Ok(None);
        };
        if !folder.join("SKILL.md").is_file() {
            return Ok(None);
        }
        let files = read_tree(&folder).map_err(Error::io(&folder))?;
        let name = path.rsplit('/').next().unwrap_or_default();
        FetchedSkill::new(name, SkillRegistry::Official, format!("official/{path}"), files).map(Some)
    }

    pub(super) fn list(&self, query: &str, limit: usize) -> Vec<HubListing> {
        let mut listings = Vec::new();
        for category in folders(self.0) {
            for folder in folders(Some(&category)) {
                let Ok(text) = fs::read_to_string(folder.join("SKILL.md")) else { continue };
                let part = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let (name, category) = (part(&folder), part(&category));
                let description = skill_header(&text).1.unwrap_or_default();
                if matches(query, &[&name, &description, &category]) {
                    let identifier = format!("official/{category}/{name}");
                    let (source, trust) = (SkillRegistry::Official, SkillTrust::Builtin);
                    listings.push(HubListing {
                        name,
                        description,
                        source,
                        trust,
                        identifier,
                        installs: None,
                    });
                }
            }
        }
        listings.truncate(limit);
        listings
    }
}

/// Reads a folder, a `SKILL.md` or a zip file.
pub(super) fn fetch_local(given: &str, name: Option<&str>) -> Result<Option<FetchedSkill>, Error> {
    let path = PathBuf::from(given);
    let Ok(path) = path.canonicalize() else { return Ok(None) };
    let folder = if path.ends_with("SKILL.md") { path.parent().unwrap_or(&path).to_owned() } else { path };
    let stem = folder.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let files = if folder.is_dir() {
        read_tree(&folder).map_err(Error::io(&folder))?
    } else {
        let size = folder.metadata().map_err(Error::io(&folder))?.len();
        if size > MAX_SKILL_BYTES as u64 {
            return Err(Error::Malformed(format!("{} is too large for a skill", folder.display())));
        }
        without_common_folder(unpack_zip(&fs::read(&folder).map_err(Error::io(&folder))?)?)
    };
    let files = checked(files)?;
    let text = files.iter().find(|file| file.path == "SKILL.md").map(|file| file.bytes.clone());
    let own_name = skill_header(&String::from_utf8_lossy(&text.unwrap_or_default())).0;
    let name = name.map(str::to_owned).or_else(|| own_name.filter(|_| !folder.is_dir())).unwrap_or(stem);
    FetchedSkill::new(&name, SkillRegistry::Local, folder.to_string_lossy().into_owned(), files).map(Some)
}

/// Removes the folder that all files of an archive are in.
pub(super) fn without_common_folder(files: Vec<TreeFile>) -> Vec<TreeFile> {
    if files.iter().any(|file| file.path == "SKILL.md") {
        return files;
    }
    let Some((folder, _)) = files.first().and_then(|file| file.path.split_once('/')) else { return files };
    let prefix = format!("{folder}/");
    if !files.iter().all(|file| file.path.starts_with(&prefix)) {
        return files;
    }
    let shorter = |file: TreeFile| TreeFile {
        path: file.path.get(prefix.len()..).unwrap_or_default().to_owned(),
        ..file
    };
    files.into_iter().map(shorter).collect()
}

fn folders(folder: Option<&Path>) -> Vec<PathBuf> {
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}
