//! The git repository that holds a project's snapshots: its folder, its branch and its history.
//!
//! Its work tree is the project. Any git can read it. Invariant: the branch is updated only after every object
//! it refers to was written.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hermes_types::Timestamp;
use sha2::{Digest, Sha256};

use super::encoding::{Commit, decode_commit, encode_commit};
use super::object::{ObjectId, ObjectKind, ObjectStore};

/// Files that are never in a snapshot, because they can be generated again or hold secrets.
const EXCLUDE: &[&str] = &[
    "node_modules/",
    "dist/",
    "build/",
    ".env",
    ".env.*",
    ".env.local",
    ".env.*.local",
    "__pycache__/",
    "*.pyc",
    "*.pyo",
    ".DS_Store",
    "*.log",
    ".cache/",
    ".next/",
    ".nuxt/",
    "coverage/",
    ".pytest_cache/",
    ".venv/",
    "venv/",
    ".git/",
];

/// The age after which a lock is treated as left by a crashed process.
const STALE_LOCK: Duration = Duration::from_mins(10);

const BRANCH: &str = "refs/heads/master";

/// The repository of one project.
#[derive(Debug)]
pub(super) struct Repository {
    pub(super) folder: PathBuf,
    pub(super) objects: ObjectStore,
}

impl Repository {
    /// Returns the repository of a project, whether it exists or not. `root` is the project's real path.
    pub(super) fn of(base: &Path, root: &Path) -> Self {
        let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
        let mut name = String::new();
        for byte in digest.iter().take(8) {
            // Writing to a `String` cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        Self::at(base.join(name))
    }

    /// Returns the repository in a folder.
    pub(super) fn at(folder: PathBuf) -> Self {
        let objects = ObjectStore::new(folder.join("objects"));
        Self { folder, objects }
    }

    pub(super) fn exists(&self) -> bool {
        self.folder.join("HEAD").exists()
    }

    /// Creates the files of a git repository; existing ones are kept.
    pub(super) fn prepare(&self, root: &Path) -> io::Result<()> {
        if self.exists() {
            return Ok(());
        }
        // The content of a project is private, whatever the modes of its files are.
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        let quoted = root.display().to_string().replace('\\', r"\\").replace('"', "\\\"");
        let config = format!(
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tworktree = \"{quoted}\"\n[user]\n\tname = Hermes Checkpoint\n\temail = hermes@local\n"
        );
        self.put("config", &config)?;
        self.put("info/exclude", &(EXCLUDE.join("\n") + "\n"))?;
        self.put("HERMES_WORKDIR", &format!("{}\n", root.display()))?;
        // `HEAD` is written last, because its presence means that the repository is complete.
        self.put("HEAD", &format!("ref: {BRANCH}\n"))
    }

    fn put(&self, name: &str, text: &str) -> io::Result<()> {
        let place = self.folder.join(name);
        if place.exists() { Ok(()) } else { fs::write(place, text) }
    }

    pub(super) fn exclude_file(&self) -> PathBuf {
        self.folder.join("info/exclude")
    }

    /// Returns the branch that `HEAD` names.
    fn branch(&self) -> String {
        let head = fs::read_to_string(self.folder.join("HEAD")).unwrap_or_default();
        let named = head.trim().strip_prefix("ref:").map(str::trim);
        named.filter(|name| name.starts_with("refs/") && !name.contains("..")).unwrap_or(BRANCH).to_owned()
    }

    /// Returns the newest snapshot.
    pub(super) fn head(&self) -> Option<ObjectId> {
        let branch = self.branch();
        if let Ok(text) = fs::read_to_string(self.folder.join(&branch)) {
            return ObjectId::parse(text.trim());
        }
        let packed = fs::read_to_string(self.folder.join("packed-refs")).ok()?;
        packed.lines().find_map(|line| {
            let (id, name) = line.split_once(' ')?;
            (name.trim() == branch).then(|| ObjectId::parse(id)).flatten()
        })
    }

    /// Locks out other Hermes processes until the file is dropped.
    pub(super) fn lock(&self) -> io::Result<File> {
        let file =
            File::options().create(true).truncate(false).write(true).open(self.folder.join("hermes.lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Makes history begin at this snapshot; older objects may be missing from then on.
    pub(super) fn cut_below(&self, oldest: ObjectId) -> io::Result<()> {
        let temporary = self.folder.join("shallow.lock");
        fs::write(&temporary, format!("{oldest}\n"))?;
        fs::rename(&temporary, self.folder.join("shallow"))
    }

    pub(super) fn commit(&self, id: ObjectId) -> io::Result<Commit> {
        let bytes = self.objects.read_as(id, ObjectKind::Commit)?;
        decode_commit(&bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("commit {id} is damaged")))
    }

    /// Lists snapshots, newest first.
    pub(super) fn history(&self, most: usize) -> io::Result<Vec<(ObjectId, Commit)>> {
        let cut = fs::read_to_string(self.folder.join("shallow")).unwrap_or_default();
        let first: Vec<ObjectId> = cut.lines().filter_map(|line| ObjectId::parse(line.trim())).collect();
        let mut found = Vec::new();
        let mut next = self.head();
        while let Some(id) = next.filter(|_| found.len() < most) {
            let commit = match self.commit(id) {
                Ok(commit) => commit,
                // A missing older snapshot, which was pruned, must not hide the newer ones.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !found.is_empty() => break,
                Err(error) => return Err(error),
            };
            next = commit.parent.filter(|_| !first.contains(&id));
            found.push((id, commit));
        }
        Ok(found)
    }

    /// Adds a snapshot of a tree to the branch, unless the newest one is the same.
    pub(super) fn add(&self, tree: ObjectId, message: &str, at: Timestamp) -> io::Result<Option<ObjectId>> {
        let branch = self.folder.join(self.branch());
        let lock = BranchLock::take(&branch, at)?;
        let parent = self.head();
        if let Some(parent) = parent
            && self.commit(parent).is_ok_and(|newest| newest.tree == tree)
        {
            return Ok(None);
        }
        #[expect(clippy::cast_possible_truncation, reason = "seconds of a date")]
        let at = at.seconds() as i64;
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let commit = encode_commit(&Commit { tree, parent, seconds: at, message });
        let id = self.objects.write(ObjectKind::Commit, &commit)?;
        lock.commit(id)?;
        Ok(Some(id))
    }
}

/// Locks a branch the way git does: with a lock file that is renamed to the branch.
struct BranchLock {
    place: PathBuf,
    branch: PathBuf,
    file: File,
}

impl BranchLock {
    fn take(branch: &Path, now: Timestamp) -> io::Result<Self> {
        let place = branch.with_extension("lock");
        if let Some(parent) = branch.parent() {
            fs::create_dir_all(parent)?;
        }
        let now = SystemTime::UNIX_EPOCH + Duration::try_from_secs_f64(now.seconds()).unwrap_or_default();
        let stale = fs::metadata(&place).and_then(|meta| meta.modified()).ok();
        if stale.and_then(|made| now.duration_since(made).ok()).is_some_and(|age| age > STALE_LOCK) {
            fs::remove_file(&place)?;
        }
        let file = File::create_new(&place)?;
        Ok(Self { place, branch: branch.to_owned(), file })
    }

    fn commit(mut self, id: ObjectId) -> io::Result<()> {
        writeln!(self.file, "{id}")?;
        self.file.sync_all()?;
        fs::rename(&self.place, &self.branch)
    }
}

impl Drop for BranchLock {
    fn drop(&mut self) {
        // After a commit no lock file is left to remove.
        let _ = fs::remove_file(&self.place);
    }
}
