//! The files in one repository's own folder that make git run programs: hooks, settings, and files that
//! redirect git.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use hermes_types::random_hex;
use rustix::fs::RawMode;

use super::super::handle::{DirEntryKind, DirHandle};
use super::config::{ConfigDecision, judge};

const HOOKS: &str = "hooks";
const CONFIGS: [&str; 2] = ["config", "config.worktree"];
/// The files that are kept byte for byte, each as folder and name.
const FIXED: [(&str, &str); 4] =
    [("", "commondir"), ("", "gitdir"), ("info", "attributes"), ("rebase-merge", "git-rebase-todo")];
/// The largest size of a file that is kept; a person writes none that is longer.
const LONGEST: u64 = 4 << 20;
const MOST_HOOKS: usize = 200;

/// The recorded control files of a repository.
#[derive(Debug, Default)]
pub(super) struct GitControlFiles {
    hooks: HookFolder,
    configs: BTreeMap<&'static str, Vec<u8>>,
    fixed: BTreeMap<(&'static str, &'static str), Vec<u8>>,
}

#[derive(Debug, Default)]
enum HookFolder {
    #[default]
    Absent,
    /// The user has redirected the hooks with a link.
    Link(OsString),
    Folder(BTreeMap<OsString, HookEntry>),
}

/// An entry of the hooks folder.
#[derive(Debug)]
enum HookEntry {
    File(Vec<u8>, RawMode),
    Link(OsString),
    /// The entry is too long to keep, or nothing that git would run.
    Unread,
}

impl GitControlFiles {
    /// Records the current files.
    pub(super) fn record(path: &Path) -> Self {
        let mut found = Self::default();
        let Ok(git) = DirHandle::open(path) else { return found };
        for name in CONFIGS {
            if let Ok(bytes) = git.read(OsStr::new(name), LONGEST) {
                found.configs.insert(name, bytes);
            }
        }
        for (folder, name) in FIXED {
            let bytes = inner(&git, folder).ok().and_then(|inner| inner.read(OsStr::new(name), LONGEST).ok());
            if let Some(bytes) = bytes {
                found.fixed.insert((folder, name), bytes);
            }
        }
        found.hooks = match (git.folder(HOOKS), git.read_link(OsStr::new(HOOKS))) {
            (Ok(hooks), _) => HookFolder::Folder(read_all(&hooks)),
            (Err(_), Some(target)) => HookFolder::Link(target),
            (Err(_), None) => HookFolder::Absent,
        };
        found
    }

    /// Restores files that changed and must not, and describes what was restored. Changes that git made
    /// itself become the recorded state: as they were read, because the file may have changed since.
    pub(super) fn restore(&mut self, path: &Path) -> Vec<String> {
        let mut told = RestoreNotes { repository: path.to_owned(), lines: Vec::new() };
        let Ok(git) = DirHandle::open(path) else { return told.lines };
        for (what, done) in [
            ("hooks", self.restore_hooks(&git, &mut told)),
            ("config", self.restore_configs(&git, &mut told)),
            ("links", self.restore_fixed(&git, &mut told)),
        ] {
            if let Err(error) = done {
                tracing::warn!(%error, what, "what a command changed in a repository could not be put back");
                told.add(&format!("{what} was changed and could not be put back: {error}"));
            }
        }
        told.lines
    }

    fn restore_hooks(&self, git: &DirHandle, told: &mut RestoreNotes) -> io::Result<()> {
        let name = OsStr::new(HOOKS);
        let nothing = BTreeMap::new();
        let before = match &self.hooks {
            HookFolder::Absent => &nothing,
            HookFolder::Folder(before) => before,
            HookFolder::Link(target) => {
                if git.read_link(name).as_ref() != Some(target) {
                    set_aside(git, name)?;
                    git.replace_link(name, target)?;
                    told.add(HOOKS);
                }
                return Ok(());
            }
        };
        let hooks = match git.kind(name) {
            DirEntryKind::Folder => git.folder(HOOKS)?,
            DirEntryKind::Nothing if before.is_empty() => return Ok(()),
            DirEntryKind::Nothing => git.make_folder(HOOKS)?,
            DirEntryKind::File(_) | DirEntryKind::Other => {
                git.remove(name)?;
                told.add(HOOKS);
                git.make_folder(HOOKS)?
            }
        };
        for name in hooks.names()? {
            // The sample hooks that `git init` creates have no effect.
            let harmless = Path::new(&name).extension().is_some_and(|ending| ending == "sample");
            if !before.contains_key(&name) && !harmless && hooks.kind(&name) != DirEntryKind::Folder {
                hooks.remove(&name)?;
                told.add(&format!("{HOOKS}/{}", name.to_string_lossy()));
            }
        }
        for (name, kept) in before {
            if kept.restore(&hooks, name)? {
                told.add(&format!("{HOOKS}/{}", name.to_string_lossy()));
            }
        }
        Ok(())
    }

    fn restore_configs(&mut self, git: &DirHandle, told: &mut RestoreNotes) -> io::Result<()> {
        for name in CONFIGS {
            let file = OsStr::new(name);
            let before = self.configs.get(name).cloned();
            let mode = match git.kind(file) {
                DirEntryKind::File(mode) => mode,
                DirEntryKind::Nothing => continue,
                DirEntryKind::Folder | DirEntryKind::Other => {
                    set_aside(git, file)?;
                    if let Some(before) = &before {
                        git.replace_file(file, before, 0o644)?;
                    }
                    told.add(name);
                    continue;
                }
            };
            let now = git.read(file, LONGEST).ok();
            let verdict = match &now {
                Some(now) => judge(before.as_deref().unwrap_or_default(), now),
                None => ConfigDecision::Restore,
            };
            match (verdict, before) {
                (ConfigDecision::Accept, _) => {
                    self.configs.insert(name, now.unwrap_or_default());
                }
                (ConfigDecision::RemoveLines(kept, dropped), _) => {
                    git.replace_file(file, &kept, mode)?;
                    self.configs.insert(name, kept);
                    for key in dropped {
                        told.add(&format!("`{key}` in {name}"));
                    }
                }
                (ConfigDecision::Restore, Some(before)) => {
                    git.replace_file(file, &before, mode)?;
                    told.add(name);
                }
                (ConfigDecision::Restore, None) => {
                    let aside = set_aside(git, file)?;
                    told.add(&format!("{name} (it is at {} now)", aside.to_string_lossy()));
                }
            }
        }
        Ok(())
    }

    fn restore_fixed(&mut self, git: &DirHandle, told: &mut RestoreNotes) -> io::Result<()> {
        for (folder, name) in FIXED {
            let Ok(inner) = inner(git, folder) else { continue };
            let file = OsStr::new(name);
            let before = self.fixed.get(&(folder, name));
            let now = inner.read(file, LONGEST).ok();
            let shown = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            match (inner.kind(file), before) {
                (DirEntryKind::Nothing, _) => {}
                (DirEntryKind::File(_), Some(before)) if now.as_ref() == Some(before) => {}
                // A rebase that continues has fewer steps than before, and a new one runs nothing by itself.
                (DirEntryKind::File(_), _)
                    if name == "git-rebase-todo" && now.as_deref().is_some_and(runs_nothing) => {}
                (_, Some(before)) if name != "git-rebase-todo" => {
                    set_aside_if_folder(&inner, file)?;
                    inner.replace_file(file, before, 0o644)?;
                    told.add(&shown);
                }
                // Git is about to write this file.
                (DirEntryKind::File(_), None) if now.as_deref() == Some(b"") => {}
                // This is a file of a worktree's own folder: it leads back to the repository that contains
                // it.
                (DirEntryKind::File(_), None) if is_worktree(&told.repository, name, now.as_deref()) => {
                    self.fixed.insert((folder, name), now.unwrap_or_default());
                }
                (_, _) => {
                    let aside = set_aside(&inner, file)?;
                    told.add(&format!("{shown} (it is at {} now)", aside.to_string_lossy()));
                }
            }
        }
        Ok(())
    }
}

/// The messages about one repository.
struct RestoreNotes {
    repository: PathBuf,
    lines: Vec<String>,
}

impl RestoreNotes {
    fn add(&mut self, what: &str) {
        // The path is shown as users write it: beginning with `.git`, or with the folder's own name.
        let parts: Vec<_> = self.repository.components().collect();
        let from =
            parts.iter().position(|part| part.as_os_str() == ".git").unwrap_or(parts.len().saturating_sub(1));
        let shown: PathBuf = parts.iter().skip(from).collect();
        self.lines.push(if what.starts_with('`') {
            let (key, file) = what.rsplit_once(" in ").unwrap_or((what, ""));
            format!("{key} in {}", shown.join(file).display())
        } else {
            shown.join(what).display().to_string()
        });
    }
}

fn inner(git: &DirHandle, folder: &str) -> io::Result<DirHandle> {
    if folder.is_empty() { git.folder(".") } else { git.folder(folder) }
}

/// Tells whether a new file of a worktree's own folder contains what git writes there.
fn is_worktree(repository: &Path, name: &str, now: Option<&[u8]>) -> bool {
    let within = repository.parent().is_some_and(|above| above.ends_with("worktrees"));
    let now = now.and_then(|now| std::str::from_utf8(now).ok()).unwrap_or_default();
    within
        && match name {
            "commondir" => now == "../..\n",
            "gitdir" => now.ends_with("/.git\n") && now.lines().count() == 1,
            _ => false,
        }
}

/// Tells whether the steps of a rebase start no program.
fn runs_nothing(todo: &[u8]) -> bool {
    const STEPS: &[&str] = &[
        "pick",
        "p",
        "reword",
        "r",
        "edit",
        "e",
        "squash",
        "s",
        "fixup",
        "f",
        "drop",
        "d",
        "label",
        "l",
        "reset",
        "t",
        "merge",
        "m",
        "update-ref",
        "u",
        "break",
        "b",
        "noop",
    ];
    let Ok(todo) = std::str::from_utf8(todo) else { return false };
    todo.lines().all(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        word.is_empty() || word.starts_with('#') || STEPS.contains(&word)
    })
}

/// Renames an entry to a name that git does not look for.
fn set_aside(folder: &DirHandle, name: &OsStr) -> io::Result<OsString> {
    let mut aside = name.to_owned();
    aside.push(format!(".taken-aside-{}", random_hex(6)));
    match folder.rename(name, &aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(aside),
    }
}

fn set_aside_if_folder(folder: &DirHandle, name: &OsStr) -> io::Result<()> {
    if folder.kind(name) == DirEntryKind::Folder { set_aside(folder, name).map(|_| ()) } else { Ok(()) }
}

impl HookEntry {
    fn of(hooks: &DirHandle, name: &OsStr) -> Self {
        if let Some(target) = hooks.read_link(name) {
            return Self::Link(target);
        }
        match (hooks.kind(name), hooks.read(name, LONGEST)) {
            (DirEntryKind::File(mode), Ok(bytes)) => Self::File(bytes, mode),
            _ => Self::Unread,
        }
    }

    /// Restores the entry and tells whether that was necessary.
    fn restore(&self, hooks: &DirHandle, name: &OsStr) -> io::Result<bool> {
        match self {
            Self::File(bytes, mode) => {
                let same = hooks.kind(name) == DirEntryKind::File(*mode)
                    && hooks.read(name, LONGEST).ok().as_ref() == Some(bytes);
                if !same {
                    set_aside_if_folder(hooks, name)?;
                    hooks.replace_file(name, bytes, *mode)?;
                }
                Ok(!same)
            }
            Self::Link(target) => {
                let same = hooks.read_link(name).as_ref() == Some(target);
                if !same {
                    set_aside_if_folder(hooks, name)?;
                    hooks.replace_link(name, target)?;
                }
                Ok(!same)
            }
            Self::Unread => Ok(false),
        }
    }
}

fn read_all(hooks: &DirHandle) -> BTreeMap<OsString, HookEntry> {
    let names = hooks.names().unwrap_or_default();
    let kept = |(at, name): (usize, OsString)| {
        let kept = if at < MOST_HOOKS { HookEntry::of(hooks, &name) } else { HookEntry::Unread };
        (name, kept)
    };
    names.into_iter().enumerate().map(kept).collect()
}
