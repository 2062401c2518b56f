//! The location of the home and the layout of its files.
//!
//! The location is resolved at each use, because a profile switch changes `HERMES_HOME` while the program runs. It
//! needs no login shell, terminal or `$USER`.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::{Env, Error, Result};

/// The home folder. A value does not imply that the folder exists; [`Home::ensure`] creates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

/// The folders that every configuration load creates.
const BASE_FOLDERS: [&str; 4] = ["cron", "sessions", "logs", "memories"];
/// The additional folders that the setup wizard and the installer create.
const SETUP_FOLDERS: [&str; 6] =
    ["pairing", "hooks", "image_cache", "audio_cache", "skills", "whatsapp/session"];

impl Home {
    /// Returns the home: `HERMES_HOME` with `~` expanded, otherwise `~/.hermes`.
    pub fn resolve(env: &Env) -> Result<Self> {
        if let Some(given) = env.get("HERMES_HOME") {
            return Ok(Self { root: expand_tilde(given, env)? });
        }
        Ok(Self { root: user_home(env)?.join(".hermes") })
    }

    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns a path below the home.
    pub fn join(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// Returns a folder below the home, created with mode 0700 if it is missing.
    pub fn folder(&self, relative: impl AsRef<Path>) -> Result<PathBuf> {
        let path = self.join(relative);
        make_private(&path)?;
        Ok(path)
    }

    /// Creates the home and the folders every load needs, each with mode 0700.
    pub fn ensure(&self) -> Result<()> {
        make_private(&self.root)?;
        BASE_FOLDERS.iter().try_for_each(|name| make_private(&self.join(name)))
    }

    /// Creates the folders of [`Home::ensure`] and the additional ones of setup.
    pub fn ensure_for_setup(&self) -> Result<()> {
        self.ensure()?;
        SETUP_FOLDERS.iter().try_for_each(|name| make_private(&self.join(name)))
    }

    /// Returns the older name of a folder if it exists here, otherwise the current name.
    fn legacy_or_current(&self, older: &str, current: &str) -> PathBuf {
        let kept = self.join(older);
        if kept.is_dir() { kept } else { self.join(current) }
    }

    pub fn images_cache(&self) -> PathBuf {
        self.legacy_or_current("image_cache", "cache/images")
    }

    pub fn audio_cache(&self) -> PathBuf {
        self.legacy_or_current("audio_cache", "cache/audio")
    }

    pub fn documents_cache(&self) -> PathBuf {
        self.legacy_or_current("document_cache", "cache/documents")
    }

    pub fn screenshots_cache(&self) -> PathBuf {
        self.legacy_or_current("browser_screenshots", "cache/screenshots")
    }

    pub fn pairing(&self) -> PathBuf {
        self.legacy_or_current("platforms/pairing", "pairing")
    }

    /// Returns the folder for the files of a chat platform, which is created if there is none: `platforms/NAME/store`, or
    /// `NAME/store` where that exists.
    pub fn platform_store(&self, platform: &str) -> Result<PathBuf> {
        let folder =
            self.legacy_or_current(&format!("{platform}/store"), &format!("platforms/{platform}/store"));
        make_private(&folder)?;
        Ok(folder)
    }

    /// Returns `TERMINAL_SANDBOX_DIR`, otherwise `sandboxes/`.
    pub fn sandboxes(&self, env: &Env) -> PathBuf {
        env.get("TERMINAL_SANDBOX_DIR")
            .and_then(|given| expand_tilde(given, env).ok())
            .unwrap_or_else(|| self.join("sandboxes"))
    }
}

/// Defines one accessor for each entry of the home whose path is fixed.
macro_rules! entries {
    ($($name:ident => $path:literal,)*) => {
        impl Home {
            $(
                #[doc = concat!("`", $path, "`")]
                pub fn $name(&self) -> PathBuf {
                    self.join($path)
                }
            )*

            /// Every fixed entry, for documentation and `doctor`.
            pub const ENTRIES: &'static [&'static str] = &[$($path,)*];
        }
    };
}

entries! {
    config => "config.yaml",
    config_lock => ".config.lock",
    dotenv => ".env",
    auth => "auth.json",
    auth_lock => "auth.lock",
    soul => "SOUL.md",
    memories => "memories",
    memory_file => "memories/MEMORY.md",
    user_file => "memories/USER.md",
    state_db => "state.db",
    sessions => "sessions",
    sessions_index => "sessions/sessions.json",
    logs => "logs",
    errors_log => "logs/errors.log",
    gateway_log => "logs/gateway.log",
    gateway_error_log => "logs/gateway.error.log",
    agent_log => "logs/agent.log",
    cron => "cron",
    cron_jobs => "cron/jobs.json",
    cron_output => "cron/output",
    cron_lock => "cron/.tick.lock",
    skills => "skills",
    hooks => "hooks",
    plugins => "plugins",
    skins => "skins",
    checkpoints => "checkpoints",
    pastes => "pastes",
    images => "images",
    browser_recordings => "browser_recordings",
    whatsapp_session => "whatsapp/session",
    honcho => "honcho.json",
    gateway_json => "gateway.json",
    gateway_pid => "gateway.pid",
    gateway_state => "gateway_state.json",
    processes => "processes.json",
    channel_directory => "channel_directory.json",
    webhook_subscriptions => "webhook_subscriptions.json",
    gateway_voice_mode => "gateway_voice_mode.json",
    sticker_cache => "sticker_cache.json",
    discord_threads => "discord_threads.json",
    response_store => "response_store.db",
    context_length_cache => "context_length_cache.yaml",
    models_dev_cache => "models_dev_cache.json",
    modal_snapshots => "modal_snapshots.json",
    singularity_snapshots => "singularity_snapshots.json",
    input_history => ".hermes_history",
    update_check => ".update_check",
    update_pending => ".update_pending.json",
    update_output => ".update_output.txt",
    update_exit_code => ".update_exit_code",
    skills_prompt_snapshot => ".skills_prompt_snapshot.json",
    managed_marker => ".managed",
    interrupt_debug_log => "interrupt_debug.log",
    migration => "migration",
    install_dir => "hermes-agent",
    profiles => "profiles",
    active_profile => "active_profile",
    shell_hooks_allowlist => "shell-hooks-allowlist.json",
    mcp_tokens => "mcp-tokens",
}

/// Creates a folder with mode 0700; the mode of an existing one is restricted if that is possible.
pub fn make_private(path: &Path) -> Result<()> {
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(_) if path.is_dir() => {}
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {
            return Err(Error::unwritable(path, io::Error::from(io::ErrorKind::NotADirectory)));
        }
        Err(source) => return Err(Error::unwritable(path, source)),
    }
    let private = fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o777 == 0o700);
    if !private && let Err(error) = fs::set_permissions(path, fs::Permissions::from_mode(0o700)) {
        // A folder on a foreign file system may not support modes; that must not prevent the start.
        tracing::debug!(path = %path.display(), %error, "cannot make the folder private");
    }
    Ok(())
}

/// Expands `~`, `~/x` and `~name/x`; returns anything else unchanged.
pub fn expand_tilde(given: &str, env: &Env) -> Result<PathBuf> {
    let Some(rest) = given.strip_prefix('~') else {
        return Ok(PathBuf::from(given));
    };
    let (name, below) = rest.split_once('/').unwrap_or((rest, ""));
    let base = if name.is_empty() {
        user_home(env)?
    } else {
        match passwd_home(|fields| fields.first() == Some(&name)) {
            Some(home) => home,
            None => return Ok(PathBuf::from(given)),
        }
    };
    Ok(if below.is_empty() { base } else { base.join(below) })
}

/// Returns `HOME`, otherwise the home directory in the password file for this user id.
pub fn user_home(env: &Env) -> Result<PathBuf> {
    if let Some(home) = env.get("HOME") {
        return Ok(PathBuf::from(home));
    }
    let uid = rustix::process::getuid().as_raw();
    passwd_home(|fields| fields.get(2).and_then(|field| field.parse::<u32>().ok()) == Some(uid))
        .ok_or_else(|| Error::NoHome { reason: format!("user id {uid} has no entry in /etc/passwd") })
}

fn passwd_home(wanted: impl Fn(&[&str]) -> bool) -> Option<PathBuf> {
    let bytes = fs::read("/etc/passwd").ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let home = fields.get(5).filter(|home| !home.is_empty())?;
        wanted(&fields).then(|| PathBuf::from(home))
    })
}
