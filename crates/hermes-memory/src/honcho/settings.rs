//! The settings of Honcho: `honcho.json` in the home, or `~/.honcho/config.json`.
//!
//! A value of the block `hosts.hermes` wins over one at the root of the file, and that over the default. Fields that
//! are not known stay in the file.

use std::path::{Path, PathBuf};

use hermes_config::{Env, Home, write};
use hermes_types::Secret;
use serde_json::{Map, Value, json};

/// The key of the program's block under `hosts`.
const HOST: &str = "hermes";
const CLOUD: &str = "https://api.honcho.dev";
const DEFAULT_DIALECTIC_CHARS: usize = 600;
/// How much Honcho may think, from least to most.
pub const REASONING_LEVELS: [&str; 5] = ["minimal", "low", "medium", "high", "max"];

/// Where memories of a peer are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HonchoMemoryMode {
    /// To Honcho and to the memory files.
    Hybrid,
    /// To Honcho only.
    Honcho,
    /// To the memory files only; Honcho is not used.
    Local,
}

/// How memories reach the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HonchoRecallMode {
    Hybrid,
    Context,
    Tools,
}

/// How conversations are assigned to sessions of Honcho.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HonchoSessionStrategy {
    PerSession,
    PerDirectory,
    PerRepo,
    Global,
}

/// When turns are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HonchoWriteFrequency {
    /// After each turn.
    EachTurn,
    /// When the conversation ends.
    Session,
    /// After so many turns.
    Turns(usize),
}

/// The settings in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HonchoSettings {
    pub key: Option<Secret>,
    pub url: String,
    pub is_enabled: bool,
    pub workspace: String,
    /// The name of the owner of the home.
    pub peer: String,
    pub ai_peer: String,
    pub saves_messages: bool,
    /// Where the profile of the user is written.
    pub user_mode: HonchoMemoryMode,
    /// Where the notes of the agent are written.
    pub ai_mode: HonchoMemoryMode,
    pub recall_mode: HonchoRecallMode,
    pub write_frequency: HonchoWriteFrequency,
    pub session_strategy: HonchoSessionStrategy,
    /// Whether the name of the peer precedes those of sessions.
    pub prefixes_sessions: bool,
    /// The most tokens of recalled text.
    pub context_tokens: Option<usize>,
    pub reasoning_level: String,
    pub dialectic_chars: usize,
    /// Folders with the names of their sessions.
    pub sessions: Vec<(String, String)>,
}

impl HonchoSettings {
    /// Tells whether another address than that of the hosted service is set.
    pub fn is_own_server(&self) -> bool {
        self.url != CLOUD
    }

    /// Tells whether there is a key or an address, and Honcho is not switched off.
    pub fn is_active(&self) -> bool {
        self.is_enabled
            && (self.key.is_some() || self.is_own_server())
            && (self.user_mode != HonchoMemoryMode::Local || self.ai_mode != HonchoMemoryMode::Local)
    }

    /// Tells whether USER.md is not written.
    pub fn replaces_profile(&self) -> bool {
        self.is_active() && self.user_mode == HonchoMemoryMode::Honcho
    }

    /// Tells whether MEMORY.md is not written.
    pub fn replaces_notes(&self) -> bool {
        self.is_active() && self.ai_mode == HonchoMemoryMode::Honcho
    }
}

/// The file with the settings.
#[derive(Debug, Clone)]
pub struct HonchoFile {
    pub path: PathBuf,
    root: Map<String, Value>,
    /// Why the file cannot be used.
    pub problem: Option<String>,
}

impl HonchoFile {
    /// Reads the file in the home, or else that of the user.
    pub fn load(home: &Home, user_home: &Path) -> Self {
        let own = home.honcho();
        let shared = user_home.join(".honcho/config.json");
        let path = if own.exists() || !shared.exists() { own } else { shared };
        let (root, problem) = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (Map::new(), None),
            Err(error) => (Map::new(), Some(format!("{}: {error}", path.display()))),
            Ok(text) => match serde_json::from_str(&text) {
                Ok(Value::Object(root)) => (root, None),
                _ => (Map::new(), Some(format!("{} is not a JSON object", path.display()))),
            },
        };
        Self { path, root, problem }
    }

    pub fn exists(&self) -> bool {
        self.path.exists()
    }

    fn host(&self) -> Option<&Map<String, Value>> {
        self.root.get("hosts")?.get(HOST)?.as_object()
    }

    /// Returns a setting: of the block, or of the root.
    fn value(&self, name: &str) -> Option<&Value> {
        let usable = |value: &&Value| !value.is_null();
        self.host()
            .and_then(|host| host.get(name))
            .filter(usable)
            .or_else(|| self.root.get(name).filter(usable))
    }

    fn text(&self, name: &str) -> Option<String> {
        let text = self.value(name)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn flag(&self, name: &str, default: bool) -> bool {
        self.value(name).and_then(Value::as_bool).unwrap_or(default)
    }

    fn count(&self, name: &str) -> Option<usize> {
        let value = self.value(name)?;
        let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
        usize::try_from(number).ok()
    }

    /// Returns where memories of a peer are written: one mode, or one for each peer by name or role.
    fn memory_mode(&self, peer: &str, role: &str) -> HonchoMemoryMode {
        let text = match self.value("memoryMode") {
            Some(Value::Object(peers)) => {
                [peer, role, "default"].iter().find_map(|name| peers.get(*name)?.as_str())
            }
            Some(value) => value.as_str(),
            None => None,
        };
        match text {
            Some("honcho") => HonchoMemoryMode::Honcho,
            Some("local") => HonchoMemoryMode::Local,
            _ => HonchoMemoryMode::Hybrid,
        }
    }

    /// Returns the settings in force. The environment fills in what the file leaves out.
    pub fn settings(&self, env: &Env) -> HonchoSettings {
        let from_env = |name: &str| env.get(name).map(str::trim).filter(|text| !text.is_empty());
        let key = self.text("apiKey").or_else(|| from_env("HONCHO_API_KEY").map(str::to_owned));
        let url = self.text("baseUrl").or_else(|| from_env("HONCHO_BASE_URL").map(str::to_owned));
        let peer = self.text("peerName").unwrap_or_else(|| "user".to_owned());
        let ai_peer = self.text("aiPeer").unwrap_or_else(|| HOST.to_owned());
        let level = self.text("dialecticReasoningLevel").unwrap_or_default();
        let level = REASONING_LEVELS.iter().find(|known| **known == level).unwrap_or(&"low");
        HonchoSettings {
            url: url.unwrap_or_else(|| CLOUD.to_owned()),
            is_enabled: self.problem.is_none() && self.flag("enabled", true),
            workspace: self.text("workspace").unwrap_or_else(|| HOST.to_owned()),
            saves_messages: self.flag("saveMessages", true),
            user_mode: self.memory_mode(&peer, "user"),
            ai_mode: self.memory_mode(&ai_peer, "ai"),
            recall_mode: match self.text("recallMode").as_deref() {
                Some("context") => HonchoRecallMode::Context,
                Some("tools") => HonchoRecallMode::Tools,
                _ => HonchoRecallMode::Hybrid,
            },
            write_frequency: self.write_frequency(),
            session_strategy: match self.text("sessionStrategy").as_deref() {
                Some("per-directory") => HonchoSessionStrategy::PerDirectory,
                Some("per-repo") => HonchoSessionStrategy::PerRepo,
                Some("global") => HonchoSessionStrategy::Global,
                _ => HonchoSessionStrategy::PerSession,
            },
            prefixes_sessions: self.flag("sessionPeerPrefix", false),
            context_tokens: self.count("contextTokens").filter(|tokens| *tokens > 0),
            reasoning_level: (*level).to_owned(),
            dialectic_chars: self.count("dialecticMaxChars").unwrap_or(DEFAULT_DIALECTIC_CHARS),
            sessions: self.sessions(),
            key: key.map(Secret::new),
            peer,
            ai_peer,
        }
    }

    fn write_frequency(&self) -> HonchoWriteFrequency {
        match self.value("writeFrequency") {
            Some(Value::String(text)) if text == "session" => HonchoWriteFrequency::Session,
            Some(value) => {
                let turns = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
                match turns.and_then(|turns| usize::try_from(turns).ok()) {
                    Some(turns) if turns > 1 => HonchoWriteFrequency::Turns(turns),
                    _ => HonchoWriteFrequency::EachTurn,
                }
            }
            None => HonchoWriteFrequency::EachTurn,
        }
    }

    /// Returns the folders with the names of their sessions.
    pub fn sessions(&self) -> Vec<(String, String)> {
        let Some(map) = self.root.get("sessions").and_then(Value::as_object) else { return Vec::new() };
        map.iter().filter_map(|(folder, name)| Some((folder.clone(), name.as_str()?.to_owned()))).collect()
    }

    /// Sets a field of the block; `null` removes it.
    pub fn set(&mut self, name: &str, value: Value) {
        let hosts = self.root.entry("hosts").or_insert_with(|| json!({}));
        if !hosts.is_object() {
            *hosts = json!({});
        }
        let Some(hosts) = hosts.as_object_mut() else { return };
        let host = hosts.entry(HOST).or_insert_with(|| json!({}));
        if !host.is_object() {
            *host = json!({});
        }
        if let Some(host) = host.as_object_mut() {
            put(host, name, value);
        }
    }

    /// Sets a field of the root; `null` removes it.
    pub fn set_root(&mut self, name: &str, value: Value) {
        put(&mut self.root, name, value);
    }

    /// Names the session of a folder.
    pub fn map_folder(&mut self, folder: &str, name: &str) {
        let sessions = self.root.entry("sessions").or_insert_with(|| json!({}));
        if !sessions.is_object() {
            *sessions = json!({});
        }
        if let Some(sessions) = sessions.as_object_mut() {
            sessions.insert(folder.to_owned(), json!(name));
        }
    }

    /// Writes the file, which only its owner may read: it may hold a key. Refused when it could not be read.
    pub fn save(&self) -> Result<(), String> {
        if let Some(problem) = &self.problem {
            return Err(format!("{problem}; nothing was changed"));
        }
        let mut text = serde_json::to_string_pretty(&self.root).unwrap_or_default();
        text.push('\n');
        write::replace(&self.path, text.as_bytes()).map_err(|error| error.to_string())
    }
}

fn put(map: &mut Map<String, Value>, name: &str, value: Value) {
    if value.is_null() {
        map.remove(name);
    } else {
        map.insert(name.to_owned(), value);
    }
}
