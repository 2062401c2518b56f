//! Skills of this machine: the optional ones that come with the program, folders and archives.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_guard::SkillTrust;
use hermes_knowledge::{BundleSource, TreeFile, read_tree, skill_header};

use super::{FetchedSkill, MAX_SKILL_BYTES, checked, matches};
use crate::Error;
use crate::identifier::SkillRegistry;
use crate::search::HubListing;
use crate::zip::unpack_zip;

/// The optional skills: files `CATEGORY/NAME/…`.
pub(super) struct OptionalSkills<'a>(pub(super) &'a BundleSource);

impl OptionalSkills<'_> {
    pub(super) fn fetch(&self, path: &str) -> Result<Option<FetchedSkill>, Error> {
        let prefix = format!("{path}/");
        let files: Vec<TreeFile> = self
            .files()?
            .into_iter()
            .filter_map(|file| {
                let path = file.path.strip_prefix(&prefix)?.to_owned();
                Some(TreeFile { path, ..file })
            })
            .collect();
        if !files.iter().any(|file| file.path == "SKILL.md") {
            return Ok(None);
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        FetchedSkill::new(name, SkillRegistry::Official, format!("official/{path}"), files).map(Some)
    }

    pub(super) fn list(&self, query: &str, limit: usize) -> Result<Vec<HubListing>, Error> {
        let mut listings = Vec::new();
        for file in self.files()? {
            let parts: Vec<&str> = file.path.split('/').collect();
            let &[category, name, "SKILL.md"] = parts.as_slice() else { continue };
            let description = skill_header(&String::from_utf8_lossy(&file.bytes)).1.unwrap_or_default();
            if matches(query, &[name, &description, category]) {
                listings.push(HubListing {
                    name: name.to_owned(),
                    description,
                    source: SkillRegistry::Official,
                    trust: SkillTrust::Builtin,
                    identifier: format!("official/{category}/{name}"),
                    installs: None,
                });
            }
        }
        listings.sort_by(|a, b| a.identifier.cmp(&b.identifier));
        listings.truncate(limit);
        Ok(listings)
    }

    fn files(&self) -> Result<Vec<TreeFile>, Error> {
        let place = match self.0 {
            BundleSource::Folder(folder) => folder.as_path(),
            BundleSource::Packed { .. } => Path::new("the optional skills of this program"),
        };
        self.0.files().map_err(Error::io(place))
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
