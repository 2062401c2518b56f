//! Which files a tool may read on a model's word.

use std::path::{Component, Path, PathBuf};

use hermes_config::Home;

/// Files in the home that hold secrets, or that others wrote for the model to stumble over.
const HIDDEN_IN_HOME: [&str; 7] = [
    ".env",
    "auth.json",
    "auth.lock",
    ".anthropic_oauth.json",
    "webhook_subscriptions.json",
    "mcp-tokens",
    "skills/.hub",
];

/// Files with a project's secrets.
const ENV_FILES: [&str; 7] =
    [".env", ".env.local", ".env.development", ".env.production", ".env.test", ".env.staging", ".envrc"];

const BINARY: [&str; 44] = [
    "7z", "a", "avi", "bin", "bmp", "bz2", "class", "dll", "dmg", "dylib", "eot", "exe", "flac", "gif", "gz",
    "ico", "iso", "jar", "jpeg", "jpg", "mkv", "mov", "mp3", "mp4", "o", "ogg", "otf", "pdf", "png", "pyc",
    "rar", "so", "sqlite", "tar", "tgz", "ttf", "wasm", "wav", "webm", "webp", "woff", "woff2", "xz", "zip",
];

/// A chain of links longer than this is a loop.
const MOST_LINKS: usize = 20;

/// Where the tools work, and what is out of bounds.
#[derive(Debug, Clone)]
pub struct FileGuard {
    /// What relative paths start from.
    folder: PathBuf,
    user_home: PathBuf,
    home: PathBuf,
}

impl FileGuard {
    pub fn new(folder: PathBuf, user_home: PathBuf, home: &Home) -> Self {
        Self { folder, user_home, home: home.path().to_owned() }
    }

    /// The path as it is meant: `~` and relative parts resolved, nothing looked up.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        let path = path.trim();
        let joined = match path.strip_prefix("~/") {
            Some(rest) => self.user_home.join(rest),
            None if path == "~" => self.user_home.clone(),
            None => self.folder.join(path),
        };
        let mut clean = PathBuf::new();
        for part in joined.components() {
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

    /// Why this file must not be read, if there is a reason. Every link on the way is looked at.
    pub(crate) fn refuse(&self, path: &Path) -> Option<String> {
        let mut at = path.to_owned();
        for _ in 0..MOST_LINKS {
            if let Some(reason) = self.refuse_name(&at) {
                return Some(reason);
            }
            let Ok(target) = std::fs::read_link(&at) else { break };
            at = at.parent().unwrap_or(Path::new("/")).join(target);
        }
        path.canonicalize().ok().and_then(|real| self.refuse_name(&real))
    }

    fn refuse_name(&self, path: &Path) -> Option<String> {
        let shown = path.display();
        if is_device(path) {
            return Some(format!("{shown} is a device: reading it could go on forever"));
        }
        for hidden in HIDDEN_IN_HOME {
            if path.starts_with(self.home.join(hidden)) {
                return Some(format!("Access denied: {shown} belongs to Hermes itself and may hold secrets"));
            }
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if ENV_FILES.contains(&name) {
            return Some(format!("Access denied: {shown} holds secrets. Ask the user for what you need"));
        }
        let extension = path
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default()
            .to_ascii_lowercase();
        BINARY
            .contains(&extension.as_str())
            .then(|| format!("{shown} is a binary file (.{extension}) and cannot be read as text"))
    }
}

fn is_device(path: &Path) -> bool {
    const DEVICES: [&str; 9] =
        ["zero", "random", "urandom", "full", "stdin", "tty", "console", "stdout", "stderr"];
    if let Ok(rest) = path.strip_prefix("/dev") {
        return DEVICES.iter().any(|name| rest == Path::new(name)) || rest.starts_with("fd");
    }
    let text = path.to_string_lossy();
    text.starts_with("/proc/")
        && (text.contains("/fd/")
            || ["environ", "cmdline", "maps", "mem", "auxv", "pagemap"]
                .iter()
                .any(|name| path.ends_with(name)))
}
