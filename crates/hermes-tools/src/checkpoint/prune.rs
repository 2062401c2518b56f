//! Removes the oldest snapshots: history is cut off as in a shallow clone, and objects that only they used are
//! removed.
//!
//! Objects that git has packed are left to git. Invariant: every object that the kept snapshots and the cache
//! refer to is kept.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use hermes_types::Timestamp;

use super::encoding::{TreeEntryMode, decode_tree};
use super::object::{ObjectId, ObjectKind};
use super::repository::Repository;
use super::tree::cached_ids;

/// The number of excess snapshots that may accumulate before the store is scanned.
const SLACK: usize = 10;

/// The minimum age of a removed object, because a younger one may belong to a snapshot that another process is
/// taking.
const SETTLED: Duration = Duration::from_hours(1);

/// Removes all but the newest `most` snapshots.
pub(super) fn prune(repository: &Repository, most: usize, now: Timestamp) -> io::Result<()> {
    let mut history = repository.history(most + SLACK + 1)?;
    if history.len() <= most + SLACK {
        return Ok(());
    }
    history.truncate(most);
    let Some((oldest, _)) = history.last() else { return Ok(()) };
    let mut kept: HashSet<ObjectId> = cached_ids(&repository.folder).collect();
    for (id, commit) in &history {
        kept.insert(*id);
        mark(repository, commit.tree, &mut kept)?;
    }
    repository.cut_below(*oldest)?;
    let now = SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(now.seconds()).unwrap_or_default();
    for folder in fs::read_dir(repository.folder.join("objects"))?.flatten() {
        let front = folder.file_name().to_string_lossy().into_owned();
        if front.len() != 2 {
            continue;
        }
        for entry in fs::read_dir(folder.path())?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let id = ObjectId::parse(&format!("{front}{name}"));
            let is_ours = id.is_some() || name.starts_with("tmp_obj_");
            let age = entry.metadata().and_then(|meta| meta.modified()).ok();
            let is_old = age.and_then(|made| now.duration_since(made).ok()).is_some_and(|age| age > SETTLED);
            if is_ours && is_old && id.is_none_or(|id| !kept.contains(&id)) {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// Marks every object that a tree refers to.
fn mark(repository: &Repository, tree: ObjectId, kept: &mut HashSet<ObjectId>) -> io::Result<()> {
    let mut waiting = vec![tree];
    while let Some(id) = waiting.pop() {
        if !kept.insert(id) {
            continue;
        }
        let bytes = repository.objects.read_as(id, ObjectKind::Tree)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("tree {id} is damaged"));
        for entry in decode_tree(&bytes).ok_or_else(damaged)? {
            if entry.mode == TreeEntryMode::Folder {
                waiting.push(entry.id);
            } else {
                kept.insert(entry.id);
            }
        }
    }
    Ok(())
}
