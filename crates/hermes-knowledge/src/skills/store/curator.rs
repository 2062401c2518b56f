//! The curator: puts skills of the agent away that are not used, and keeps copies of all skills.
//!
//! Invariants: only skills that the agent wrote and that are not pinned are put away by it; nothing is ever deleted; before
//! it changes anything, it copies the skills.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_config::{Config, Home, write};
use hermes_types::Timestamp;
use serde_json::{Map, Value, json};

use super::history::iso_time;
use super::tree::{self, StagedFolder};
use super::usage::{self, SkillUsage};
use super::{SkillStoreError, data_folder, lock};
use crate::skills::walk;

const ARCHIVE: &str = "skills/.archive";
const BACKUPS: &str = "skills/.hub/backups";
const STATE: &str = "skills/.hub/curator.json";
/// The number of copies that are kept.
const KEPT_BACKUPS: usize = 10;

/// The `curator` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CuratorSettings {
    pub enabled: bool,
    pub interval: Duration,
    /// Days without use after which a skill is reported.
    pub stale_days: u32,
    /// Days without use after which a skill is put away.
    pub archive_days: u32,
}

impl CuratorSettings {
    pub fn from_config(config: &Config) -> Self {
        let days = |key: &str| u32::try_from(config.int(key).unwrap_or_default()).unwrap_or_default();
        let hours = config.int("curator.interval_hours").and_then(|hours| u64::try_from(hours).ok());
        Self {
            enabled: config.flag("curator.enabled"),
            interval: Duration::from_secs(hours.unwrap_or_default().saturating_mul(3600)),
            stale_days: days("curator.stale_after_days"),
            archive_days: days("curator.archive_after_days"),
        }
    }
}

/// What the curator remembers between runs. Times are ISO 8601.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CuratorState {
    pub paused: bool,
    pub last_run: Option<String>,
    pub runs: u64,
    pub last_summary: Option<String>,
}

/// What a run found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CuratorReport {
    /// The skills that were not used for long, and were left where they are.
    pub stale: Vec<String>,
    /// The skills that were put away, or would be.
    pub archived: Vec<String>,
    pub failed: Vec<(String, String)>,
}

/// Says whether a run changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CuratorMode {
    Act,
    /// It only reports what it would do.
    Preview,
}

/// A copy of the skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillBackup {
    pub id: String,
    pub reason: String,
    pub skills: Vec<String>,
}

/// A skill that was put away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedSkill {
    pub name: String,
    pub at: Option<String>,
}

impl CuratorReport {
    /// Describes the report in one line.
    pub fn summary(&self) -> String {
        format!("{} archived, {} not used for long", self.archived.len(), self.stale.len())
    }
}

/// Returns what is remembered.
pub fn curator_state(home: &Home) -> CuratorState {
    let state = read_json(&home.join(STATE));
    let text = |key: &str| state.get(key).and_then(Value::as_str).map(str::to_owned);
    CuratorState {
        paused: state.get("paused") == Some(&Value::Bool(true)),
        last_run: text("last_run_at"),
        runs: state.get("run_count").and_then(Value::as_u64).unwrap_or_default(),
        last_summary: text("last_run_summary"),
    }
}

/// Keeps the curator from running by itself, or lets it run again.
pub fn pause_curator(home: &Home, paused: bool) -> Result<(), SkillStoreError> {
    change_state(home, |state| drop(state.insert("paused".to_owned(), paused.into())))
}

/// Runs the curator if it is due. The first time only begins to count.
pub fn run_curator_if_due(
    home: &Home,
    settings: &CuratorSettings,
    now: Timestamp,
) -> Result<Option<CuratorReport>, SkillStoreError> {
    if !settings.enabled || !home.skills().is_dir() {
        return Ok(None);
    }
    let state = curator_state(home);
    if state.paused {
        return Ok(None);
    }
    let Some(last) = state.last_run else {
        change_state(home, |state| drop(state.insert("last_run_at".to_owned(), iso_time(now).into())))?;
        return Ok(None);
    };
    // Times in this form are ordered like their texts.
    if last > iso_time(now.minus(settings.interval)) {
        return Ok(None);
    }
    run_curator(home, settings, CuratorMode::Act, now).map(Some)
}

/// Puts away the agent's skills that were not used for long.
pub fn run_curator(
    home: &Home,
    settings: &CuratorSettings,
    mode: CuratorMode,
    now: Timestamp,
) -> Result<CuratorReport, SkillStoreError> {
    let mut report = CuratorReport {
        stale: idle_skills(home, settings.stale_days, now),
        archived: idle_skills(home, settings.archive_days, now),
        failed: Vec::new(),
    };
    report.stale.retain(|name| !report.archived.contains(name));
    if mode == CuratorMode::Preview {
        return Ok(report);
    }
    archive_all(home, &mut report, now)?;
    let summary = report.summary();
    change_state(home, |state| {
        let runs = state.get("run_count").and_then(Value::as_u64).unwrap_or_default();
        state.insert("run_count".to_owned(), (runs + 1).into());
        state.insert("last_run_at".to_owned(), iso_time(now).into());
        state.insert("last_run_summary".to_owned(), summary.clone().into());
    })?;
    Ok(report)
}

/// Puts away the agent's skills that were not used for so many days.
pub fn prune_skills(
    home: &Home,
    days: u32,
    mode: CuratorMode,
    now: Timestamp,
) -> Result<CuratorReport, SkillStoreError> {
    let mut report = CuratorReport { archived: idle_skills(home, days, now), ..CuratorReport::default() };
    if mode == CuratorMode::Act {
        archive_all(home, &mut report, now)?;
    }
    Ok(report)
}

fn archive_all(home: &Home, report: &mut CuratorReport, now: Timestamp) -> Result<(), SkillStoreError> {
    if !report.archived.is_empty() {
        back_up_skills(home, "before skills were archived", now)?;
    }
    for name in std::mem::take(&mut report.archived) {
        match archive_skill(home, &name, now) {
            Ok(_) => report.archived.push(name),
            Err(error) => report.failed.push((name, error.to_string())),
        }
    }
    Ok(())
}

/// Returns the agent's own skills that are not pinned and that nothing happened to for so many days.
fn idle_skills(home: &Home, days: u32, now: Timestamp) -> Vec<String> {
    let limit = iso_time(now.minus(Duration::from_hours(24) * days));
    let is_idle = |usage: &SkillUsage| {
        usage.created_by.as_deref() == Some("agent")
            && !usage.pinned
            && usage.last_activity().is_some_and(|last| *last < *limit)
    };
    let all = usage::all_skill_usage(home).into_iter();
    all.filter(|(name, usage)| is_idle(usage) && folder_of(home, name).is_some())
        .map(|(name, _)| name)
        .collect()
}

/// Pins a skill, so that the curator leaves it alone, or takes the pin off.
pub fn pin_skill(home: &Home, name: &str, pinned: bool) -> Result<(), SkillStoreError> {
    folder_of(home, name).ok_or_else(|| unknown(name))?;
    usage::change(home, name, |entry| drop(entry.insert("pinned".to_owned(), pinned.into())))?;
    Ok(())
}

/// Moves a skill to the archive, and returns where it is.
pub fn archive_skill(home: &Home, name: &str, now: Timestamp) -> Result<PathBuf, SkillStoreError> {
    let _lock = lock(home)?;
    let folder = folder_of(home, name).ok_or_else(|| unknown(name))?;
    let target = home.folder(ARCHIVE)?.join(name);
    if target.symlink_metadata().is_ok() {
        return Err(SkillStoreError::Exists(format!("{} exists; nothing was moved.", target.display())));
    }
    let path = folder.strip_prefix(home.skills()).unwrap_or(&folder).to_string_lossy().into_owned();
    fs::rename(&folder, &target).map_err(SkillStoreError::io(&folder))?;
    if let Some(above) = folder.parent() {
        tree::remove_empty(above, &home.skills());
    }
    usage::change(home, name, |entry| {
        entry.insert("state".to_owned(), "archived".into());
        entry.insert("archived_at".to_owned(), iso_time(now).into());
        entry.insert("archived_from".to_owned(), path.into());
    })?;
    Ok(target)
}

/// Moves a skill back from the archive, to where it was, and returns where it is.
pub fn restore_skill(home: &Home, name: &str) -> Result<PathBuf, SkillStoreError> {
    super::edit::check_name(name)?;
    let _lock = lock(home)?;
    let archived = home.join(ARCHIVE).join(name);
    if !archived.is_dir() {
        return Err(SkillStoreError::NotFound(format!("There is no archived skill '{name}'.")));
    }
    let stored = usage::read_all(home).get(name).and_then(|entry| entry.get("archived_from")).cloned();
    let path = stored.as_ref().and_then(Value::as_str).filter(|path| is_below(path)).unwrap_or(name);
    super::edit::refuse_links(&home.skills(), path)?;
    let target = home.skills().join(path);
    if target.symlink_metadata().is_ok() {
        return Err(SkillStoreError::Exists(format!("{} exists; nothing was moved.", target.display())));
    }
    if let Some(above) = target.parent() {
        tree::make_folder(above).map_err(SkillStoreError::io(above))?;
    }
    fs::rename(&archived, &target).map_err(SkillStoreError::io(&target))?;
    usage::change(home, name, |entry| {
        for key in ["state", "archived_at", "archived_from"] {
            entry.remove(key);
        }
    })?;
    Ok(target)
}

fn is_below(path: &str) -> bool {
    !path.starts_with('/')
        && path.split('/').all(|part| !part.is_empty() && part != ".." && !part.starts_with('.'))
}

/// Lists the archived skills.
pub fn archived_skills(home: &Home) -> Vec<ArchivedSkill> {
    let entries = fs::read_dir(home.join(ARCHIVE)).into_iter().flatten().flatten();
    let usage = usage::read_all(home);
    let mut names: Vec<ArchivedSkill> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .map(|name| {
            let at = usage.get(&name).and_then(|entry| entry.get("archived_at")?.as_str().map(str::to_owned));
            ArchivedSkill { name, at }
        })
        .collect();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    names
}

/// Copies all skills of the home, and returns the copy.
pub fn back_up_skills(home: &Home, reason: &str, now: Timestamp) -> Result<SkillBackup, SkillStoreError> {
    let _lock = lock(home)?;
    let root = home.skills();
    let mut files = Vec::new();
    let mut skills = Vec::new();
    for (name, folder) in all_folders(home) {
        let path = folder.strip_prefix(&root).unwrap_or(&folder).to_string_lossy().into_owned();
        for mut file in tree::read(&folder).map_err(SkillStoreError::io(&folder))? {
            file.path = format!("skills/{path}/{}", file.path);
            // A skill below another one is part of both.
            if !files.iter().any(|known: &tree::TreeFile| known.path == file.path) {
                files.push(file);
            }
        }
        skills.push((name, path));
    }
    let names: Vec<String> = skills.iter().map(|(name, _)| name.clone()).collect();
    let paths: Map<String, Value> = skills.into_iter().map(|(name, path)| (path, name.into())).collect();
    let manifest = json!({"created_at": iso_time(now), "reason": reason, "skills": paths});
    let bytes = format!("{manifest:#}\n").into_bytes();
    files.push(tree::TreeFile { path: "backup.json".to_owned(), bytes, executable: false });
    home.folder(BACKUPS)?;
    let id = unused_id(home, now);
    let target = home.join(BACKUPS).join(&id);
    let staged = StagedFolder::write(home, &files).map_err(SkillStoreError::io(&target))?;
    tree::sync_all(&data_folder(home)).map_err(SkillStoreError::io(&target))?;
    staged.place(&target).map_err(SkillStoreError::io(&target))?;
    let all = skill_backups(home);
    for old in all.iter().skip(KEPT_BACKUPS) {
        // One that stays only takes space.
        let _ = fs::remove_dir_all(home.join(BACKUPS).join(&old.id));
    }
    Ok(SkillBackup { id, reason: reason.to_owned(), skills: names })
}

/// Lists the copies, the latest first.
pub fn skill_backups(home: &Home) -> Vec<SkillBackup> {
    let entries = fs::read_dir(home.join(BACKUPS)).into_iter().flatten().flatten();
    let mut backups: Vec<SkillBackup> = entries
        .filter_map(|entry| {
            let manifest = read_json(&entry.path().join("backup.json"));
            let skills = manifest.get("skills")?.as_object()?.values();
            Some(SkillBackup {
                id: entry.file_name().to_string_lossy().into_owned(),
                reason: manifest.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned(),
                skills: skills.filter_map(Value::as_str).map(str::to_owned).collect(),
            })
        })
        .collect();
    backups.sort_by(|a, b| b.id.cmp(&a.id));
    backups
}

/// Puts the skills back as they are in a copy, the latest if none is named. Skills that the copy does not have are
/// archived. The present state is copied first.
pub fn roll_back_skills(
    home: &Home,
    id: Option<&str>,
    now: Timestamp,
) -> Result<SkillBackup, SkillStoreError> {
    let backups = skill_backups(home);
    let wanted = match id {
        Some(id) => backups.into_iter().find(|backup| backup.id == id),
        None => backups.into_iter().next(),
    };
    let backup = wanted.ok_or_else(|| match id {
        Some(id) => SkillStoreError::NotFound(format!("There is no copy '{id}' of the skills.")),
        None => SkillStoreError::NotFound("There is no copy of the skills.".to_owned()),
    })?;
    let from = home.join(BACKUPS).join(&backup.id);
    let manifest = read_json(&from.join("backup.json"));
    let paths = manifest.get("skills").and_then(Value::as_object).cloned().unwrap_or_default();
    // Read before the present state is copied, because that may remove the oldest copy.
    let mut contents = Vec::new();
    for path in paths.keys().filter(|path| is_below(path)) {
        let folder = from.join("skills").join(path);
        contents.push((path.clone(), tree::read(&folder).map_err(SkillStoreError::io(&folder))?));
    }
    back_up_skills(home, &format!("before the copy {} was put back", backup.id), now)?;
    for (name, folder) in all_folders(home) {
        let path = folder.strip_prefix(home.skills()).unwrap_or(&folder).to_string_lossy().into_owned();
        if !paths.contains_key(&path) && folder.is_dir() {
            archive_skill(home, &name, now)?;
        }
    }
    let _lock = lock(home)?;
    for (path, files) in contents {
        super::replace_skill_folder(home, &home.skills().join(&path), &files)?;
    }
    Ok(backup)
}

fn unused_id(home: &Home, now: Timestamp) -> String {
    let base: String = iso_time(now).chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
    let is_free = |id: &String| home.join(BACKUPS).join(id).symlink_metadata().is_err();
    let numbered = (2..1_000).map(|number| format!("{base}-{number}"));
    std::iter::once(base.clone()).chain(numbered).find(is_free).unwrap_or(base)
}

/// Returns the skills of the home with their folders.
fn all_folders(home: &Home) -> Vec<(String, PathBuf)> {
    let found = walk::find(&home.skills()).into_iter().filter(|found| found.has_skill);
    found.filter_map(|found| Some((found.path.last()?.clone(), found.folder))).collect()
}

fn folder_of(home: &Home, name: &str) -> Option<PathBuf> {
    all_folders(home).into_iter().find(|(known, _)| known == name).map(|(_, folder)| folder)
}

fn unknown(name: &str) -> SkillStoreError {
    SkillStoreError::NotFound(format!("There is no skill '{name}' in the home's skills folder."))
}

fn change_state(home: &Home, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), SkillStoreError> {
    let _lock = lock(home)?;
    let mut state = read_json(&home.join(STATE));
    change(&mut state);
    Ok(write::replace(&home.join(STATE), format!("{:#}\n", Value::Object(state)).as_bytes())?)
}

fn read_json(path: &Path) -> Map<String, Value> {
    match serde_json::from_str(&fs::read_to_string(path).unwrap_or_default()) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}
