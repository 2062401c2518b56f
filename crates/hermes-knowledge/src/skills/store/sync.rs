//! Copies the bundled skills into a home and keeps them current, without touching what the user changed.
//!
//! `skills/.bundled_manifest` names every bundled skill that was seen here with the MD5 sum of the bundled copy.
//! A skill whose copy differs from that sum is the user's; one that is in the manifest and not on the disk was
//! deleted. Other releases read and write the same file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use hermes_config::{Home, write};

use super::bundle::{BundleSource, BundledSkill, SkillBundle};
use super::tree::{self, StagedFolder, TreeFile};
use super::{SkillStoreError, data_folder, lock};

/// The files that keep bundled skills out of a home: the one in the skills folder, and the one of a new profile.
const OPT_OUT: [&str; 2] = ["skills/.no-bundled-skills", ".no-bundled-skills"];
const MANIFEST: &str = "skills/.bundled_manifest";

/// What a synchronization did, by names of skills.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillSyncReport {
    pub copied: Vec<String>,
    pub updated: Vec<String>,
    /// Skills for which there was nothing to do.
    pub skipped: usize,
    /// Skills that were left alone because the user changed them.
    pub user_modified: Vec<String>,
    /// Skills that are no longer bundled; their files stay.
    pub cleaned: Vec<String>,
    /// Skills that could not be written, with the reason. They are tried again the next time.
    pub failed: Vec<(String, String)>,
    /// The number of bundled skills.
    pub total: usize,
}

/// A bundled skill whose copy in the home differs from the copy that was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModifiedSkill {
    pub name: String,
    /// Each file of either copy that differs, with its text there and here. A missing file is `None`.
    pub files: Vec<ModifiedSkillFile>,
}

/// A file that differs between the bundled copy and that of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModifiedSkillFile {
    pub path: String,
    pub bundled: Option<String>,
    pub own: Option<String>,
}

/// Copies and updates bundled skills. Returns `None` if the home does not want them, or if nothing changed since
/// the last time, which takes two small reads to find out.
pub fn sync_bundled_skills(
    home: &Home,
    source: &BundleSource,
) -> Result<Option<SkillSyncReport>, SkillStoreError> {
    if has_opted_out(home) || is_current(home, source) {
        return Ok(None);
    }
    let bundle = SkillBundle::load(source).map_err(SkillStoreError::io(&home.join("skills")))?;
    let _lock = lock(home)?;
    let mut sync = Sync { home, manifest: read_manifest(home), report: SkillSyncReport::default() };
    sync.run(&bundle)?;
    write_manifest(home, &sync.manifest)?;
    if sync.report.failed.is_empty() {
        record_current(home, source);
    }
    Ok(Some(sync.report))
}

/// Forgets that a skill was seen, so that the next synchronization treats it as new. With `restore`, the bundled
/// copy replaces the user's one at once.
pub fn reset_bundled_skill(
    home: &Home,
    source: &BundleSource,
    name: &str,
    restore: SkillRestore,
) -> Result<(), SkillStoreError> {
    let bundle = SkillBundle::load(source).map_err(SkillStoreError::io(&home.join("skills")))?;
    let _lock = lock(home)?;
    let mut manifest = read_manifest(home);
    let skill = bundle.find(name).ok_or_else(|| {
        SkillStoreError::NotFound(format!("'{name}' is not a bundled skill; nothing was changed"))
    })?;
    if restore == SkillRestore::Replace {
        let target = home.join("skills").join(&skill.path);
        replace_folder(home, &target, &skill.files).map_err(SkillStoreError::io(&target))?;
        manifest.insert(name.to_owned(), skill.hash());
    } else {
        manifest.remove(name);
    }
    write_manifest(home, &manifest)
}

/// Says what a reset does with the user's copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkillRestore {
    Keep,
    Replace,
}

/// Lists the bundled skills whose copy the user changed.
pub fn modified_bundled_skills(
    home: &Home,
    source: &BundleSource,
) -> Result<Vec<ModifiedSkill>, SkillStoreError> {
    let bundle = SkillBundle::load(source).map_err(SkillStoreError::io(&home.join("skills")))?;
    let manifest = read_manifest(home);
    let mut modified = Vec::new();
    for skill in &bundle.skills {
        let folder = home.join("skills").join(&skill.path);
        let Ok(own) = tree::read(&folder) else { continue };
        if manifest.get(&skill.name).is_some_and(|hash| *hash != tree::md5_of(&own)) {
            modified.push(ModifiedSkill { name: skill.name.clone(), files: differences(&skill.files, &own) });
        }
    }
    Ok(modified)
}

/// Returns the names in the manifest: the skills that came with the program.
pub fn bundled_skill_names(home: &Home) -> Vec<String> {
    read_manifest(home).into_keys().collect()
}

/// Tells whether the home does not want bundled skills.
pub fn has_opted_out(home: &Home) -> bool {
    OPT_OUT.iter().any(|file| home.join(file).exists())
}

/// Keeps further bundled skills out of the home. Skills that are there stay.
pub fn opt_out_of_bundled_skills(home: &Home) -> Result<(), SkillStoreError> {
    home.folder("skills")?;
    Ok(write::replace(&home.join(OPT_OUT[0]), b"")?)
}

/// Lets bundled skills into the home again.
pub fn opt_in_to_bundled_skills(home: &Home) -> Result<(), SkillStoreError> {
    for path in OPT_OUT.map(|file| home.join(file)) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SkillStoreError::io(&path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A skill that will get a new copy.
struct NewCopy<'a> {
    skill: &'a BundledSkill,
    staged: StagedFolder,
    hash: String,
    replaces: bool,
}

struct Sync<'a> {
    home: &'a Home,
    manifest: BTreeMap<String, String>,
    report: SkillSyncReport,
}

impl Sync<'_> {
    fn run(&mut self, bundle: &SkillBundle) -> Result<(), SkillStoreError> {
        self.report.total = bundle.skills.len();
        // Under the lock, whatever is there was left by a process that was killed.
        let _ = fs::remove_dir_all(data_folder(self.home).join("staging"));
        let mut copies = Vec::new();
        for skill in &bundle.skills {
            if let Some(replaces) = self.judge(skill) {
                match StagedFolder::write(self.home, &skill.files) {
                    Ok(staged) => copies.push(NewCopy { skill, staged, hash: skill.hash(), replaces }),
                    Err(error) => self.report.failed.push((skill.name.clone(), error.to_string())),
                }
            }
        }
        if !copies.is_empty() {
            // One wait for the disk instead of one for each file; the copies appear after it.
            let data = data_folder(self.home);
            tree::sync_all(&data).map_err(SkillStoreError::io(&data))?;
        }
        for copy in copies {
            self.place(copy);
        }
        for file in &bundle.descriptions {
            let path = self.home.join("skills").join(&file.path);
            if !path.exists()
                && let Some(folder) = path.parent()
            {
                let _ = tree::make_folder(folder);
                let _ = write::replace(&path, &file.bytes);
            }
        }
        let known: Vec<&str> = bundle.skills.iter().map(|skill| skill.name.as_str()).collect();
        let gone = self.manifest.keys().filter(|name| !known.contains(&name.as_str()));
        self.report.cleaned = gone.cloned().collect();
        self.manifest.retain(|name, _| known.contains(&name.as_str()));
        Ok(())
    }

    /// Decides about one skill. Returns whether a new copy replaces one, or `None` if no copy is written.
    fn judge(&mut self, skill: &BundledSkill) -> Option<bool> {
        let folder = self.folder(skill);
        restore_backup(&folder);
        let bundled = skill.hash();
        let own = folder.is_dir().then(|| tree::read(&folder).map(|files| tree::md5_of(&files)));
        let own = match own {
            Some(Ok(hash)) => Some(hash),
            // A copy that cannot be read is not replaced.
            Some(Err(_)) => Some(String::new()),
            None => None,
        };
        match (self.manifest.get(&skill.name).cloned(), own) {
            (None, None) => return Some(false),
            (None, Some(_)) => {
                self.manifest.insert(skill.name.clone(), bundled);
                self.report.skipped += 1;
            }
            (Some(_), None) => self.report.skipped += 1,
            // An older manifest has no sums: the copy that is there is the point of reference.
            (Some(recorded), Some(own)) if recorded.is_empty() => {
                self.manifest.insert(skill.name.clone(), own);
                self.report.skipped += 1;
            }
            (Some(recorded), Some(own)) if own == bundled => {
                if recorded != own {
                    discard_backup(&folder, &recorded);
                    self.manifest.insert(skill.name.clone(), bundled);
                }
                self.report.skipped += 1;
            }
            (Some(recorded), Some(own)) if recorded != own => {
                self.report.user_modified.push(skill.name.clone());
            }
            (Some(_), Some(_)) => return Some(true),
        }
        None
    }

    fn place(&mut self, copy: NewCopy<'_>) {
        let NewCopy { skill, staged, hash, replaces } = copy;
        let folder = self.folder(skill);
        let placed = if replaces {
            swap(&folder, staged)
        } else if folder.is_dir() {
            // It came with a skill above it.
            Ok(())
        } else {
            staged.place(&folder)
        };
        match placed {
            Ok(()) => {
                self.manifest.insert(skill.name.clone(), hash);
                let list = if replaces { &mut self.report.updated } else { &mut self.report.copied };
                list.push(skill.name.clone());
            }
            Err(error) => self.report.failed.push((skill.name.clone(), error.to_string())),
        }
    }

    fn folder(&self, skill: &BundledSkill) -> PathBuf {
        self.home.join("skills").join(&skill.path)
    }
}

/// Writes files to a folder in place of what is there.
pub(crate) fn replace_folder(home: &Home, target: &Path, files: &[TreeFile]) -> io::Result<()> {
    let staged = StagedFolder::write(home, files)?;
    tree::sync_all(&data_folder(home))?;
    if target.symlink_metadata().is_ok() { swap(target, staged) } else { staged.place(target) }
}

/// Replaces a folder. The old one is kept beside it until the new one is in place.
fn swap(folder: &Path, staged: StagedFolder) -> io::Result<()> {
    let backup = backup_of(folder);
    if backup.exists() {
        return Err(io::Error::other(format!("{} is in the way", backup.display())));
    }
    fs::rename(folder, &backup)?;
    if let Err(error) = staged.place(folder) {
        fs::rename(&backup, folder)?;
        return Err(error);
    }
    fs::remove_dir_all(&backup)
}

fn backup_of(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!("{name}.bak"))
}

/// Moves a backup back that an interrupted replacement left.
fn restore_backup(folder: &Path) {
    let backup = backup_of(folder);
    if !folder.exists() && backup.join("SKILL.md").is_file() {
        let _ = fs::rename(&backup, folder);
    }
}

/// Removes the backup of an update that was interrupted after the new copy was in place.
fn discard_backup(folder: &Path, recorded: &str) {
    let backup = backup_of(folder);
    if tree::read(&backup).is_ok_and(|files| tree::md5_of(&files) == recorded) {
        let _ = fs::remove_dir_all(&backup);
    }
}

fn differences(bundled: &[TreeFile], own: &[TreeFile]) -> Vec<ModifiedSkillFile> {
    let text = |files: &[TreeFile], path: &str| {
        let file = files.iter().find(|file| file.path == path)?;
        Some(String::from_utf8_lossy(&file.bytes).into_owned())
    };
    let mut paths: Vec<&str> = bundled.iter().chain(own).map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
        .into_iter()
        .map(|path| ModifiedSkillFile {
            path: path.to_owned(),
            bundled: text(bundled, path),
            own: text(own, path),
        })
        .filter(|file| file.bundled != file.own)
        .collect()
}

fn read_manifest(home: &Home) -> BTreeMap<String, String> {
    let text = fs::read_to_string(home.join(MANIFEST)).unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (name, hash) = line.split_once(':').unwrap_or((line, ""));
            (name.trim().to_owned(), hash.trim().to_owned())
        })
        .collect()
}

fn write_manifest(home: &Home, manifest: &BTreeMap<String, String>) -> Result<(), SkillStoreError> {
    let lines: String = manifest
        .iter()
        .map(|(name, hash)| if hash.is_empty() { format!("{name}\n") } else { format!("{name}:{hash}\n") })
        .collect();
    let path = home.join(MANIFEST);
    if fs::read_to_string(&path).is_ok_and(|current| current == lines) {
        return Ok(());
    }
    Ok(write::replace(&path, lines.as_bytes())?)
}

/// Tells whether this bundle was synchronized before and the manifest is still the one it left.
fn is_current(home: &Home, source: &BundleSource) -> bool {
    let Some(stamp) = stamp(home, source) else { return false };
    fs::read_to_string(data_folder(home).join("bundle_stamp")).is_ok_and(|text| text == stamp)
}

fn record_current(home: &Home, source: &BundleSource) {
    if let Some(stamp) = stamp(home, source) {
        // Without the stamp, the next start only compares again.
        let _ = write::replace(&data_folder(home).join("bundle_stamp"), stamp.as_bytes());
    }
}

fn stamp(home: &Home, source: &BundleSource) -> Option<String> {
    let BundleSource::Packed { digest, .. } = source else { return None };
    let meta = fs::metadata(home.join(MANIFEST)).ok()?;
    Some(format!("{digest} {}.{:09} {}\n", meta.mtime(), meta.mtime_nsec(), meta.size()))
}
