//! The current files of a project, and the object id of each.
//!
//! Files that have not changed since the last scan are not read again. Invariant: files that the excludes and
//! ignore files name, the content of nested repositories and the snapshot store are never included.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hermes_types::Clock;
use ignore::WalkBuilder;

use super::budget::SnapshotBudget;
use super::encoding::{TreeEntry, TreeEntryMode, decode_tree, encode_tree};
use super::object::{ObjectId, ObjectKind, hash_bytes, hash_file};
use super::repository::Repository;

const MOST_ENTRIES: usize = 50_000;
/// The age in nanoseconds that a change must have before its times are trusted, because a newer file may change
/// again without a visible difference.
const SETTLED: i64 = 2_000_000_000;

/// Files by their path relative to the project.
pub(super) type TreeContents = BTreeMap<PathBuf, (TreeEntryMode, ObjectId)>;

/// Selects whether a scan also stores the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlobStorage {
    Store,
    HashOnly,
}

/// Scans every file of the project.
pub(super) fn scan(
    repository: &Repository,
    root: &Path,
    store: &Path,
    effort: SnapshotBudget<'_>,
    keep: BlobStorage,
) -> io::Result<TreeContents> {
    let mut cache = Cache::load(&repository.folder, effort.clock);
    let store = store.to_owned();
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).git_ignore(true).require_git(false).parents(false);
    walk.add_ignore(repository.exclude_file());
    walk.filter_entry(move |entry| {
        let name = entry.file_name().as_bytes();
        name != b".git" && name != b".env" && !name.starts_with(b".env.") && entry.path() != store
    });
    let mut contents = TreeContents::new();
    let mut seen = 0;
    for entry in walk.build().flatten() {
        seen += 1;
        if seen > MOST_ENTRIES {
            return Err(io::Error::other(format!("it has more than {MOST_ENTRIES} files and folders")));
        }
        if let Err(enough) = effort.check() {
            if keep == BlobStorage::Store {
                cache.keep_unvisited();
                cache.save(&repository.folder);
            }
            return Err(enough);
        }
        if entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > effort.max_file_bytes) {
            continue;
        }
        let Ok(relative) = entry.path().strip_prefix(root) else { continue };
        // A file that disappears or changes while it is read is left out.
        if let Ok(Some(found)) = scan_file(repository, entry.path(), relative, &mut cache, keep) {
            contents.insert(relative.to_owned(), found);
        }
    }
    if keep == BlobStorage::Store {
        cache.save(&repository.folder);
    }
    Ok(contents)
}

/// Adds existing files that the excludes leave out, because they are about to be overwritten.
pub(super) fn include<'a>(
    repository: &Repository,
    root: &Path,
    paths: impl IntoIterator<Item = &'a PathBuf>,
    contents: &mut TreeContents,
) {
    let mut cache = Cache::default();
    for path in paths {
        if !contents.contains_key(path)
            && let Ok(Some(found)) =
                scan_file(repository, &root.join(path), path, &mut cache, BlobStorage::Store)
        {
            contents.insert(path.clone(), found);
        }
    }
}

fn scan_file(
    repository: &Repository,
    path: &Path,
    relative: &Path,
    cache: &mut Cache,
    keep: BlobStorage,
) -> io::Result<Option<(TreeEntryMode, ObjectId)>> {
    let meta = fs::symlink_metadata(path)?;
    if meta.file_type().is_symlink() {
        let target = fs::read_link(path)?;
        let target = target.as_os_str().as_bytes();
        let id = match keep {
            BlobStorage::Store => repository.objects.write(ObjectKind::Blob, target)?,
            BlobStorage::HashOnly => hash_bytes(target),
        };
        return Ok(Some((TreeEntryMode::Link, id)));
    }
    if !meta.is_file() {
        return Ok(None);
    }
    let mode =
        if meta.permissions().mode() & 0o100 == 0 { TreeEntryMode::File } else { TreeEntryMode::Executable };
    if let Some(id) = cache.known(relative, &meta) {
        return Ok(Some((mode, id)));
    }
    let id = match keep {
        BlobStorage::Store => repository.objects.write_file(path)?,
        BlobStorage::HashOnly => hash_file(path)?,
    };
    if keep == BlobStorage::Store {
        cache.insert(relative, &meta, id);
    }
    Ok(Some((mode, id)))
}

/// Writes the tree objects of all folders and returns the root tree.
pub(super) fn write_tree(repository: &Repository, contents: &TreeContents) -> io::Result<ObjectId> {
    let mut top = TreeFolder::default();
    for (path, (mode, id)) in contents {
        let mut parts: Vec<&OsStr> = path.iter().collect();
        let Some(name) = parts.pop() else { continue };
        let mut folder = &mut top;
        for part in parts {
            folder = folder.folders.entry(part.as_bytes().to_vec()).or_default();
        }
        folder.files.push(TreeEntry { mode: *mode, name: name.as_bytes().to_vec(), id: *id });
    }
    top.write(repository)
}

#[derive(Default)]
struct TreeFolder {
    folders: BTreeMap<Vec<u8>, TreeFolder>,
    files: Vec<TreeEntry>,
}

impl TreeFolder {
    fn write(self, repository: &Repository) -> io::Result<ObjectId> {
        let mut entries = self.files;
        for (name, folder) in self.folders {
            entries.push(TreeEntry { mode: TreeEntryMode::Folder, name, id: folder.write(repository)? });
        }
        repository.objects.write(ObjectKind::Tree, &encode_tree(entries))
    }
}

/// Reads the files of a snapshot.
pub(super) fn read_tree(repository: &Repository, tree: ObjectId) -> io::Result<TreeContents> {
    let mut contents = TreeContents::new();
    let mut waiting = vec![(PathBuf::new(), tree)];
    while let Some((folder, id)) = waiting.pop() {
        let bytes = repository.objects.read_as(id, ObjectKind::Tree)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("tree {id} is damaged"));
        for entry in decode_tree(&bytes).ok_or_else(damaged)? {
            if !is_plain_name(&entry.name) {
                return Err(damaged());
            }
            let path = folder.join(OsStr::from_bytes(&entry.name));
            match entry.mode {
                TreeEntryMode::Folder => waiting.push((path, entry.id)),
                TreeEntryMode::Repository => {}
                mode => {
                    contents.insert(path, (mode, entry.id));
                }
            }
        }
    }
    Ok(contents)
}

/// Tells whether a name stays in its folder, because a store that others can write to must not redirect a
/// restore.
fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name != b"."
        && name != b".."
        && !name.eq_ignore_ascii_case(b".git")
        && !name.contains(&b'/')
}

/// The object id of each file at the last scan, keyed by path and validated by size, inode and times.
#[derive(Default)]
struct Cache {
    known: HashMap<Vec<u8>, (Signature, ObjectId)>,
    fresh: HashMap<Vec<u8>, (Signature, ObjectId)>,
    /// The current time in nanoseconds since 1970.
    now: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signature {
    size: u64,
    inode: u64,
    modified: i64,
    changed: i64,
}

impl Signature {
    fn of(meta: &Metadata) -> Self {
        let nanos = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            size: meta.len(),
            inode: meta.ino(),
            modified: nanos(meta.mtime(), meta.mtime_nsec()),
            changed: nanos(meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// Lists every object that the cache refers to.
pub(super) fn cached_ids(folder: &Path) -> impl Iterator<Item = ObjectId> {
    let bytes = fs::read(folder.join(CACHE_FILE)).unwrap_or_default();
    let known: Vec<ObjectId> =
        bytes.split(|byte| *byte == 0).filter_map(Cache::parse).map(|(_, (_, id))| id).collect();
    known.into_iter()
}

const CACHE_FILE: &str = "hermes-stat-cache";

impl Cache {
    fn load(folder: &Path, clock: &dyn Clock) -> Self {
        let bytes = fs::read(folder.join(CACHE_FILE)).unwrap_or_default();
        let known = bytes.split(|byte| *byte == 0).filter_map(Self::parse).collect();
        #[expect(clippy::cast_possible_truncation, reason = "nanoseconds of a date fit")]
        let now = (clock.now().seconds() * 1e9) as i64;
        Self { known, fresh: HashMap::new(), now }
    }

    /// Parses a record `ID SIZE INODE MODIFIED CHANGED PATH`.
    fn parse(record: &[u8]) -> Option<(Vec<u8>, (Signature, ObjectId))> {
        let mut parts = record.splitn(6, |byte| *byte == b' ');
        let mut text = || std::str::from_utf8(parts.next()?).ok();
        let id = ObjectId::parse(text()?)?;
        let size = text()?.parse().ok()?;
        let inode = text()?.parse().ok()?;
        let modified = text()?.parse().ok()?;
        let changed = text()?.parse().ok()?;
        Some((parts.next()?.to_vec(), (Signature { size, inode, modified, changed }, id)))
    }

    fn known(&mut self, path: &Path, meta: &Metadata) -> Option<ObjectId> {
        let key = path.as_os_str().as_bytes();
        let (signature, id) = *self.known.get(key)?;
        if signature != Signature::of(meta) {
            return None;
        }
        self.fresh.insert(key.to_vec(), (signature, id));
        Some(id)
    }

    fn insert(&mut self, path: &Path, meta: &Metadata, id: ObjectId) {
        let signature = Signature::of(meta);
        if signature.modified.max(signature.changed) < self.now.saturating_sub(SETTLED) {
            self.fresh.insert(path.as_os_str().as_bytes().to_vec(), (signature, id));
        }
    }

    /// Keeps the records of files that this scan did not reach.
    fn keep_unvisited(&mut self) {
        for (path, known) in std::mem::take(&mut self.known) {
            self.fresh.entry(path).or_insert(known);
        }
    }

    /// Saves the cache. A failure is ignored, because it only costs time.
    fn save(&self, folder: &Path) {
        let mut bytes = Vec::new();
        for (path, (Signature { size, inode, modified, changed }, id)) in &self.fresh {
            bytes.extend(format!("{id} {size} {inode} {modified} {changed} ").into_bytes());
            bytes.extend(path);
            bytes.push(0);
        }
        let temporary = folder.join(format!("{CACHE_FILE}.{}", hermes_types::random_hex(8)));
        let written =
            fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, folder.join(CACHE_FILE)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
    }
}
