//! Compares two states of a project.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use hermes_text::{DiffLine, diff_lines, unified_diff};

use super::encoding::TreeEntryMode;
use super::object::{ObjectId, ObjectKind};
use super::repository::Repository;
use super::tree::TreeContents;

/// The size above which a file is listed without its differences.
const MOST_BYTES: usize = 1024 * 1024;

/// The extent of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    pub files: usize,
    pub insertions: usize,
    pub deletions: usize,
}

/// A file that differs.
#[derive(Debug)]
pub(super) struct FileDifference {
    pub(super) path: PathBuf,
    pub(super) old: Option<(TreeEntryMode, ObjectId)>,
    pub(super) new: Option<(TreeEntryMode, ObjectId)>,
}

pub(super) fn differences(old: &TreeContents, new: &TreeContents) -> Vec<FileDifference> {
    let gone = old.iter().filter(|(path, found)| new.get(*path) != Some(found)).map(|(path, found)| {
        FileDifference { path: path.clone(), old: Some(*found), new: new.get(path).copied() }
    });
    let added = new.iter().filter(|(path, _)| !old.contains_key(*path)).map(|(path, found)| FileDifference {
        path: path.clone(),
        old: None,
        new: Some(*found),
    });
    let mut found: Vec<FileDifference> = gone.chain(added).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The source of the texts of the new side.
pub(super) enum DiffSide<'a> {
    Stored,
    /// The current files in this folder.
    Folder(&'a Path),
}

/// Returns the text of a file on one side. Returns `None` if it is binary or too large to compare.
fn text(
    repository: &Repository,
    found: Option<(TreeEntryMode, ObjectId)>,
    file: Option<PathBuf>,
) -> Option<String> {
    let Some((mode, id)) = found else { return Some(String::new()) };
    let bytes = match file {
        Some(file) if mode == TreeEntryMode::Link => {
            fs::read_link(file).ok()?.into_os_string().into_encoded_bytes()
        }
        Some(file) if fs::metadata(&file).is_ok_and(|meta| meta.len() <= MOST_BYTES as u64) => {
            fs::read(file).ok()?
        }
        Some(_) => return None,
        None => repository.objects.read_as(id, ObjectKind::Blob).ok()?,
    };
    if bytes.len() > MOST_BYTES || bytes.contains(&0) {
        return None;
    }
    String::from_utf8(bytes).ok()
}

fn texts(
    repository: &Repository,
    difference: &FileDifference,
    side: &DiffSide<'_>,
) -> Option<(String, String)> {
    let file = match side {
        DiffSide::Stored => None,
        DiffSide::Folder(root) => Some(root.join(&difference.path)),
    };
    Some((text(repository, difference.old, None)?, text(repository, difference.new, file)?))
}

/// Counts the changes between two snapshots.
pub(super) fn count(repository: &Repository, old: &TreeContents, new: &TreeContents) -> ChangeCounts {
    let mut counts = ChangeCounts::default();
    for difference in differences(old, new) {
        counts.files += 1;
        if let Some((old, new)) = texts(repository, &difference, &DiffSide::Stored) {
            let (added, removed) = changed_lines(&old, &new);
            counts.insertions += added;
            counts.deletions += removed;
        }
    }
    counts
}

fn changed_lines(old: &str, new: &str) -> (usize, usize) {
    let lines = diff_lines(old, new);
    let added = lines.iter().filter(|line| matches!(line, DiffLine::Added(_))).count();
    let removed = lines.iter().filter(|line| matches!(line, DiffLine::Removed(_))).count();
    (added, removed)
}

/// Renders one line per file, and the differences.
pub(super) fn describe(
    repository: &Repository,
    found: &[FileDifference],
    side: &DiffSide<'_>,
) -> (String, String) {
    let (mut stat, mut diff) = (String::new(), String::new());
    for difference in found {
        let path = difference.path.display();
        let Some((old, new)) = texts(repository, difference, side) else {
            let _ = writeln!(stat, " {path} | binary or large");
            continue;
        };
        let (added, removed) = changed_lines(&old, &new);
        let _ = writeln!(stat, " {path} | +{added} -{removed}");
        let name = |side: Option<(TreeEntryMode, ObjectId)>, letter: char| match side {
            Some(_) => format!("{letter}/{path}"),
            None => "/dev/null".to_owned(),
        };
        diff += &unified_diff(&old, &new, &name(difference.old, 'a'), &name(difference.new, 'b'));
    }
    (stat, diff)
}
