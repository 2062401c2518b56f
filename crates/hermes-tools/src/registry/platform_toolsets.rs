//! `platform_toolsets`: the meaning of a platform's list.

use std::collections::BTreeSet;

use hermes_config::Config;
use hermes_config::yaml::YamlValue;

use hermes_types::ToolDescriptor;

use super::toolset::{TOOLSETS, Toolset, ToolsetSwitch, preset_of, resolve, server_name};
use crate::built_in::BUILT_IN_TOOLS;

/// The rule that decides about configurable toolsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ToolsetMode {
    /// Exactly these toolsets are on.
    Explicit(Vec<String>),
    /// The toolsets whose tools are all in these presets are on, without the default-off ones.
    Presets(Vec<String>),
}

/// The MCP servers a platform gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum McpChoice {
    AllEnabled,
    Only(Vec<String>),
    None,
}

/// The parsed list of one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformToolsets {
    pub(super) mode: ToolsetMode,
    pub(super) mcp: McpChoice,
    /// The custom toolsets, passed on unchanged.
    pub(super) extras: Vec<String>,
    listed: Option<Vec<String>>,
    known_plugins: Vec<String>,
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
        let known_plugins = config.list(&format!("known_plugin_toolsets.{platform}"));
        let names = listed.clone().unwrap_or_else(|| vec![preset_of(platform)]);
        let pick = |wanted: &dyn Fn(&str) -> bool| {
            names.iter().filter(|name| wanted(name)).cloned().collect::<Vec<_>>()
        };
        let explicit = pick(&is_configurable);
        let presets = pick(&is_preset);
        let is_server =
            |name: &str| servers.iter().any(|server| server == name || server == server_name(name));
        let named_servers: Vec<String> = pick(&is_server)
            .into_iter()
            .map(|name| if servers.contains(&name) { name } else { server_name(&name).to_owned() })
            .collect();
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
        let extras =
            pick(&|name| !is_configurable(name) && !is_preset(name) && name != "no_mcp" && !is_server(name));
        Self { mode, mcp, extras, listed, known_plugins }
    }

    /// Returns the toolsets a user can switch, and whether each is on.
    pub fn switches(&self) -> Vec<(&'static Toolset, bool)> {
        let known: Vec<ToolDescriptor<'_>> = BUILT_IN_TOOLS.to_vec();
        let inside = match &self.mode {
            ToolsetMode::Explicit(_) => BTreeSet::new(),
            ToolsetMode::Presets(presets) => resolve(presets.iter().map(String::as_str), &known).tools,
        };
        let is_on = |set: &Toolset| match &self.mode {
            ToolsetMode::Explicit(listed) => listed.iter().any(|name| name == set.name),
            ToolsetMode::Presets(_) => {
                set.switch == ToolsetSwitch::On && resolve([set.name], &known).tools.is_subset(&inside)
            }
        };
        let switchable = TOOLSETS.iter().filter(|set| set.switch != ToolsetSwitch::None);
        switchable.map(|set| (set, is_on(set))).collect()
    }

    /// Returns the platform's list after a toolset was switched: every switchable one that is on, and the names that
    /// mean something else. `None` if there is no such toolset to switch.
    pub fn switched(&self, toolset: &str, on: bool) -> Option<Vec<String>> {
        let switches = self.switches();
        switches.iter().find(|(set, _)| set.name == toolset)?;
        let mut names: Vec<String> = switches
            .into_iter()
            .filter(|(set, is_on)| if set.name == toolset { on } else { *is_on })
            .map(|(set, _)| set.name.to_owned())
            .collect();
        names.sort();
        names.extend(self.extras.iter().cloned());
        match &self.mcp {
            McpChoice::AllEnabled => {}
            McpChoice::Only(servers) => names.extend(servers.iter().cloned()),
            McpChoice::None => names.push("no_mcp".to_owned()),
        }
        Some(names)
    }

    /// Tells whether a plugin's toolset is on: yes, unless it was seen before and is not listed.
    pub(super) fn is_plugin_enabled(&self, toolset: &str) -> bool {
        let lists = |names: &[String]| names.iter().any(|name| name == toolset);
        match &self.listed {
            Some(listed) => lists(listed) || (!listed.is_empty() && !lists(&self.known_plugins)),
            None => !lists(&self.known_plugins),
        }
    }
}

fn is_configurable(name: &str) -> bool {
    TOOLSETS.iter().any(|set| set.name == name && set.switch != ToolsetSwitch::None)
}

/// Tells whether a name stands for the tools of several toolsets.
fn is_preset(name: &str) -> bool {
    matches!(name, "hermes" | "all" | "*" | "debugging" | "safe") || name.starts_with("hermes-")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hermes_config::Env;

    use super::*;

    fn of(yaml: &str, platform: &str) -> PlatformToolsets {
        PlatformToolsets::of(&Config::from_text(Path::new("config.yaml"), yaml, &Env::default()), platform)
    }

    #[test]
    fn switching_one_keeps_the_others() {
        let before = of("", "cli");
        let on = |list: &PlatformToolsets, name: &str| {
            list.switches().into_iter().find(|(set, _)| set.name == name).is_some_and(|(_, on)| on)
        };
        assert!(on(&before, "file") && !on(&before, "moa"));
        let names = before.switched("file", false).unwrap().join(", ");
        let after = of(&format!("platform_toolsets: {{cli: [{names}]}}\n"), "cli");
        assert!(!on(&after, "file") && on(&after, "terminal"), "{names}");
        assert_eq!(before.switched("no-such-set", true), None);
        let kept = of("platform_toolsets: {cli: [file, mine, no_mcp]}\n", "cli").switched("web", true);
        assert_eq!(kept.unwrap(), ["file", "web", "mine", "no_mcp"]);
    }

    #[test]
    fn an_empty_list_means_no_tools_and_an_absent_one_the_preset() {
        assert_eq!(of("", "api_server").mode, ToolsetMode::Presets(vec!["hermes-api-server".into()]));
        let absent = of("", "telegram");
        assert_eq!(absent.mode, ToolsetMode::Presets(vec!["hermes-telegram".into()]));
        assert_eq!(absent.mcp, McpChoice::AllEnabled);
        let empty = of("platform_toolsets: {cli: []}\n", "cli");
        assert_eq!((&empty.mode, &empty.mcp), (&ToolsetMode::Explicit(vec![]), &McpChoice::None));
        assert!(!empty.is_plugin_enabled("any"));
    }

    #[test]
    fn a_list_names_toolsets_servers_and_plugins() {
        let mixed = of(
            "platform_toolsets: {cli: [hermes-cli, web, mine, github]}\nmcp_servers: {github: {command: x}, other: \
             {command: y}}\nknown_plugin_toolsets: {cli: [seen]}\n",
            "cli",
        );
        assert_eq!(mixed.mode, ToolsetMode::Explicit(vec!["web".into()]));
        assert_eq!(mixed.mcp, McpChoice::Only(vec!["github".into()]));
        assert_eq!(mixed.extras, ["mine"]);
        assert!(mixed.is_plugin_enabled("unseen") && !mixed.is_plugin_enabled("seen"));
        assert_eq!(of("platform_toolsets: {cli: [hermes-cli, no_mcp]}\n", "cli").mcp, McpChoice::None);
    }
}
