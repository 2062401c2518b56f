//! `platform_toolsets`: what a platform's list means.

use crate::Config;
use crate::yaml::YamlValue;

/// Toolsets a user can switch one by one.
pub const CONFIGURABLE_TOOLSETS: &[&str] = &[
    "web",
    "browser",
    "terminal",
    "file",
    "code_execution",
    "vision",
    "image_gen",
    "moa",
    "tts",
    "skills",
    "todo",
    "memory",
    "session_search",
    "clarify",
    "delegation",
    "cronjob",
    "rl",
    "homeassistant",
];

/// Off unless listed by name.
pub const DEFAULT_OFF_TOOLSETS: &[&str] = &["moa", "homeassistant", "rl"];

/// What decides about configurable toolsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolsetMode {
    /// Exactly these.
    Explicit(Vec<String>),
    /// Those whose tools all lie inside these presets, without the default-off ones.
    Presets(Vec<String>),
}

/// Which MCP servers a platform gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpChoice {
    AllEnabled,
    Only(Vec<String>),
    None,
}

/// One platform's list, sorted out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformToolsets {
    pub platform: String,
    pub mode: ToolsetMode,
    pub mcp: McpChoice,
    /// Custom toolsets, passed through.
    pub extras: Vec<String>,
    listed: Option<Vec<String>>,
    known_plugins: Vec<String>,
    servers: Vec<String>,
}

impl PlatformToolsets {
    /// T41-16: an absent list means the platform's preset, an empty one means nothing.
    pub fn of(config: &Config, platform: &str) -> Self {
        let servers: Vec<String> = config.map("mcp_servers").keys().map(str::to_owned).collect();
        let listed = match config.map("platform_toolsets").get(platform) {
            Some(YamlValue::Seq(items)) => {
                Some(items.iter().filter_map(YamlValue::scalar_text).collect::<Vec<_>>())
            }
            _ => None,
        };
        let known_plugins =
            config.map("known_plugin_toolsets").get(platform).map(crate::load::text_list).unwrap_or_default();
        let names = listed.clone().unwrap_or_else(|| vec![format!("hermes-{}", platform.replace('_', "-"))]);
        let pick = |wanted: &dyn Fn(&str) -> bool| {
            names.iter().filter(|name| wanted(name)).cloned().collect::<Vec<_>>()
        };
        let explicit = pick(&is_configurable);
        let presets = pick(&is_preset);
        let named_servers = pick(&|name| servers.iter().any(|server| server == name));
        let mode = if !explicit.is_empty() || names.is_empty() {
            ToolsetMode::Explicit(explicit)
        } else {
            ToolsetMode::Presets(presets)
        };
        let mcp = if names.is_empty() || names.iter().any(|name| name == "no_mcp") {
            McpChoice::None
        } else if named_servers.is_empty() {
            McpChoice::AllEnabled
        } else {
            McpChoice::Only(named_servers)
        };
        let extras = pick(&|name| {
            !is_configurable(name)
                && !is_preset(name)
                && name != "no_mcp"
                && !servers.iter().any(|server| server == name)
        });
        Self { platform: platform.to_owned(), mode, mcp, extras, listed, known_plugins, servers }
    }

    /// Whether a plugin's toolset is on: yes, unless it was seen before and is not listed.
    pub fn is_plugin_enabled(&self, toolset: &str) -> bool {
        let lists = |names: &[String]| names.iter().any(|name| name == toolset);
        match &self.listed {
            Some(listed) => lists(listed) || (!listed.is_empty() && !lists(&self.known_plugins)),
            None => !lists(&self.known_plugins),
        }
    }

    /// The list to store for a choice of configurable (and plugin) toolsets: those sorted, then what the list held
    /// besides, without presets.
    pub fn to_save(&self, enabled: &[&str], plugins: &[&str]) -> Vec<String> {
        let mut names: Vec<String> = enabled.iter().map(|name| (*name).to_owned()).collect();
        names.sort();
        names.dedup();
        let kept = self.listed.iter().flatten().filter(|name| {
            !is_configurable(name)
                && !is_preset(name)
                && !plugins.contains(&name.as_str())
                && !names.contains(name)
        });
        let kept: Vec<String> = kept.cloned().collect();
        names.extend(kept);
        names
    }

    /// Names of all configured MCP servers.
    pub fn configured_servers(&self) -> &[String] {
        &self.servers
    }
}

fn is_configurable(name: &str) -> bool {
    CONFIGURABLE_TOOLSETS.contains(&name)
}

/// Sets that contain other sets.
fn is_preset(name: &str) -> bool {
    matches!(name, "hermes" | "all" | "*" | "debugging" | "safe") || name.starts_with("hermes-")
}
