//! The space that the snapshots of all projects take, and its clean-up.
//!
//! Invariant: only folders that are snapshot repositories, or archives of older formats, are ever removed.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_config::Home;
use hermes_types::Timestamp;

use super::MOST_HISTORY;
use super::repository::Repository;

/// The beginning of the names of archives that other releases keep of an older format.
const LEGACY: &str = "legacy-";

/// The snapshots of one project.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckpointProject {
    /// The project; `None` if the repository does not say.
    pub project: Option<PathBuf>,
    pub snapshots: usize,
    pub bytes: u64,
    /// When the newest snapshot was taken.
    pub newest: Option<Timestamp>,
    repository: PathBuf,
}

impl CheckpointProject {
    /// Tells whether the project is gone.
    pub fn is_orphan(&self) -> bool {
        self.project.as_deref().is_some_and(|project| !project.is_dir())
    }
}

/// What a clean-up removes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckpointRetention {
    /// Projects without a snapshot for this long.
    pub unused_for: Duration,
    /// The least recently used projects beyond this total size.
    pub max_bytes: u64,
    pub orphans: OrphanedProjects,
}

/// Says whether snapshots of projects that are gone are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrphanedProjects {
    Remove,
    Keep,
}

/// The snapshots of a home.
#[derive(Debug, Clone)]
pub struct CheckpointStorage {
    base: PathBuf,
}

impl CheckpointStorage {
    pub fn new(home: &Home) -> Self {
        Self { base: home.join("checkpoints") }
    }

    pub fn path(&self) -> &Path {
        &self.base
    }

    /// Lists the projects, the most recently used first.
    pub fn projects(&self) -> Vec<CheckpointProject> {
        let mut found: Vec<CheckpointProject> = self
            .folders()
            .filter(|folder| folder.join("HEAD").is_file())
            .map(|folder| project(&folder))
            .collect();
        found.sort_by_key(|project| Reverse(seconds(project)));
        found
    }

    /// Lists the archives of older formats with their sizes.
    pub fn legacy_archives(&self) -> Vec<(PathBuf, u64)> {
        let is_legacy = |folder: &PathBuf| {
            folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(LEGACY))
        };
        self.folders().filter(is_legacy).map(|folder| (folder.clone(), size(&folder))).collect()
    }

    /// Removes what exceeds the limits, and returns the projects whose snapshots are gone.
    pub fn clean_up(
        &self,
        limits: CheckpointRetention,
        now: Timestamp,
    ) -> io::Result<Vec<CheckpointProject>> {
        let mut removed = Vec::new();
        let mut total = 0;
        for project in self.projects() {
            let age = project.newest.map(|at| now.since(at)).unwrap_or_default();
            let is_orphan = project.is_orphan() && limits.orphans == OrphanedProjects::Remove;
            if is_orphan || age > limits.unused_for || total + project.bytes > limits.max_bytes {
                remove(&project.repository)?;
                removed.push(project);
            } else {
                total += project.bytes;
            }
        }
        Ok(removed)
    }

    /// Removes all snapshots, and returns how many projects had some.
    pub fn clear(&self) -> io::Result<usize> {
        let projects = self.projects();
        for project in &projects {
            remove(&project.repository)?;
        }
        Ok(projects.len())
    }

    /// Removes the archives of older formats, and returns how many there were.
    pub fn clear_legacy(&self) -> io::Result<usize> {
        let archives = self.legacy_archives();
        for (folder, _) in &archives {
            fs::remove_dir_all(folder)?;
        }
        Ok(archives.len())
    }

    fn folders(&self) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.base).into_iter().flatten().flatten();
        // A link is not followed: what it leads to is not this program's.
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
    }
}

fn project(folder: &Path) -> CheckpointProject {
    let repository = Repository::at(folder.to_owned());
    let named = fs::read_to_string(folder.join("HERMES_WORKDIR")).ok();
    let history = repository.history(MOST_HISTORY).unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "seconds of a date")]
    let newest = history.first().map(|(_, commit)| Timestamp(commit.seconds as f64));
    CheckpointProject {
        project: named.map(|text| PathBuf::from(text.trim())).filter(|path| path.is_absolute()),
        snapshots: history.len(),
        bytes: size(folder),
        newest,
        repository: folder.to_owned(),
    }
}

fn seconds(project: &CheckpointProject) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
    project.newest.map_or(0, |at| at.seconds() as i64)
}

/// Removes a repository while no other process takes a snapshot in it.
fn remove(folder: &Path) -> io::Result<()> {
    let lock = Repository::at(folder.to_owned()).lock()?;
    // Without it, the rest is no repository, and a removal that is cut off leaves nothing half usable.
    fs::remove_file(folder.join("HEAD"))?;
    let removed = fs::remove_dir_all(folder);
    drop(lock);
    removed
}

/// Returns the size of the files in a folder. Links are not followed.
fn size(folder: &Path) -> u64 {
    let mut total = 0;
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                Ok(kind) if kind.is_file() => total += entry.metadata().map_or(0, |data| data.len()),
                _ => {}
            }
        }
    }
    total
}
