//! Takes snapshots of a project before its files change, and restores them.
//!
//! Each project has its own git repository under the home, which this module reads and writes directly and any
//! git can read. It decides when to take a snapshot and implements the user's commands. Invariants: taking a
//! snapshot never fails the tool that it precedes; restoring takes a snapshot first and removes nothing.

mod budget;
mod compare;
mod destructive;
mod encoding;
mod object;
mod pack;
mod project;
mod prune;
mod repository;
mod restore;
mod storage;
mod tree;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use hermes_config::Home;
use hermes_text::head;
use hermes_types::{Cancel, Clock, Timestamp, TurnId};

use crate::file::real_path;
pub(crate) use budget::SHORT_LIMIT;
use budget::SnapshotBudget;
use compare::{DiffSide, count, describe, differences};
use encoding::Commit;
use object::ObjectId;
use prune::prune;
use repository::Repository;
use tree::{BlobStorage, TreeContents, include, read_tree, scan, write_tree};

pub use compare::ChangeCounts;
pub use destructive::is_destructive;
pub use storage::{CheckpointProject, CheckpointRetention, CheckpointStorage, OrphanedProjects};

const MOST_DIFF_LINES: usize = 80;
const MOST_REASON_CHARS: usize = 60;
const MOST_REMEMBERED: usize = 1000;
/// The default size above which files are left out.
const LARGEST: u64 = 10 * 1024 * 1024;
/// The interval at which a waiting caller checks whether another snapshot is finished.
const LOOK: Duration = Duration::from_millis(5);
/// The number of snapshots searched for a hash, which may exceed the number listed.
const MOST_HISTORY: usize = 10_000;

/// Takes snapshots and restores them.
#[derive(Debug)]
pub struct CheckpointManager {
    base: PathBuf,
    user_home: PathBuf,
    clock: Arc<dyn Clock>,
    max_snapshots: usize,
    largest: u64,
    /// The projects for which a missing snapshot was already reported.
    notified: Mutex<HashSet<PathBuf>>,
    /// The turn of the last snapshot of each project. It is locked while a snapshot is taken, so that a second
    /// write of the same turn waits for it.
    taken: Mutex<HashMap<PathBuf, TurnId>>,
}

/// A snapshot in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    pub hash: String,
    pub taken_at: Timestamp,
    pub reason: String,
    /// The changes since the previous snapshot; none for the first.
    pub counts: Option<ChangeCounts>,
}

impl Checkpoint {
    pub fn short_hash(&self) -> &str {
        head(&self.hash, 8)
    }
}

/// The difference between the project and a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointDiff {
    /// One line per file.
    pub stat: String,
    /// The differences, at most 80 lines.
    pub diff: String,
    pub lines_left_out: usize,
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    pub hash: String,
    pub reason: String,
    /// The files that were written, relative to the project.
    pub files: Vec<PathBuf>,
    /// The files that could not be written, and why.
    pub failed: Vec<(PathBuf, String)>,
    /// The snapshot of the previous state; none if the newest snapshot already held it.
    pub saved: Option<String>,
}

/// The reason why a request about snapshots failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("there are no checkpoints for {0} yet")]
    None(PathBuf),
    #[error("there is no checkpoint {0}; use a number from the list, or a hash of 4 to 64 hex digits")]
    NoSuch(String),
    #[error("{0} must be a path inside the project, without `..`")]
    BadFile(String),
    #[error("{0} is not in that checkpoint")]
    NoSuchFile(String),
    #[error("the checkpoints cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("the current state could not be saved first ({0}); nothing was changed")]
    NotSaved(io::Error),
}

impl CheckpointManager {
    /// Creates a manager that stores snapshots in the home's `checkpoints` and keeps about `max_snapshots` of
    /// each project.
    pub fn new(home: &Home, user_home: PathBuf, clock: Arc<dyn Clock>, max_snapshots: usize) -> Self {
        let base = home.join("checkpoints");
        let user_home = user_home.canonicalize().unwrap_or(user_home);
        Self {
            base,
            user_home,
            clock,
            max_snapshots: max_snapshots.max(1),
            largest: LARGEST,
            notified: Mutex::default(),
            taken: Mutex::default(),
        }
    }

    /// Sets the size in bytes above which files are left out: `checkpoints.max_file_size_mb`.
    #[must_use]
    pub fn with_max_file_size(self, largest: u64) -> Self {
        Self { largest, ..self }
    }

    /// Takes a snapshot of the project before a file changes, once per turn.
    pub fn before_write(&self, turn: &TurnId, path: &Path, reason: &str) {
        let root = project::root_of(&real_path(path), &self.user_home);
        if let Err(error) = self.snapshot_once(turn, &root, reason, &Cancel::new()) {
            tracing::debug!(project = %root.display(), %error, "no checkpoint was taken");
        }
        self.prune(&root);
    }

    /// Takes a snapshot of `folder` before a destructive command runs in it, once per turn. Gives up after
    /// about a second or when `stop` is cancelled. Returns why no snapshot was taken, once for each folder.
    pub fn before_command(
        &self,
        turn: &TurnId,
        folder: &Path,
        command: &str,
        stop: &Cancel,
    ) -> Option<String> {
        if !is_destructive(command) {
            return None;
        }
        let reason = format!("before terminal: {}", head(command.trim(), MOST_REASON_CHARS));
        let error = self.snapshot_once(turn, folder, &reason, stop).err()?;
        tracing::debug!(folder = %folder.display(), %error, "no checkpoint was taken");
        self.notice_once(folder, &error.to_string())
    }

    /// Returns a notice that a folder has no checkpoint, unless it was already reported.
    pub(crate) fn notice_once(&self, folder: &Path, why: &str) -> Option<String> {
        let new = self.notified.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned());
        new.then(|| {
            format!("No checkpoint of {} is taken ({why}): /rollback cannot undo this.", folder.display())
        })
    }

    fn snapshot_once(&self, turn: &TurnId, folder: &Path, reason: &str, stop: &Cancel) -> io::Result<()> {
        let Ok(root) = folder.canonicalize() else { return Ok(()) };
        if project::is_too_wide(&root, &self.user_home) {
            return Ok(());
        }
        let effort = SnapshotBudget::short(&*self.clock, self.largest, stop);
        let mut taken = self.lock_turns(&effort)?;
        if taken.get(&root) == Some(turn) {
            return Ok(());
        }
        if taken.len() >= MOST_REMEMBERED {
            taken.clear();
        }
        taken.insert(root.clone(), turn.clone());
        self.snapshot(&root, reason, &TreeContents::new(), effort).map(|_| ())
    }

    /// Waits for another snapshot to finish, within the budget.
    fn lock_turns(
        &self,
        effort: &SnapshotBudget<'_>,
    ) -> io::Result<MutexGuard<'_, HashMap<PathBuf, TurnId>>> {
        loop {
            match self.taken.try_lock() {
                Ok(taken) => return Ok(taken),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    effort.check()?;
                    std::thread::sleep(LOOK);
                }
            }
        }
    }

    /// Removes the oldest snapshots of a folder. Not for use during a restore, because the snapshot to restore
    /// may be the oldest.
    pub fn prune(&self, folder: &Path) {
        let Ok(root) = folder.canonicalize() else { return };
        let repository = Repository::of(&self.base, &root);
        if !repository.exists() {
            return;
        }
        let pruned =
            repository.lock().and_then(|_alone| prune(&repository, self.max_snapshots, self.clock.now()));
        if let Err(error) = pruned {
            tracing::debug!(project = %root.display(), %error, "old checkpoints were not removed");
        }
    }

    /// Takes a snapshot of the project, including the files in `also` that its excludes leave out. Adds none if
    /// the newest is the same.
    fn snapshot(
        &self,
        root: &Path,
        reason: &str,
        also: &TreeContents,
        effort: SnapshotBudget<'_>,
    ) -> io::Result<(Option<ObjectId>, TreeContents)> {
        let repository = Repository::of(&self.base, root);
        repository.prepare(root)?;
        let _alone = repository.lock()?;
        let mut contents = self.scan_project(&repository, root, effort, BlobStorage::Store)?;
        include(&repository, root, also.keys(), &mut contents);
        if contents.is_empty() && repository.head().is_none() {
            return Ok((None, contents));
        }
        let tree = write_tree(&repository, &contents)?;
        // After a timeout the caller may already have changed files that were not read yet.
        effort.check()?;
        let added = repository.add(tree, reason, self.clock.now())?;
        Ok((added, contents))
    }

    fn scan_project(
        &self,
        repository: &Repository,
        root: &Path,
        effort: SnapshotBudget<'_>,
        keep: BlobStorage,
    ) -> io::Result<TreeContents> {
        let store = self.base.canonicalize().unwrap_or_else(|_| self.base.clone());
        scan(repository, root, &store, effort, keep)
    }

    fn long_budget(&self) -> SnapshotBudget<'_> {
        SnapshotBudget::long(&*self.clock, self.largest)
    }

    /// Lists the snapshots of a folder's project, newest first.
    pub fn list(&self, folder: &Path) -> Result<Vec<Checkpoint>, CheckpointError> {
        let (_, repository) = self.open(folder)?;
        let history = repository.history(self.max_snapshots + 1).map_err(CheckpointError::Unreadable)?;
        let mut found = Vec::new();
        for (at, (id, commit)) in history.iter().enumerate().take(self.max_snapshots) {
            // A snapshot whose changes cannot be counted is still listed.
            let counts = history.get(at + 1).and_then(|(_, before)| {
                let (old, new) = (read_tree(&repository, before.tree), read_tree(&repository, commit.tree));
                Some(count(&repository, &old.ok()?, &new.ok()?))
            });
            #[expect(clippy::cast_precision_loss, reason = "seconds of a date")]
            let at = Timestamp(commit.seconds as f64);
            found.push(Checkpoint {
                hash: id.to_string(),
                taken_at: at,
                reason: commit.message.clone(),
                counts,
            });
        }
        Ok(found)
    }

    /// Compares the project with a snapshot, given by its number in the list or by its hash.
    pub fn diff(&self, folder: &Path, which: &str) -> Result<CheckpointDiff, CheckpointError> {
        let (root, repository) = self.open(folder)?;
        let (_, commit) = find(&repository, which)?;
        let old = read_tree(&repository, commit.tree).map_err(CheckpointError::Unreadable)?;
        let new = self
            .scan_project(&repository, &root, self.long_budget(), BlobStorage::HashOnly)
            .map_err(CheckpointError::Unreadable)?;
        let (stat, diff) = describe(&repository, &differences(&old, &new), &DiffSide::Folder(&root));
        let lines: Vec<&str> = diff.lines().collect();
        let shown = lines.iter().take(MOST_DIFF_LINES).copied().collect::<Vec<_>>().join("\n");
        let lines_left_out = lines.len().saturating_sub(MOST_DIFF_LINES);
        Ok(CheckpointDiff { stat, diff: shown, lines_left_out })
    }

    /// Restores every file of a snapshot. Other files stay unchanged.
    pub fn restore(&self, folder: &Path, which: &str) -> Result<RestoreReport, CheckpointError> {
        self.restore_paths(folder, which, None)
    }

    /// Restores one file of a snapshot; `file` is relative to the folder or to its project.
    pub fn restore_file(
        &self,
        folder: &Path,
        which: &str,
        file: &str,
    ) -> Result<RestoreReport, CheckpointError> {
        let path = Path::new(file.trim());
        let plain = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if file.trim().is_empty() || !plain {
            return Err(CheckpointError::BadFile(file.to_owned()));
        }
        let clean: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
        self.restore_paths(folder, which, Some(&clean))
    }

    fn restore_paths(
        &self,
        folder: &Path,
        which: &str,
        only: Option<&Path>,
    ) -> Result<RestoreReport, CheckpointError> {
        let (root, repository) = self.open(folder)?;
        let (id, commit) = find(&repository, which)?;
        let mut wanted = read_tree(&repository, commit.tree).map_err(CheckpointError::Unreadable)?;
        if let Some(only) = only {
            // The path is relative to the folder if the snapshot holds it there; otherwise to the project.
            let inside = folder
                .canonicalize()
                .ok()
                .and_then(|folder| Some(folder.strip_prefix(&root).ok()?.join(only)));
            let seen = inside.filter(|inside| wanted.keys().any(|path| path.starts_with(inside)));
            let only = seen.as_deref().unwrap_or(only);
            // A folder selects all files in it.
            wanted.retain(|path, _| path.starts_with(only));
            if wanted.is_empty() {
                return Err(CheckpointError::NoSuchFile(only.display().to_string()));
            }
        }
        let _alone = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = id.to_string();
        let reason = format!("pre-rollback snapshot (restoring to {})", head(&hash, 8));
        let (saved, now) =
            self.snapshot(&root, &reason, &wanted, self.long_budget()).map_err(CheckpointError::NotSaved)?;
        let mut restored = RestoreReport {
            hash,
            reason: commit.message,
            files: Vec::new(),
            failed: Vec::new(),
            saved: saved.map(|id| id.to_string()),
        };
        for (path, (mode, id)) in wanted {
            if now.get(&path) == Some(&(mode, id)) {
                continue;
            }
            if !now.contains_key(&path)
                && root.join(&path).symlink_metadata().is_ok_and(|meta| !meta.is_dir())
            {
                restored.failed.push((path, "what is there now could not be saved first".to_owned()));
                continue;
            }
            match restore::restore_file(&repository, &root, &path, mode, id) {
                Ok(()) => restored.files.push(path),
                Err(error) => restored.failed.push((path, error.to_string())),
            }
        }
        Ok(restored)
    }

    /// Opens the snapshots of the folder itself, or of the project that contains it.
    fn open(&self, folder: &Path) -> Result<(PathBuf, Repository), CheckpointError> {
        let folder = folder.canonicalize().map_err(|_| CheckpointError::None(folder.to_owned()))?;
        let project = project::root_of(&folder, &self.user_home);
        [folder.clone(), project]
            .into_iter()
            .map(|root| (Repository::of(&self.base, &root), root))
            .find(|(repository, _)| repository.head().is_some())
            .map(|(repository, root)| (root, repository))
            .ok_or(CheckpointError::None(folder))
    }
}

/// Finds a snapshot by its number, counted from the newest, or by the beginning of its hash.
fn find(repository: &Repository, which: &str) -> Result<(ObjectId, Commit), CheckpointError> {
    let which = which.trim();
    let history = repository.history(MOST_HISTORY).map_err(CheckpointError::Unreadable)?;
    let missing = || CheckpointError::NoSuch(head(which, 80).to_owned());
    if let Some(at) = which.parse::<usize>().ok().and_then(|number| number.checked_sub(1))
        && let Some(found) = history.get(at)
    {
        return Ok(found.clone());
    }
    let is_hash = (4..=64).contains(&which.len()) && which.chars().all(|c| c.is_ascii_hexdigit());
    if !is_hash {
        return Err(missing());
    }
    let start = which.to_ascii_lowercase();
    let mut found = history.into_iter().filter(|(id, _)| id.to_string().starts_with(&start));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(missing()),
    }
}
