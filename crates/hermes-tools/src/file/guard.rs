//! Resolves paths and decides which files a tool may read at a model's request.
//!
//! This module only decides; it opens no file and reads nothing but links. Invariant: a refused file is refused
//! by every path that leads to it.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use hermes_config::Home;

use super::deny::real_path;
use super::extension::{extension, is_binary, is_image};
use super::users::home_of;

/// Files in the Hermes home that hold secrets.
pub(super) const SECRET_IN_HOME: [&str; 6] =
    [".env", "auth.json", "auth.lock", ".anthropic_oauth.json", "webhook_subscriptions.json", "mcp-tokens"];

const FOREIGN_IN_HOME: &str = "skills/.hub";

/// Names of files that hold a project's secrets.
pub(crate) const ENV_FILES: [&str; 7] =
    [".env", ".env.local", ".env.development", ".env.production", ".env.test", ".env.staging", ".envrc"];

/// The maximum length of a chain of links; a longer one is treated as a loop.
const MOST_LINKS: usize = 20;

/// The folders the file tools work in, and the rules for reading.
#[derive(Debug, Clone)]
pub struct FileGuard {
    folder: PathBuf,
    user_home: PathBuf,
    home: PathBuf,
    /// The Hermes home with every link resolved.
    real_home: PathBuf,
}

/// The reason why a file is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadRefusal {
    Device(PathBuf),
    Binary {
        path: PathBuf,
        extension: String,
    },
    Secret(PathBuf),
    ForeignSkill(PathBuf),
    EnvFile(PathBuf),
    /// The sandbox hides the file.
    Hidden {
        path: PathBuf,
        reason: String,
    },
}

impl fmt::Display for ReadRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(path) => {
                write!(f, "{} is a device: reading it could go on forever", path.display())
            }
            Self::Binary { path, extension } => {
                let tool = if is_image(extension) { "vision_analyze" } else { "the terminal" };
                write!(f, "{} is a binary file (.{extension}); use {tool} for it", path.display())
            }
            Self::Secret(path) => {
                write!(f, "Access denied: {} belongs to Hermes itself and may hold secrets", path.display())
            }
            Self::ForeignSkill(path) => {
                let path = path.display();
                write!(f, "Access denied: {path} is catalogue data; use skills_list and skill_view")
            }
            Self::Hidden { path, reason } => {
                write!(f, "Access denied: {}: {reason}. Ask the user for what you need", path.display())
            }
            Self::EnvFile(path) => {
                write!(f, "Access denied: {} holds secrets. Ask the user for what you need", path.display())
            }
        }
    }
}

impl FileGuard {
    /// Creates a guard. Relative paths start from `folder` until a task changes its folder; `~` means
    /// `user_home`.
    pub fn new(folder: PathBuf, user_home: PathBuf, home: &Home) -> Self {
        let home = home.path().to_owned();
        let real_home = real_path(&home);
        Self { folder, user_home, home, real_home }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn user_home(&self) -> &Path {
        &self.user_home
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Resolves `~`, `~name` and relative parts of a path; follows no link.
    pub(crate) fn resolve(&self, folder: &Path, path: &str) -> PathBuf {
        let path = path.trim();
        let joined = match path.strip_prefix("~/") {
            Some(rest) => self.user_home.join(rest),
            None if path == "~" => self.user_home.clone(),
            None => named_user_home(path).unwrap_or_else(|| folder.join(path)),
        };
        clean(&joined)
    }

    /// Returns why this file must not be read, if there is a reason. Every link of the chain is checked.
    pub(crate) fn read_refusal(&self, path: &Path) -> Option<ReadRefusal> {
        let mut at = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Some(reason) = self.name_refusal(&at) {
                return Some(reason);
            }
            let Ok(target) = std::fs::read_link(&at) else { break };
            at = at.parent().unwrap_or(Path::new("/")).join(target);
        }
        path.canonicalize().ok().and_then(|real| self.name_refusal(&real))
    }

    /// Checks one name without accessing the disk, for paths whose links are already resolved.
    pub(crate) fn name_refusal(&self, path: &Path) -> Option<ReadRefusal> {
        if is_device(path) {
            return Some(ReadRefusal::Device(path.to_owned()));
        }
        for home in [&self.home, &self.real_home] {
            if path.starts_with(home.join(FOREIGN_IN_HOME)) {
                return Some(ReadRefusal::ForeignSkill(path.to_owned()));
            }
            if SECRET_IN_HOME.iter().any(|hidden| path.starts_with(home.join(hidden))) {
                return Some(ReadRefusal::Secret(path.to_owned()));
            }
        }
        if let Some(refusal) = Self::env_file_refusal(path) {
            return Some(refusal);
        }
        // The last check, because some tools read binary files.
        let extension = extension(path);
        is_binary(&extension).then(|| ReadRefusal::Binary { path: path.to_owned(), extension })
    }

    /// Checks only for files with a project's secrets, for environments where nothing else is refused.
    pub(crate) fn env_file_refusal(path: &Path) -> Option<ReadRefusal> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ENV_FILES.contains(&name).then(|| ReadRefusal::EnvFile(path.to_owned()))
    }
}

/// Removes `.` and `..` from a path; follows no link.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

fn is_device(path: &Path) -> bool {
    const DEVICES: [&str; 9] =
        ["zero", "random", "urandom", "full", "stdin", "tty", "console", "stdout", "stderr"];
    const PROCESS: [&str; 9] =
        ["environ", "cmdline", "maps", "smaps", "smaps_rollup", "numa_maps", "mem", "auxv", "pagemap"];
    if let Ok(rest) = path.strip_prefix("/dev") {
        return DEVICES.iter().any(|name| rest == Path::new(name)) || rest.starts_with("fd");
    }
    let Ok(rest) = path.strip_prefix("/proc") else { return false };
    rest.components().any(|part| part.as_os_str() == "fd") || PROCESS.iter().any(|name| path.ends_with(name))
}

/// Tells whether a path exposes a process, including this one: its memory, its variables or its open files.
pub(super) fn is_process_path(path: &Path) -> bool {
    let Ok(rest) = path.strip_prefix("/proc") else { return false };
    rest.components().next().is_some_and(|first| {
        let first = first.as_os_str().to_string_lossy();
        first == "self"
            || first == "thread-self"
            || first == "kcore"
            || first.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Resolves `~name/rest` to that user's home. A name that no user has, or with unusual characters, is treated
/// as a file name.
fn named_user_home(path: &str) -> Option<PathBuf> {
    let rest = path.strip_prefix('~')?;
    let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || !name.chars().all(plain) {
        return None;
    }
    Some(home_of(name)?.join(rest))
}
