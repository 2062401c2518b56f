//! An index of the folders below the roots of a conversation, and of those that git would read.
//!
//! A folder is read again when its entries have changed, which the kernel records in a time that no process
//! can set.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Limits how many folders are indexed; those near the root come first.
const MOST_FOLDERS: usize = 30_000;
/// The time before the last scan within which a changed folder may have changed again unnoticed.
const RACY_NANOS: i128 = 100_000_000;
/// The data folders of a repository's own folder.
const DATA: &[&str] = &["objects", "refs", "logs", "lfs", "rr-cache"];

type FolderStamp = (u64, u64, i128);

/// A root, and the depth to which it is scanned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScanRoot {
    pub(super) path: PathBuf,
    pub(super) depth: usize,
    /// Tells whether entries whose names begin with a dot are left out.
    pub(super) skip_hidden: bool,
}

#[derive(Debug)]
struct ScannedFolder {
    stamp: FolderStamp,
    depth: usize,
    found: GitRole,
}

/// Describes what a folder is to git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct GitRole {
    /// Tells whether git takes the folder for a repository.
    repository: bool,
    /// Tells whether the folder has an entry `.git` that is not a folder.
    link: bool,
}

/// The index of the folders.
#[derive(Debug)]
pub(super) struct FolderIndex {
    roots: Vec<ScanRoot>,
    known: BTreeMap<PathBuf, ScannedFolder>,
    newest: i128,
}

impl FolderIndex {
    pub(super) fn new(roots: Vec<ScanRoot>) -> Self {
        Self { roots, known: BTreeMap::new(), newest: 0 }
    }

    /// Scans again what has changed.
    pub(super) fn refresh(&mut self) {
        let racy = self.newest - RACY_NANOS;
        let mut waiting: VecDeque<(PathBuf, usize)> = VecDeque::new();
        let mut gone: Vec<PathBuf> = Vec::new();
        for (path, folder) in &self.known {
            match stamp(path) {
                Some(now) if now == folder.stamp && now.2 < racy => {}
                Some(_) => waiting.push_back((path.clone(), folder.depth)),
                None => gone.push(path.clone()),
            }
        }
        for path in gone {
            self.known.remove(&path);
        }
        for root in self.roots.clone() {
            if !self.known.contains_key(&root.path) {
                waiting.push_back((root.path, 0));
            }
        }
        while let Some((path, depth)) = waiting.pop_front() {
            self.read(&path, depth, &mut waiting);
        }
    }

    fn read(&mut self, path: &Path, depth: usize, waiting: &mut VecDeque<(PathBuf, usize)>) {
        // The stamp is read before the entries, so that an entry that is added meanwhile is found by the next
        // scan.
        let Some(stamp) = stamp(path) else {
            self.known.remove(path);
            return;
        };
        let Some(root) = self
            .roots
            .iter()
            .filter(|root| path.starts_with(&root.path))
            .max_by_key(|root| root.path.as_os_str().len())
            .cloned()
        else {
            return;
        };
        let entries: Vec<fs::DirEntry> = fs::read_dir(path).into_iter().flatten().flatten().collect();
        let names: BTreeSet<_> = entries.iter().map(fs::DirEntry::file_name).collect();
        let has = |name: &str| names.contains(OsStr::new(name));
        let is_git = path.file_name() == Some(OsStr::new(".git"));
        let repository = is_git || has("HEAD") && (has("objects") && has("refs") || has("commondir"));
        let mut link = false;
        self.newest = self.newest.max(stamp.2);
        for entry in &entries {
            let (name, kind) = (entry.file_name(), entry.file_type());
            let is_folder = kind.is_ok_and(|kind| kind.is_dir());
            let git = name.eq_ignore_ascii_case(".git");
            link |= git && !is_folder;
            let data = repository && DATA.iter().any(|data| name == *data);
            let left_out =
                root.skip_hidden && path == root.path && name.as_encoded_bytes().starts_with(b".") && !git;
            if !is_folder || data || left_out || depth >= root.depth && !git {
                continue;
            }
            let below = entry.path();
            if !self.known.contains_key(&below) && self.known.len() + waiting.len() < MOST_FOLDERS {
                waiting.push_back((below, depth + 1));
            }
        }
        self.known
            .insert(path.to_owned(), ScannedFolder { stamp, depth, found: GitRole { repository, link } });
    }

    pub(super) fn repositories(&self) -> Vec<PathBuf> {
        self.known
            .iter()
            .filter(|(_, folder)| folder.found.repository)
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// Tells whether a folder lies below one of the roots.
    pub(super) fn contains(&self, folder: &Path) -> bool {
        self.roots.iter().any(|root| folder.starts_with(&root.path))
    }

    /// Returns the entries named `.git` that are not folders.
    pub(super) fn links(&self) -> Vec<PathBuf> {
        self.known.iter().filter(|(_, folder)| folder.found.link).map(|(path, _)| path.join(".git")).collect()
    }
}

fn stamp(path: &Path) -> Option<FolderStamp> {
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir)?;
    let changed = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
    Some((found.dev(), found.ino(), changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_would_look_into_is_found_when_it_appears() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir_all(root.join(".git/objects/x")).unwrap();
        let mut folders =
            FolderIndex::new(vec![ScanRoot { path: root.clone(), depth: usize::MAX, skip_hidden: false }]);
        folders.refresh();
        assert_eq!(folders.repositories(), [root.join(".git")]);
        for part in ["objects", "refs"] {
            fs::create_dir_all(root.join("a/b/c").join(part)).unwrap();
        }
        fs::write(root.join("a/b/c/HEAD"), "ref: refs/heads/x\n").unwrap();
        fs::write(root.join("a/.git"), "gitdir: /x\n").unwrap();
        folders.refresh();
        assert_eq!(folders.repositories(), [root.join(".git"), root.join("a/b/c")]);
        assert_eq!(folders.links(), [root.join("a/.git")]);
        fs::rename(root.join("a"), root.join("z")).unwrap();
        folders.refresh();
        assert_eq!(folders.repositories(), [root.join(".git"), root.join("z/b/c")]);
        fs::remove_dir_all(root.join("z")).unwrap();
        folders.refresh();
        assert_eq!((folders.repositories(), folders.links()), (vec![root.join(".git")], Vec::new()));
    }
}
