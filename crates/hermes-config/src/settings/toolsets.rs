//! `platform_toolsets`: the meaning of a platform's list.

use crate::Config;
use crate::yaml::YamlValue;

/// The toolsets a user can switch individually.
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

/// The toolsets that are off unless listed by name.
pub const DEFAULT_OFF_TOOLSETS: &[&str] = &["moa", "homeassistant", "rl"];

/// The rule that decides about configurable toolsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolsetMode {
    /// Exactly these toolsets are on.
    Explicit(Vec<String>),
    /// The toolsets whose tools are all in these presets are on, without the default-off ones.
    Presets(Vec<String>),
}

/// The MCP servers a platform gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpChoice {
    AllEnabled,
    Only(Vec<String>),
    None,
}

/// The parsed list of one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformToolsets {
    pub platform: String,
    pub mode: ToolsetMode,
    pub mcp: McpChoice,
    /// The custom toolsets, passed on unchanged.
    pub extras: Vec<String>,
    listed: Option<Vec<String>>,
    known_plugins: Vec<String>,
    servers: Vec<String>,
}

impl PlatformToolsets {
    /// Parses the list of a platform. An absent list means the platform's preset; an empty one means no toolsets.
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

    /// Tells whether a plugin's toolset is on: yes, unless it was seen before and is not listed.
    pub fn is_plugin_enabled(&self, toolset: &str) -> bool {
        let lists = |names: &[String]| names.iter().any(|name| name == toolset);
        match &self.listed {
            Some(listed) => lists(listed) || (!listed.is_empty() && !lists(&self.known_plugins)),
            None => !lists(&self.known_plugins),
        }
    }

    /// Returns the list to store for a choice of configurable (and plugin) toolsets: those sorted, then the other
    /// entries of the list, without presets.
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

    /// Returns the names of all configured MCP servers.
    pub fn configured_servers(&self) -> &[String] {
        &self.servers
    }
}

fn is_configurable(name: &str) -> bool {
    CONFIGURABLE_TOOLSETS.contains(&name)
}

/// Tells whether a set contains other sets.
fn is_preset(name: &str) -> bool {
    matches!(name, "hermes" | "all" | "*" | "debugging" | "safe") || name.starts_with("hermes-")
}
