//! Protects every repository below the folders that a conversation may write to from running what a command
//! left in it.
//!
//! A command may write to the repository it works in; otherwise it could not commit. But the user's own git
//! would later run a hook or a setting that it left there, outside the sandbox. So files that name programs
//! are recorded while no sandboxed process runs, and are restored when a process ends, and periodically while
//! one runs in the background. Changes that git itself makes in ordinary work stay (`config`). A repository
//! that appears meanwhile loses what would run. Where the kernel permits it, many of these files cannot be
//! written in the first place (`mounts`).

mod config;
mod control_files;
mod folders;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use hermes_types::random_hex;

use super::limits::SandboxLimits;
use control_files::GitControlFiles;
use folders::{FolderIndex, ScanRoot};

/// The caches in which other programs call git, below the user's home, and the depth at which the
/// repositories lie.
const CACHES: &[(&str, usize)] = &[(".cargo/git", 3)];
const TEMPORARY_DEPTH: usize = 2;
/// Limits how many projects are remembered.
const MOST_PROJECTS: usize = 32;

static PROJECTS: LazyLock<Mutex<HashMap<Vec<PathBuf>, Arc<Repositories>>>> = LazyLock::new(Mutex::default);

/// The repositories below some roots. All processes that work there share one value.
#[derive(Debug)]
pub(super) struct Repositories(Mutex<State>);

#[derive(Debug)]
struct State {
    folders: FolderIndex,
    /// The folders in which the user lets commands write hooks and settings.
    allowed: Vec<PathBuf>,
    control_files: BTreeMap<PathBuf, GitControlFiles>,
    links: BTreeMap<PathBuf, GitLink>,
    /// The number of sandboxed processes that run there.
    running: usize,
    /// The messages about restored files that were not reported yet.
    notices: Vec<String>,
}

/// An entry `.git` that leads elsewhere.
#[derive(Debug, PartialEq, Eq)]
enum GitLink {
    File(Vec<u8>),
    Symbolic(PathBuf),
    Other,
}

impl Repositories {
    /// Returns the repositories that a conversation can reach.
    pub(super) fn of(limits: &SandboxLimits, temporary: &[PathBuf], allowed: &[PathBuf]) -> Arc<Self> {
        let mut roots: Vec<ScanRoot> = Vec::new();
        // The user does not work in the caches of commands.
        for path in limits.writable.iter().filter(|path| !path.ends_with(super::cache::OURS)) {
            let cache = CACHES.iter().find(|(name, _)| limits.user_home.join(name).starts_with(path));
            let in_cache =
                path.starts_with(&limits.user_home) && super::cache::is_cache(&limits.user_home, path);
            let root = if temporary.contains(path) && *path != limits.project {
                ScanRoot { path: path.clone(), depth: TEMPORARY_DEPTH, skip_hidden: false }
            } else if in_cache {
                let Some((name, depth)) = cache else { continue };
                ScanRoot { path: limits.user_home.join(name), depth: *depth, skip_hidden: false }
            } else {
                ScanRoot {
                    path: path.clone(),
                    depth: usize::MAX,
                    skip_hidden: limits.is_home() && *path == limits.project,
                }
            };
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        let key: Vec<PathBuf> =
            roots.iter().map(|root| root.path.clone()).chain(allowed.iter().cloned()).collect();
        let mut projects = PROJECTS.lock().unwrap_or_else(PoisonError::into_inner);
        if projects.len() >= MOST_PROJECTS {
            projects.retain(|_, known| known.state().running > 0);
        }
        let make = || {
            Arc::new(Self(Mutex::new(State {
                folders: FolderIndex::new(roots),
                allowed: allowed.to_vec(),
                control_files: BTreeMap::new(),
                links: BTreeMap::new(),
                running: 0,
                notices: Vec::new(),
            })))
        };
        Arc::clone(projects.entry(key).or_insert_with(make))
    }

    /// Registers a process that is about to start. The current files are the user's, unless other sandboxed
    /// processes run.
    pub(super) fn process_started(&self) {
        let mut state = self.state();
        if state.running == 0 {
            state.record();
        }
        state.running += 1;
    }

    /// Restores files that changed and must not.
    pub(super) fn restore(&self) {
        let mut state = self.state();
        let told = state.restore();
        state.queue_notices(told);
    }

    /// Adds messages to be reported with the next command that ends.
    pub(super) fn queue_notices(&self, what: Vec<String>) {
        self.state().queue_notices(what);
    }

    /// Returns the messages about files restored since the last call.
    pub(super) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notices)
    }

    /// Unregisters a process that has ended with all processes it started.
    pub(super) fn process_ended(&self) {
        let mut state = self.state();
        state.running = state.running.saturating_sub(1);
    }

    /// Returns the folders of the known repositories.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        self.state().control_files.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn record(&mut self) {
        self.folders.refresh();
        self.control_files = self
            .folders
            .repositories()
            .into_iter()
            .map(|path| (path.clone(), GitControlFiles::record(&path)))
            .collect();
        self.links =
            self.folders.links().into_iter().map(|path| (path.clone(), GitLink::of(&path))).collect();
    }

    fn queue_notices(&mut self, what: Vec<String>) {
        if !what.is_empty() {
            tracing::warn!(restored = ?what, "a process in the sandbox left what must not stay; it was put back");
            self.notices.extend(what);
        }
    }

    fn restore(&mut self) -> Vec<String> {
        self.folders.refresh();
        let mut told = Vec::new();
        let found = self.folders.repositories().into_iter();
        let all: BTreeSet<PathBuf> = found.chain(self.control_files.keys().cloned()).collect();
        for path in all {
            if self.is_allowed(&path) {
                continue;
            }
            told.extend(self.control_files.entry(path.clone()).or_default().restore(&path));
        }
        for path in self.folders.links() {
            told.extend(self.restore_link(&path));
        }
        told
    }

    /// Tells whether the user named the hooks, or a folder around the repository, as writable.
    fn is_allowed(&self, repository: &Path) -> bool {
        self.allowed.iter().any(|allowed| *allowed == repository.join("hooks") || *allowed == repository)
    }

    fn restore_link(&mut self, path: &Path) -> Vec<String> {
        let now = GitLink::of(path);
        if let Some(before) = self.links.get(path) {
            if *before == now {
                return Vec::new();
            }
            let told = before.restore(path);
            return vec![told.unwrap_or_else(|| format!("{} leads elsewhere", path.display()))];
        }
        match now.target(path) {
            // This is a new worktree or submodule: its target is examined like any other repository. Git
            // writes such a link more than once while it works, so none of its states is recorded.
            Some(target) if self.folders.contains(&target) => {
                self.control_files.entry(target.clone()).or_default().restore(&target)
            }
            // Git creates the link first; one without a target has no effect, and is examined again.
            None if now.is_plain() => Vec::new(),
            _ => vec![move_aside(path)],
        }
    }
}

/// Renames a link, and returns a message about it.
fn move_aside(path: &Path) -> String {
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".taken-aside-{}", random_hex(6)));
    let shown = path.display();
    match fs::rename(path, &aside) {
        Ok(()) => format!("{shown} leads elsewhere (it is at {} now)", Path::new(&aside).display()),
        Err(error) => format!("{shown} leads elsewhere and could not be taken aside: {error}"),
    }
}

impl GitLink {
    /// Tells whether the entry is a file that names a folder, as git writes it.
    fn is_plain(&self) -> bool {
        matches!(self, Self::File(bytes) if bytes.starts_with(b"gitdir: "))
    }

    fn of(path: &Path) -> Self {
        if let Ok(target) = fs::read_link(path) {
            return Self::Symbolic(target);
        }
        let small = fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() < 1 << 16);
        match small.then(|| fs::read(path)) {
            Some(Ok(bytes)) => Self::File(bytes),
            _ => Self::Other,
        }
    }

    /// Returns the target of a plain link.
    fn target(&self, path: &Path) -> Option<PathBuf> {
        let Self::File(bytes) = self else { return None };
        let text = std::str::from_utf8(bytes).ok()?;
        let given =
            text.strip_prefix("gitdir: ")?.strip_suffix('\n').unwrap_or(text.strip_prefix("gitdir: ")?);
        path.parent()?.join(given).canonicalize().ok()
    }

    /// Restores the link.
    fn restore(&self, path: &Path) -> Option<String> {
        let beside = path.with_file_name(format!(".git-{}", random_hex(8)));
        let made = match self {
            Self::File(bytes) => fs::write(&beside, bytes),
            Self::Symbolic(target) => std::os::unix::fs::symlink(target, &beside),
            Self::Other => return None,
        };
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
            let _ = fs::remove_file(&beside);
            return None;
        }
        match made.and_then(|()| fs::rename(&beside, path)) {
            Ok(()) => Some(format!("{} was led elsewhere; it is as before", path.display())),
            Err(error) => {
                let _ = fs::remove_file(&beside);
                Some(format!("{} was led elsewhere and could not be put back: {error}", path.display()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the case of `git submodule add`, which writes the link to the folder that it creates, and
    /// writes it again in another form.
    #[test]
    fn a_link_that_is_written_twice_while_it_is_made_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let target = root.join(".git/modules/sub");
        for path in [&target, &root.join("sub")] {
            fs::create_dir_all(path).unwrap();
        }
        for repository in [&root.join(".git"), &target] {
            fs::create_dir_all(repository.join("objects")).unwrap();
            fs::create_dir_all(repository.join("refs")).unwrap();
            fs::write(repository.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        }
        let roots = vec![ScanRoot { path: root.clone(), depth: usize::MAX, skip_hidden: false }];
        let repositories = Repositories(Mutex::new(State {
            folders: FolderIndex::new(roots),
            allowed: Vec::new(),
            control_files: BTreeMap::new(),
            links: BTreeMap::new(),
            running: 0,
            notices: Vec::new(),
        }));
        repositories.process_started();
        let link = root.join("sub/.git");
        for text in [format!("gitdir: {}\n", target.display()), "gitdir: ../.git/modules/sub\n".to_owned()] {
            fs::write(&link, &text).unwrap();
            repositories.restore();
            assert_eq!(repositories.take_notices(), Vec::<String>::new(), "{text}");
            assert_eq!(fs::read_to_string(&link).unwrap(), text);
        }
        // A link that leads out of the folders is renamed.
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(&link, format!("gitdir: {}\n", elsewhere.path().display())).unwrap();
        repositories.restore();
        assert!(repositories.take_notices().concat().contains("leads elsewhere"));
    }
}
