//! The files of a project as they are now: which there are, and which object each is.
//!
//! What did not change since the last look is not read again. Invariant: what the excludes and ignore files name, other
//! repositories' insides and our own store are never in it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hermes_types::Clock;
use ignore::WalkBuilder;

use super::effort::Effort;
use super::encoding::{Mode, TreeEntry, decode_tree, encode_tree};
use super::object::{Id, Kind, hash_bytes, hash_file};
use super::repository::Repository;

const MOST_ENTRIES: usize = 50_000;
/// A file that changed this shortly ago may change again without its times telling.
const SETTLED: i64 = 2_000_000_000;

/// Files by their path below the project.
pub(super) type Contents = BTreeMap<PathBuf, (Mode, Id)>;

/// Whether looking at the files also puts them into the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Yes,
    No,
}

/// Looks at every file of the project.
pub(super) fn look(
    repository: &Repository,
    root: &Path,
    store: &Path,
    effort: Effort<'_>,
    keep: Keep,
) -> io::Result<Contents> {
    let mut cache = Cache::load(&repository.folder, effort.clock);
    let store = store.to_owned();
    let mut walk = WalkBuilder::new(root);
    walk.standard_filters(false).git_ignore(true).require_git(false).parents(false);
    walk.add_ignore(repository.exclude_file());
    walk.filter_entry(move |entry| {
        let name = entry.file_name().as_bytes();
        name != b".git" && name != b".env" && !name.starts_with(b".env.") && entry.path() != store
    });
    let mut contents = Contents::new();
    let mut seen = 0;
    for entry in walk.build().flatten() {
        seen += 1;
        if seen > MOST_ENTRIES {
            return Err(io::Error::other(format!("it has more than {MOST_ENTRIES} files and folders")));
        }
        if let Err(enough) = effort.check() {
            if keep == Keep::Yes {
                cache.take_over();
                cache.save(&repository.folder);
            }
            return Err(enough);
        }
        if entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > effort.largest) {
            continue;
        }
        let Ok(relative) = entry.path().strip_prefix(root) else { continue };
        // A file that goes away or changes while it is read is left out, as if it had not been there.
        if let Ok(Some(found)) = look_at(repository, entry.path(), relative, &mut cache, keep) {
            contents.insert(relative.to_owned(), found);
        }
    }
    if keep == Keep::Yes {
        cache.save(&repository.folder);
    }
    Ok(contents)
}

/// Adds files that the excludes leave out, where they are there: what is about to be overwritten is kept too.
pub(super) fn include<'a>(
    repository: &Repository,
    root: &Path,
    paths: impl IntoIterator<Item = &'a PathBuf>,
    contents: &mut Contents,
) {
    let mut cache = Cache::default();
    for path in paths {
        if !contents.contains_key(path)
            && let Ok(Some(found)) = look_at(repository, &root.join(path), path, &mut cache, Keep::Yes)
        {
            contents.insert(path.clone(), found);
        }
    }
}

fn look_at(
    repository: &Repository,
    path: &Path,
    relative: &Path,
    cache: &mut Cache,
    keep: Keep,
) -> io::Result<Option<(Mode, Id)>> {
    let meta = fs::symlink_metadata(path)?;
    if meta.file_type().is_symlink() {
        let target = fs::read_link(path)?;
        let target = target.as_os_str().as_bytes();
        let id = match keep {
            Keep::Yes => repository.objects.write(Kind::Blob, target)?,
            Keep::No => hash_bytes(target),
        };
        return Ok(Some((Mode::Link, id)));
    }
    if !meta.is_file() {
        return Ok(None);
    }
    let mode = if meta.permissions().mode() & 0o100 == 0 { Mode::File } else { Mode::Executable };
    if let Some(id) = cache.known(relative, &meta) {
        return Ok(Some((mode, id)));
    }
    let id = match keep {
        Keep::Yes => repository.objects.write_file(path)?,
        Keep::No => hash_file(path)?,
    };
    if keep == Keep::Yes {
        cache.learn(relative, &meta, id);
    }
    Ok(Some((mode, id)))
}

/// Writes the folders' objects and answers the top one.
pub(super) fn write_tree(repository: &Repository, contents: &Contents) -> io::Result<Id> {
    let mut top = Folder::default();
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
struct Folder {
    folders: BTreeMap<Vec<u8>, Folder>,
    files: Vec<TreeEntry>,
}

impl Folder {
    fn write(self, repository: &Repository) -> io::Result<Id> {
        let mut entries = self.files;
        for (name, folder) in self.folders {
            entries.push(TreeEntry { mode: Mode::Folder, name, id: folder.write(repository)? });
        }
        repository.objects.write(Kind::Tree, &encode_tree(entries))
    }
}

/// The files a snapshot holds.
pub(super) fn read_tree(repository: &Repository, tree: Id) -> io::Result<Contents> {
    let mut contents = Contents::new();
    let mut waiting = vec![(PathBuf::new(), tree)];
    while let Some((folder, id)) = waiting.pop() {
        let bytes = repository.objects.read_as(id, Kind::Tree)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("tree {id} is damaged"));
        for entry in decode_tree(&bytes).ok_or_else(damaged)? {
            if !is_plain_name(&entry.name) {
                return Err(damaged());
            }
            let path = folder.join(OsStr::from_bytes(&entry.name));
            match entry.mode {
                Mode::Folder => waiting.push((path, entry.id)),
                Mode::Repository => {}
                mode => {
                    contents.insert(path, (mode, entry.id));
                }
            }
        }
    }
    Ok(contents)
}

/// A name that stays in its folder: a store others can write to must not lead a restore elsewhere.
fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name != b"."
        && name != b".."
        && !name.eq_ignore_ascii_case(b".git")
        && !name.contains(&b'/')
}

/// Which object each file was when it was last looked at, told by its size and times.
#[derive(Default)]
struct Cache {
    known: HashMap<Vec<u8>, (Signature, Id)>,
    fresh: HashMap<Vec<u8>, (Signature, Id)>,
    /// In nanoseconds since 1970.
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

/// Every object the cache counts on.
pub(super) fn cached_ids(folder: &Path) -> impl Iterator<Item = Id> {
    let bytes = fs::read(folder.join(CACHE_FILE)).unwrap_or_default();
    let known: Vec<Id> =
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

    /// `ID SIZE INODE MODIFIED CHANGED PATH`.
    fn parse(record: &[u8]) -> Option<(Vec<u8>, (Signature, Id))> {
        let mut parts = record.splitn(6, |byte| *byte == b' ');
        let mut text = || std::str::from_utf8(parts.next()?).ok();
        let id = Id::parse(text()?)?;
        let size = text()?.parse().ok()?;
        let inode = text()?.parse().ok()?;
        let modified = text()?.parse().ok()?;
        let changed = text()?.parse().ok()?;
        Some((parts.next()?.to_vec(), (Signature { size, inode, modified, changed }, id)))
    }

    fn known(&mut self, path: &Path, meta: &Metadata) -> Option<Id> {
        let key = path.as_os_str().as_bytes();
        let (signature, id) = *self.known.get(key)?;
        if signature != Signature::of(meta) {
            return None;
        }
        self.fresh.insert(key.to_vec(), (signature, id));
        Some(id)
    }

    fn learn(&mut self, path: &Path, meta: &Metadata, id: Id) {
        let signature = Signature::of(meta);
        if signature.modified.max(signature.changed) < self.now.saturating_sub(SETTLED) {
            self.fresh.insert(path.as_os_str().as_bytes().to_vec(), (signature, id));
        }
    }

    /// Counts on what was known and not looked at this time, too.
    fn take_over(&mut self) {
        for (path, known) in std::mem::take(&mut self.known) {
            self.fresh.entry(path).or_insert(known);
        }
    }

    /// A cache that cannot be written only costs time.
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
