//! Selects which of the registered tools a session gets.

use std::collections::BTreeSet;

use hermes_types::{ToolDescriptor, ToolUser};

use super::ToolRegistry;
use super::platform_toolsets::{McpChoice, PlatformToolsets, ToolsetMode};
use super::toolset::{SERVER_PREFIX, TOOLSETS, ToolsetSwitch, is_of_server, resolve, toolset_names};

/// The rule by which the tools of a session are selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolSelection {
    /// Exactly these toolsets.
    Only(Vec<String>),
    /// The toolsets that the user configured for a platform.
    Platform(PlatformToolsets),
}

/// The tools of a session, and the toolset names that could not be resolved.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "it only holds ports")]
pub struct SelectedTools {
    pub registry: ToolRegistry,
    pub unknown: Vec<String>,
}

impl ToolRegistry {
    /// Returns the selected tools that are available now and not withheld from `user`.
    pub fn select(&self, selection: &ToolSelection, user: Option<ToolUser>) -> SelectedTools {
        let known = self.known();
        let (wanted, unknown) = match selection {
            ToolSelection::Only(names) => {
                let resolved = resolve(names.iter().map(String::as_str), &known);
                (resolved.tools, resolved.unknown)
            }
            ToolSelection::Platform(platform) => for_platform(platform, &known),
        };
        let wanted = |tool: &ToolDescriptor<'_>| {
            wanted.contains(tool.name) && !user.is_some_and(|user| tool.is_withheld_from(user))
        };
        SelectedTools { registry: self.available(wanted), unknown }
    }
}

fn for_platform(
    platform: &PlatformToolsets,
    known: &[ToolDescriptor<'_>],
) -> (BTreeSet<String>, Vec<String>) {
    let mut names: Vec<&str> = platform.extras.iter().map(String::as_str).collect();
    let mut tools = BTreeSet::new();
    let mut unknown = Vec::new();
    match &platform.mode {
        ToolsetMode::Explicit(listed) => names.extend(listed.iter().map(String::as_str)),
        ToolsetMode::Presets(presets) => {
            let inside = resolve(presets.iter().map(String::as_str), known);
            let of = |name: &str| resolve([name], known).tools;
            let switchable = TOOLSETS.iter().filter(|set| set.switch != ToolsetSwitch::None);
            let is_on = |name: &&str| of(name).is_subset(&inside.tools);
            names.extend(
                switchable.clone().filter(|set| set.is_on_with(presets)).map(|set| set.name).filter(is_on),
            );
            // Tools that no switchable toolset contains are enabled together with their preset.
            let covered: BTreeSet<String> = switchable.flat_map(|set| of(set.name)).collect();
            // Servers have a rule of their own, below.
            let of_servers: BTreeSet<String> =
                known.iter().filter(|tool| is_of_server(tool)).map(|tool| tool.name.to_owned()).collect();
            tools.extend(
                inside.tools.difference(&covered).filter(|name| !of_servers.contains(*name)).cloned(),
            );
            unknown = inside.unknown;
        }
    }
    let owners: BTreeSet<&str> = known.iter().map(|tool| tool.toolset).collect();
    for name in owners {
        let is_on = match name.strip_prefix(SERVER_PREFIX) {
            Some(server) => match &platform.mcp {
                McpChoice::AllEnabled => true,
                McpChoice::Only(servers) => servers.iter().any(|only| only == server),
                McpChoice::None => false,
            },
            None => !toolset_names().any(|known| known == name) && platform.is_plugin_enabled(name),
        };
        if is_on {
            names.push(name);
        }
    }
    let resolved = resolve(names, known);
    tools.extend(resolved.tools);
    unknown.extend(resolved.unknown);
    (tools, unknown)
}
