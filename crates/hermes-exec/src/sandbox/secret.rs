//! Rules for the paths that a conversation may not read, and for those that it may not change.
//!
//! Rules are made for paths that do not exist yet, too, so a store that is created later is closed from the
//! start.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::SandboxPaths;
use super::refusal::resolve_links;
use super::rules::PathRules;
use super::stores::{DEVICES, STARTUP, STORES, SYSTEM_STORES};

/// The parts of the Hermes home that commands and tools read: folders whose paths tools hand out, and what
/// the model reads anyway.
const READABLE_IN_HERMES_HOME: &[&str] = &[
    "SOUL.md",
    // Profiles of people are not for everybody who talks to the agent.
    "memories/MEMORY.md",
    "skills",
    "plans",
    "cache",
    "image_cache",
    "audio_cache",
    "document_cache",
    "browser_screenshots",
    "results",
    "optional-skills",
    // These are programs: an interpreter cannot run from a folder that is not readable.
    "venv",
    "node",
    "hermes-agent",
    // The shell of a command reads these first.
    "sandboxes/shells",
    super::cache::OURS,
];
/// The paths within the readable parts that are closed again.
const UNREADABLE_EXCEPTIONS: &[&str] = &["skills/.hub", "hermes-agent/.env", "hermes-agent/cli-config.yaml"];
/// The parts of the Hermes home that tools may write without an approval.
const WRITABLE_IN_HERMES_HOME: &[&str] =
    &["plans", "cache", "image_cache", "audio_cache", "document_cache", "browser_screenshots", "results"];
/// The entries of a Hermes home, for one that is the user's home as well.
const IN_HERMES_HOME: &[&str] = &[
    ".env",
    "auth.json",
    "auth.lock",
    ".anthropic_oauth.json",
    "webhook_subscriptions.json",
    "mcp-tokens",
    "config.yaml",
    "gateway.json",
    "state.db",
    "state.db-wal",
    "state.db-shm",
    "sessions",
    "logs",
    "memories/USER.md",
    "memories/USER.md.before-reset",
    "memories/history.jsonl",
    "memories/users",
    "pairing",
    "profiles",
    "cron",
    "hooks",
    "scripts",
    "checkpoints",
    "credentials",
    "whatsapp",
    "platforms",
    "matrix",
    "matrix_session.json",
    "sandboxes",
    "processes.json",
];

const SECRETS: &str = "it holds secrets";
const OURS: &str = "it belongs to Hermes itself";
const DEVICE: &str = "it is a device";
const RUN_OUTSIDE: &str = "what lies there is run outside the sandbox";
/// The number of files in one folder up to which their names are examined.
const MOST_ENTRIES: usize = 400;

/// The rules, and the folders from whose entries they were derived.
#[derive(Debug, Default)]
pub(super) struct ListedRules {
    pub(super) rules: PathRules,
    pub(super) listed: BTreeSet<PathBuf>,
}

/// Returns the rules for what may not be read.
pub(super) fn unreadable(places: &SandboxPaths, project: &Path) -> ListedRules {
    let mut ruled = ListedRules::default();
    for home in homes(places) {
        ruled.close_stores(&home);
    }
    for path in SYSTEM_STORES {
        ruled.rules.close(PathBuf::from(path), SECRETS);
    }
    ruled.close_host_keys();
    // These are disks, keyboards and other users' terminals; the devices that programs need are opened
    // individually.
    ruled.rules.close(PathBuf::from("/dev"), DEVICE);
    for device in DEVICES {
        ruled.rules.open(PathBuf::from(device));
    }
    for home in hermes_homes(places) {
        if home == places.user_home {
            for name in IN_HERMES_HOME {
                ruled.rules.close(home.join(name), OURS);
            }
        } else {
            ruled.rules.close(home.clone(), OURS);
        }
        for name in READABLE_IN_HERMES_HOME {
            ruled.rules.open(home.join(name));
        }
        for name in UNREADABLE_EXCEPTIONS {
            ruled.rules.close(home.join(name), OURS);
        }
    }
    // A project or a user's home within a Hermes home is not part of it. A path that was closed itself stays
    // closed.
    for inner in [project, &places.user_home] {
        if ruled.rules.nearest(inner).is_some_and(|(_, rule)| rule == Some(OURS)) {
            ruled.rules.open(inner.to_owned());
        }
    }
    for root in &places.writable {
        if ruled.rules.reason(root).is_some() {
            ruled.rules.open(root.clone());
        }
    }
    ruled
}

/// Returns the rules for what may not be changed, even in a writable folder.
pub(super) fn unchangeable(places: &SandboxPaths, project: &Path) -> PathRules {
    let mut rules = PathRules::default();
    for home in homes(places) {
        for name in STARTUP {
            rules.close(resolve_links(&home.join(name)), RUN_OUTSIDE);
        }
        for name in STORES {
            rules.close(resolve_links(&home.join(name)), SECRETS);
        }
    }
    for home in hermes_homes(places) {
        if home == places.user_home {
            for name in IN_HERMES_HOME {
                rules.close(home.join(name), OURS);
            }
        } else {
            rules.close(home.clone(), OURS);
        }
        for name in WRITABLE_IN_HERMES_HOME {
            rules.open(home.join(name));
        }
        rules.open(home.join(super::cache::OURS));
    }
    for inner in [project, &places.user_home] {
        if rules.nearest(inner).is_some_and(|(_, rule)| rule == Some(OURS)) {
            rules.open(inner.to_owned());
        }
    }
    // A user who begins a conversation in the settings of an editor wants to change them.
    if rules.nearest(project).is_some_and(|(_, rule)| rule == Some(RUN_OUTSIDE)) {
        rules.open(project.to_owned());
    }
    for folder in &places.programs {
        let in_home = folder.starts_with(&places.user_home) && !folder.starts_with(project);
        if in_home || project == places.user_home && folder.starts_with(project) && folder != project {
            rules.close(folder.clone(), RUN_OUTSIDE);
        }
    }
    for root in &places.writable {
        rules.open(root.clone());
    }
    rules
}

/// Returns the folders of the Hermes home in which tools may write without an approval.
pub(super) fn tool_writable_folders(places: &SandboxPaths) -> Vec<PathBuf> {
    WRITABLE_IN_HERMES_HOME.iter().map(|name| places.hermes_home.join(name)).collect()
}

/// Returns the user's home, and those of other users where this process could read them.
fn homes(places: &SandboxPaths) -> Vec<PathBuf> {
    let mut homes = vec![places.user_home.clone()];
    if geteuid().is_root() {
        let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let named = list.lines().filter_map(|line| line.split(':').nth(5)).map(PathBuf::from);
        // Service users have folders that are not homes.
        let is_home = |home: &PathBuf| {
            home.starts_with("/home") || home.starts_with("/root") || home.starts_with("/Users")
        };
        homes.extend(named.filter(is_home).filter_map(|home| home.canonicalize().ok()));
    }
    homes.sort();
    homes.dedup();
    homes.retain(|home| home.parent().is_some());
    homes
}

/// Returns the Hermes home, the one its profile belongs to, and the default one.
fn hermes_homes(places: &SandboxPaths) -> Vec<PathBuf> {
    let home = &places.hermes_home;
    let mut found = vec![home.clone()];
    if let Some(profiles) = home.parent().filter(|parent| parent.ends_with("profiles")) {
        found.extend(profiles.parent().map(Path::to_owned));
    }
    found.push(resolve_links(&places.user_home.join(".hermes")));
    found.sort();
    found.dedup();
    found.retain(|home| home.parent().is_some());
    found
}

impl ListedRules {
    fn close_stores(&mut self, home: &Path) {
        for name in STORES {
            self.rules.close(resolve_links(&home.join(name)), SECRETS);
        }
        self.close_ssh(&home.join(".ssh"));
        let hidden = |name: &str| name.starts_with('.');
        self.close_by_name(home, |name| hidden(name) && looks_secret(name));
        for folder in [".config", ".local/share"] {
            let folder = home.join(folder);
            for inner in self.entries(&folder).into_iter().filter(|path| path.is_dir()) {
                self.close_by_name(&inner, looks_secret);
            }
        }
    }

    /// Closes everything in the ssh folder but what ssh needs besides the keys, so that `git push` still
    /// works with an agent.
    fn close_ssh(&mut self, folder: &Path) {
        self.rules.close(resolve_links(folder), SECRETS);
        let public = |name: &str| {
            name.starts_with("known_hosts")
                || name.starts_with("config")
                || Path::new(name).extension().is_some_and(|extension| extension == "pub")
                || name == "allowed_signers"
        };
        for path in self.entries(folder) {
            let is_public = path.file_name().is_some_and(|name| public(&name.to_string_lossy()));
            // A link with such a name could lead to a key.
            if is_public && path.symlink_metadata().is_ok_and(|found| !found.is_symlink()) {
                self.rules.open(resolve_links(&path));
            }
        }
    }

    fn close_host_keys(&mut self) {
        for path in self.entries(Path::new("/etc/ssh")) {
            if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("_key")) {
                self.rules.close(path, SECRETS);
            }
        }
    }

    fn close_by_name(&mut self, folder: &Path, is_secret: impl Fn(&str) -> bool) {
        for path in self.entries(folder) {
            if path.file_name().is_some_and(|name| is_secret(&name.to_string_lossy())) {
                self.rules.close(resolve_links(&path), SECRETS);
            }
        }
    }

    fn entries(&mut self, folder: &Path) -> Vec<PathBuf> {
        self.listed.insert(folder.to_owned());
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.take(MOST_ENTRIES).map(|entry| entry.path()).collect()
    }
}

/// Tells whether the name of a settings file suggests that it holds a secret.
fn looks_secret(name: &str) -> bool {
    const WORDS: &[&str] = &["credential", "password", "passwd", "secret", "token", "cookies", "oauth"];
    const ENDINGS: &[&str] = &[
        ".pem",
        ".key",
        ".p12",
        ".pfx",
        ".jks",
        ".keystore",
        ".kdbx",
        ".ovpn",
        ".keytab",
        "_history",
        "-history",
        "_rsa",
        "_ed25519",
        "_ecdsa",
        "_dsa",
    ];
    const WHOLE: &[&str] =
        &["auth.json", "auth.toml", "auth.yaml", "auth.yml", "login data", "key4.db", "logins.json"];
    let name = name.to_lowercase();
    WORDS.iter().any(|word| name.contains(word))
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || WHOLE.contains(&name.as_str())
}
