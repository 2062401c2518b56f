//! What in one repository's own folder makes git run programs: hooks, settings, and what leads git elsewhere.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use hermes_types::random_hex;
use rustix::fs::RawMode;

use super::super::handle::{Handle, Kind};
use super::config::{Judged, judge};

const HOOKS: &str = "hooks";
const CONFIGS: [&str; 2] = ["config", "config.worktree"];
/// Kept byte for byte: the folder, and the name in it.
const FIXED: [(&str, &str); 4] =
    [("", "commondir"), ("", "gitdir"), ("info", "attributes"), ("rebase-merge", "git-rebase-todo")];
/// Longer ones are nothing anybody wrote.
const LONGEST: u64 = 4 << 20;
const MOST_HOOKS: usize = 200;

/// A repository's machinery as it was.
#[derive(Debug, Default)]
pub(super) struct Machinery {
    hooks: Hooks,
    configs: BTreeMap<&'static str, Vec<u8>>,
    fixed: BTreeMap<(&'static str, &'static str), Vec<u8>>,
}

#[derive(Debug, Default)]
enum Hooks {
    #[default]
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

impl Machinery {
    /// Keeps what is there.
    pub(super) fn record(path: &Path) -> Self {
        let mut found = Self::default();
        let Ok(git) = Handle::open(path) else { return found };
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
        found.hooks = match (git.folder(HOOKS), git.link(OsStr::new(HOOKS))) {
            (Ok(hooks), _) => Hooks::Folder(read_all(&hooks)),
            (Err(_), Some(target)) => Hooks::Link(target),
            (Err(_), None) => Hooks::Absent,
        };
        found
    }

    /// Puts back what changed and must not have, and says what. What git changed by itself is what it was from now on: as it was
    /// read, for it may be another by now.
    pub(super) fn restore(&mut self, path: &Path) -> Vec<String> {
        let mut told = Told { repository: path.to_owned(), lines: Vec::new() };
        let Ok(git) = Handle::open(path) else { return told.lines };
        for (what, done) in [
            ("hooks", self.restore_hooks(&git, &mut told)),
            ("config", self.restore_configs(&git, &mut told)),
            ("links", self.restore_fixed(&git, &mut told)),
        ] {
            if let Err(error) = done {
                tracing::warn!(%error, what, "what a command changed in a repository could not be put back");
                told.say(&format!("{what} was changed and could not be put back: {error}"));
            }
        }
        told.lines
    }

    fn restore_hooks(&self, git: &Handle, told: &mut Told) -> io::Result<()> {
        let name = OsStr::new(HOOKS);
        let nothing = BTreeMap::new();
        let before = match &self.hooks {
            Hooks::Absent => &nothing,
            Hooks::Folder(before) => before,
            Hooks::Link(target) => {
                if git.link(name).as_ref() != Some(target) {
                    set_aside(git, name)?;
                    git.put_link(name, target)?;
                    told.say(HOOKS);
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
                told.say(HOOKS);
                git.make_folder(HOOKS)?
            }
        };
        for name in hooks.names()? {
            // What `git init` puts there does nothing.
            let harmless = Path::new(&name).extension().is_some_and(|ending| ending == "sample");
            if !before.contains_key(&name) && !harmless && hooks.kind(&name) != Kind::Folder {
                hooks.remove(&name)?;
                told.say(&format!("{HOOKS}/{}", name.to_string_lossy()));
            }
        }
        for (name, kept) in before {
            if kept.restore(&hooks, name)? {
                told.say(&format!("{HOOKS}/{}", name.to_string_lossy()));
            }
        }
        Ok(())
    }

    fn restore_configs(&mut self, git: &Handle, told: &mut Told) -> io::Result<()> {
        for name in CONFIGS {
            let file = OsStr::new(name);
            let before = self.configs.get(name).cloned();
            let mode = match git.kind(file) {
                Kind::File(mode) => mode,
                Kind::Nothing => continue,
                Kind::Folder | Kind::Other => {
                    set_aside(git, file)?;
                    if let Some(before) = &before {
                        git.put(file, before, 0o644)?;
                    }
                    told.say(name);
                    continue;
                }
            };
            let now = git.read(file, LONGEST).ok();
            let verdict = match &now {
                Some(now) => judge(before.as_deref().unwrap_or_default(), now),
                None => Judged::Restored,
            };
            match (verdict, before) {
                (Judged::Fine, _) => {
                    self.configs.insert(name, now.unwrap_or_default());
                }
                (Judged::Reduced(kept, dropped), _) => {
                    git.put(file, &kept, mode)?;
                    self.configs.insert(name, kept);
                    for key in dropped {
                        told.say(&format!("`{key}` in {name}"));
                    }
                }
                (Judged::Restored, Some(before)) => {
                    git.put(file, &before, mode)?;
                    told.say(name);
                }
                (Judged::Restored, None) => {
                    let aside = set_aside(git, file)?;
                    told.say(&format!("{name} (it is at {} now)", aside.to_string_lossy()));
                }
            }
        }
        Ok(())
    }

    fn restore_fixed(&mut self, git: &Handle, told: &mut Told) -> io::Result<()> {
        for (folder, name) in FIXED {
            let Ok(inner) = inner(git, folder) else { continue };
            let file = OsStr::new(name);
            let before = self.fixed.get(&(folder, name));
            let now = inner.read(file, LONGEST).ok();
            let shown = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            match (inner.kind(file), before) {
                (Kind::Nothing, _) => {}
                (Kind::File(_), Some(before)) if now.as_ref() == Some(before) => {}
                // A rebase that goes on has fewer steps than before, and a new one runs nothing by itself.
                (Kind::File(_), _)
                    if name == "git-rebase-todo" && now.as_deref().is_some_and(runs_nothing) => {}
                (_, Some(before)) if name != "git-rebase-todo" => {
                    set_aside_if_folder(&inner, file)?;
                    inner.put(file, before, 0o644)?;
                    told.say(&shown);
                }
                // Git is about to write it.
                (Kind::File(_), None) if now.as_deref() == Some(b"") => {}
                // A worktree's own: it leads back to the repository it lies in.
                (Kind::File(_), None) if is_worktree(&told.repository, name, now.as_deref()) => {
                    self.fixed.insert((folder, name), now.unwrap_or_default());
                }
                (_, _) => {
                    let aside = set_aside(&inner, file)?;
                    told.say(&format!("{shown} (it is at {} now)", aside.to_string_lossy()));
                }
            }
        }
        Ok(())
    }
}

/// What is said about one repository.
struct Told {
    repository: PathBuf,
    lines: Vec<String>,
}

impl Told {
    fn say(&mut self, what: &str) {
        // The way people write it: from the `.git` on, or from the folder's own name.
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

fn inner(git: &Handle, folder: &str) -> io::Result<Handle> {
    if folder.is_empty() { git.folder(".") } else { git.folder(folder) }
}

/// Whether a new file of a worktree's own folder says what git writes there.
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

/// Whether a list of steps of a rebase starts no program.
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

/// Gives a name to another that git does not look for.
fn set_aside(folder: &Handle, name: &OsStr) -> io::Result<OsString> {
    let mut aside = name.to_owned();
    aside.push(format!(".taken-aside-{}", random_hex(6)));
    match folder.rename(name, &aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(aside),
    }
}

fn set_aside_if_folder(folder: &Handle, name: &OsStr) -> io::Result<()> {
    if folder.kind(name) == Kind::Folder { set_aside(folder, name).map(|_| ()) } else { Ok(()) }
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
                    set_aside_if_folder(hooks, name)?;
                    hooks.put(name, bytes, *mode)?;
                }
                Ok(!same)
            }
            Self::Link(target) => {
                let same = hooks.link(name).as_ref() == Some(target);
                if !same {
                    set_aside_if_folder(hooks, name)?;
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
