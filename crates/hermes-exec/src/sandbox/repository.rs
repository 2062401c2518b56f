//! What in a repository makes git run programs: its hooks, and settings that name a program.
//!
//! A command may write to the repository it works in, or nobody could commit. But a hook it left there would later be run
//! by the user, outside the fence. So the state before a command is kept and, when the command has ended, put back where
//! it differs: hooks as a whole, settings one by one, so that `git config user.name` and `git remote add` stay. Where the
//! kernel lets us, hooks cannot be written in the first place (`mounts`); a process the command left behind can otherwise
//! still change them afterwards.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::RawMode;

use super::git_config::without_new_programs;
use super::handle::{Handle, Kind};
use super::tree::repository_of;

const HOOKS: &str = "hooks";
const CONFIGS: [&str; 2] = ["config", "config.worktree"];
/// Larger ones are no hooks anybody wrote.
const LONGEST: u64 = 1 << 20;
const MOST_HOOKS: usize = 200;

/// A repository before a command.
#[derive(Debug)]
pub(super) struct Repository {
    /// The folder whose `.git` it is.
    project: PathBuf,
    form: Form,
    hooks: Hooks,
    configs: BTreeMap<&'static str, String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Form {
    Absent,
    Folder,
    /// A file that names the folder: a worktree.
    File(Vec<u8>),
    /// It is the folder itself: a submodule's.
    Own,
}

#[derive(Debug)]
enum Hooks {
    Absent,
    /// The user leads them elsewhere.
    Link(OsString),
    Folder(BTreeMap<OsString, Kept>),
}

/// An entry of the hooks.
#[derive(Debug)]
enum Kept {
    File(Vec<u8>, RawMode),
    Link(OsString),
    /// Too long to keep, or nothing git would run.
    Unread,
}

impl Repository {
    /// Keeps what is there. A `.git` that is a link is the user's doing and left alone. `git` is where its data are.
    pub(super) fn record(project: &Path, git: &Path) -> Option<Self> {
        let top = Handle::open(project).ok()?;
        let form = match top.kind(OsStr::new(".git")) {
            _ if project == git => Form::Own,
            Kind::Nothing => Form::Absent,
            Kind::Folder => Form::Folder,
            Kind::File(_) => Form::File(top.read(OsStr::new(".git"), LONGEST).ok()?),
            Kind::Other => return None,
        };
        let mut found =
            Self { project: project.to_owned(), form, hooks: Hooks::Absent, configs: BTreeMap::new() };
        let Some(git) = found.folder(&top) else { return Some(found) };
        for name in CONFIGS {
            if let Ok(bytes) = git.read(OsStr::new(name), LONGEST) {
                found.configs.insert(name, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        found.hooks = match (git.folder(HOOKS), git.link(OsStr::new(HOOKS))) {
            (Ok(hooks), _) => Hooks::Folder(read_all(&hooks)),
            (Err(_), Some(target)) => Hooks::Link(target),
            (Err(_), None) => Hooks::Absent,
        };
        Some(found)
    }

    fn folder(&self, top: &Handle) -> Option<Handle> {
        match self.form {
            Form::File(_) => Handle::open(&repository_of(&self.project)?).ok(),
            Form::Folder | Form::Absent => top.folder(".git").ok(),
            Form::Own => Handle::open(&self.project).ok(),
        }
    }

    /// Puts back what a command changed, and says what.
    pub(super) fn restore(&self) -> Vec<String> {
        let mut told = Vec::new();
        let Ok(top) = Handle::open(&self.project) else { return told };
        if let Err(error) = self.restore_link(&top, &mut told) {
            tracing::warn!(%error, "a changed .git could not be put back");
        }
        let Some(git) = self.folder(&top) else { return told };
        for (what, done) in [
            ("hooks", self.restore_hooks(&git, &mut told)),
            ("config", self.restore_configs(&git, &mut told)),
        ] {
            if let Err(error) = done {
                tracing::warn!(%error, what, "what a command changed in a repository could not be put back");
                told.push(format!(".git/{what} was changed and could not be put back: {error}"));
            }
        }
        told
    }

    /// `.git` as a link or a file leads git elsewhere.
    fn restore_link(&self, top: &Handle, told: &mut Vec<String>) -> io::Result<()> {
        let name = OsStr::new(".git");
        if self.form == Form::Own {
            return Ok(());
        }
        match (top.kind(name), &self.form) {
            (Kind::File(mode), Form::File(before)) => {
                if top.read(name, LONGEST).ok().as_ref() != Some(before) {
                    top.put(name, before, mode)?;
                    told.push(".git was led elsewhere; it is as before".to_owned());
                }
            }
            (Kind::File(_) | Kind::Other, _) => {
                top.remove(name)?;
                told.push(".git was replaced by one that leads elsewhere; that was removed".to_owned());
            }
            (Kind::Nothing | Kind::Folder, _) => {}
        }
        Ok(())
    }

    fn restore_hooks(&self, git: &Handle, told: &mut Vec<String>) -> io::Result<()> {
        let name = OsStr::new(HOOKS);
        let nothing = BTreeMap::new();
        let before = match &self.hooks {
            Hooks::Absent => &nothing,
            Hooks::Folder(before) => before,
            Hooks::Link(target) => {
                if git.link(name).as_ref() != Some(target) {
                    git.put_link(name, target)?;
                    told.push(".git/hooks".to_owned());
                }
                return Ok(());
            }
        };
        let hooks = match git.kind(name) {
            Kind::Folder => git.folder(HOOKS)?,
            Kind::Nothing if before.is_empty() => return Ok(()),
            Kind::Nothing => git.make_folder(HOOKS)?,
            Kind::File(_) | Kind::Other => {
                git.remove(name)?;
                told.push(".git/hooks".to_owned());
                git.make_folder(HOOKS)?
            }
        };
        for name in hooks.names()? {
            // What `git init` puts there does nothing.
            let harmless = Path::new(&name).extension().is_some_and(|ending| ending == "sample");
            if !before.contains_key(&name) && !harmless && hooks.kind(&name) != Kind::Folder {
                hooks.remove(&name)?;
                told.push(format!(".git/hooks/{}", name.to_string_lossy()));
            }
        }
        for (name, kept) in before {
            if kept.restore(&hooks, name)? {
                told.push(format!(".git/hooks/{}", name.to_string_lossy()));
            }
        }
        Ok(())
    }

    fn restore_configs(&self, git: &Handle, told: &mut Vec<String>) -> io::Result<()> {
        for name in CONFIGS {
            let file = OsStr::new(name);
            let mode = match git.kind(file) {
                Kind::File(mode) => mode,
                Kind::Nothing | Kind::Folder => continue,
                Kind::Other => {
                    let before = self.configs.get(name).map(String::as_str).unwrap_or_default();
                    git.put(file, before.as_bytes(), 0o644)?;
                    told.push(format!(".git/{name}"));
                    continue;
                }
            };
            let now = git.read(file, LONGEST)?;
            let before = self.configs.get(name).map(String::as_str).unwrap_or_default();
            if now == before.as_bytes() {
                continue;
            }
            if let Some((kept, taken)) = without_new_programs(before, &String::from_utf8_lossy(&now)) {
                git.put(file, kept.as_bytes(), mode)?;
                told.extend(taken.into_iter().map(|key| format!("`{key}` in .git/{name}")));
            }
        }
        Ok(())
    }
}

impl Kept {
    fn of(hooks: &Handle, name: &OsStr) -> Self {
        if let Some(target) = hooks.link(name) {
            return Self::Link(target);
        }
        match (hooks.kind(name), hooks.read(name, LONGEST)) {
            (Kind::File(mode), Ok(bytes)) => Self::File(bytes, mode),
            _ => Self::Unread,
        }
    }

    /// Whether something had to be put back.
    fn restore(&self, hooks: &Handle, name: &OsStr) -> io::Result<bool> {
        match self {
            Self::File(bytes, mode) => {
                let same = hooks.kind(name) == Kind::File(*mode)
                    && hooks.read(name, LONGEST).ok().as_ref() == Some(bytes);
                if !same {
                    hooks.put(name, bytes, *mode)?;
                }
                Ok(!same)
            }
            Self::Link(target) => {
                let same = hooks.link(name).as_ref() == Some(target);
                if !same {
                    hooks.put_link(name, target)?;
                }
                Ok(!same)
            }
            Self::Unread => Ok(false),
        }
    }
}

fn read_all(hooks: &Handle) -> BTreeMap<OsString, Kept> {
    let names = hooks.names().unwrap_or_default();
    let kept = |(at, name): (usize, OsString)| {
        let kept = if at < MOST_HOOKS { Kept::of(hooks, &name) } else { Kept::Unread };
        (name, kept)
    };
    names.into_iter().enumerate().map(kept).collect()
}
