//! Selects which of the registered tools a session gets.

use std::collections::BTreeSet;

use hermes_config::settings::{
    CONFIGURABLE_TOOLSETS, DEFAULT_OFF_TOOLSETS, McpChoice, PlatformToolsets, ToolsetMode,
};

use super::ToolRegistry;
use super::toolset::{ToolsByToolset, resolve, toolset_names};

/// The rule by which the tools of a session are selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolSelection {
    Everything,
    /// Exactly these toolsets.
    Only(Vec<String>),
    /// All toolsets except these.
    Without(Vec<String>),
    /// The toolsets that the user configured for a platform.
    Platform(PlatformToolsets),
}

impl ToolSelection {
    /// Builds a selection from toolsets to enable and toolsets to disable. The second list is used only if the
    /// first is empty.
    pub fn from_lists(enabled: &[String], disabled: &[String]) -> Self {
        if !enabled.is_empty() {
            Self::Only(enabled.to_vec())
        } else if disabled.is_empty() {
            Self::Everything
        } else {
            Self::Without(disabled.to_vec())
        }
    }
}

/// The tools of a session, and the toolset names that could not be resolved.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "it only holds ports")]
pub struct SelectedTools {
    pub registry: ToolRegistry,
    pub unknown: Vec<String>,
}

impl ToolRegistry {
    /// Returns the selected tools that are available now.
    pub fn select(&self, selection: &ToolSelection) -> SelectedTools {
        let owned = self.owned();
        let (wanted, unknown) = match selection {
            ToolSelection::Everything => (None, Vec::new()),
            ToolSelection::Only(names) => {
                let resolved = resolve(names.iter().map(String::as_str), &owned);
                (Some(resolved.tools), resolved.unknown)
            }
            ToolSelection::Without(names) => {
                let resolved = resolve(names.iter().map(String::as_str), &owned);
                let all = self.names().filter(|name| !resolved.tools.contains(*name)).map(str::to_owned);
                (Some(all.collect()), resolved.unknown)
            }
            ToolSelection::Platform(platform) => {
                let (tools, unknown) = for_platform(platform, &owned);
                (Some(tools), unknown)
            }
        };
        let wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| wanted.contains(name));
        SelectedTools { registry: self.available(wanted), unknown }
    }
}

fn for_platform(platform: &PlatformToolsets, owned: &ToolsByToolset) -> (BTreeSet<String>, Vec<String>) {
    let mut names: Vec<&str> = platform.extras.iter().map(String::as_str).collect();
    let mut tools = BTreeSet::new();
    let mut unknown = Vec::new();
    match &platform.mode {
        ToolsetMode::Explicit(listed) => names.extend(listed.iter().map(String::as_str)),
        ToolsetMode::Presets(presets) => {
            let inside = resolve(presets.iter().map(String::as_str), owned);
            let of = |name: &str| resolve([name], owned).tools;
            let switchable: Vec<&str> = CONFIGURABLE_TOOLSETS
                .iter()
                .copied()
                .filter(|name| !DEFAULT_OFF_TOOLSETS.contains(name) && of(name).is_subset(&inside.tools))
                .collect();
            // Tools that no configurable toolset contains are enabled together with their preset.
            let covered: BTreeSet<String> = CONFIGURABLE_TOOLSETS.iter().flat_map(|name| of(name)).collect();
            tools.extend(inside.tools.difference(&covered).cloned());
            names.extend(switchable);
            unknown = inside.unknown;
        }
    }
    for name in owned.keys() {
        let is_on = match name.strip_prefix("mcp-") {
            Some(server) => match &platform.mcp {
                McpChoice::AllEnabled => true,
                McpChoice::Only(servers) => servers.iter().any(|only| only == server || only == name),
                McpChoice::None => false,
            },
            None => !toolset_names().any(|known| known == name) && platform.is_plugin_enabled(name),
        };
        if is_on {
            names.push(name);
        }
    }
    let resolved = resolve(names, owned);
    tools.extend(resolved.tools);
    unknown.extend(resolved.unknown);
    (tools, unknown)
}
