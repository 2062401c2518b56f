//! Toolsets: names for groups of tools, and the resolution of such names to tools.
//!
//! A tool's own descriptor says which toolset owns it; the table here adds only what is a fact about a toolset.
//! Invariant: every name is followed once, so that toolsets that include each other do not recurse forever.

use std::collections::BTreeSet;

use hermes_types::{PLATFORM_FACTS, ToolDescriptor, ToolUser};

use crate::built_in::BUILT_IN_TOOLS;
use crate::tool_search::TOOL_SEARCH_TOOLSET;

/// A named group of tools.
#[derive(Debug, Clone, Copy)]
pub struct Toolset {
    pub name: &'static str,
    /// The tools of other toolsets that also belong to this one.
    pub tools: &'static [&'static str],
    /// The toolsets whose tools also belong to this one.
    pub includes: &'static [&'static str],
    pub switch: ToolsetSwitch,
    pub presets: InPresets,
}

/// Says whether a user can switch a toolset per platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolsetSwitch {
    /// Not individually: its tools come with the platform's preset.
    None,
    /// It is on unless the platform's list leaves it out.
    On,
    /// It is off unless the platform's list names it.
    Off,
}

/// Says whether the tools of a toolset are in the presets of the platforms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPresets {
    Yes,
    No,
}

impl Toolset {
    const fn new(name: &'static str, switch: ToolsetSwitch) -> Self {
        Self { name, tools: &[], includes: &[], switch, presets: InPresets::Yes }
    }

    /// Tells whether these presets switch the toolset on. The preset of a platform has the toolset of the same name, even
    /// if it is off elsewhere.
    pub(super) fn is_on_with(&self, presets: &[String]) -> bool {
        match self.switch {
            ToolsetSwitch::On => true,
            ToolsetSwitch::Off => presets.iter().any(|preset| *preset == preset_of(self.name)),
            ToolsetSwitch::None => false,
        }
    }

    /// Returns a toolset that owns no tool.
    const fn group(
        name: &'static str,
        tools: &'static [&'static str],
        includes: &'static [&'static str],
    ) -> Self {
        Self { name, tools, includes, switch: ToolsetSwitch::None, presets: InPresets::No }
    }
}

/// The toolsets, in the order in which people see them. Those without a tool in this release are names that
/// configurations may contain.
pub const TOOLSETS: &[Toolset] = &[
    Toolset::new("web", ToolsetSwitch::On),
    Toolset { tools: &["web_search"], ..Toolset::new("browser", ToolsetSwitch::On) },
    Toolset::new("terminal", ToolsetSwitch::On),
    Toolset::new("file", ToolsetSwitch::On),
    Toolset::new("code_execution", ToolsetSwitch::On),
    Toolset::new("vision", ToolsetSwitch::On),
    Toolset::new("image_gen", ToolsetSwitch::On),
    Toolset::new("moa", ToolsetSwitch::Off),
    Toolset::new("tts", ToolsetSwitch::On),
    Toolset::new("skills", ToolsetSwitch::On),
    Toolset::new("todo", ToolsetSwitch::On),
    Toolset::new("memory", ToolsetSwitch::On),
    Toolset::new("session_search", ToolsetSwitch::On),
    Toolset::new("clarify", ToolsetSwitch::On),
    Toolset::new("delegation", ToolsetSwitch::On),
    Toolset::new("cronjob", ToolsetSwitch::On),
    Toolset { presets: InPresets::No, ..Toolset::new("rl", ToolsetSwitch::Off) },
    Toolset::new("homeassistant", ToolsetSwitch::Off),
    Toolset::new("messaging", ToolsetSwitch::None),
    Toolset::new("honcho", ToolsetSwitch::None),
    Toolset::new("memory_service", ToolsetSwitch::None),
    Toolset::new(TOOL_SEARCH_TOOLSET, ToolsetSwitch::None),
    Toolset::group("search", &["web_search"], &[]),
    Toolset::group("debugging", &[], &["terminal", "web", "file"]),
    Toolset::group("safe", &[], &["moa", "web", "vision", "image_gen"]),
];

/// The presets of programs: every tool, without those withheld from its users. Each platform has one, too.
const PROGRAM_PRESETS: &[(&str, Option<ToolUser>)] = &[
    ("hermes-cli", None),
    ("hermes-cron", None),
    ("hermes-gateway", None),
    ("hermes-acp", Some(ToolUser::Editor)),
    ("hermes-api-server", Some(ToolUser::ApiClient)),
];

/// The preset that an older configuration may name.
const OLDER_PRESET: (&str, Option<ToolUser>) = ("hermes", Some(ToolUser::ApiClient));

/// Returns the name of a platform's preset.
pub(super) fn preset_of(platform: &str) -> String {
    format!("hermes-{}", platform.replace('_', "-"))
}

/// Every tool, without those withheld from some users.
#[derive(Debug, Clone, Copy)]
struct Preset {
    withheld_from: Option<ToolUser>,
}

/// Finds a preset of a program or a platform.
fn find_preset(name: &str) -> Option<Preset> {
    let program = PROGRAM_PRESETS.iter().chain([&OLDER_PRESET]).find(|(preset, _)| *preset == name);
    let of_platform = || PLATFORM_FACTS.iter().any(|platform| preset_of(platform.name) == name);
    match program {
        Some((_, user)) => Some(Preset { withheld_from: *user }),
        None => of_platform().then_some(Preset { withheld_from: None }),
    }
}

/// Names of older configurations, and the toolset whose own tools each of them holds.
const OLDER_NAMES: &[(&str, &str)] = &[
    ("web_tools", "web"),
    ("vision_tools", "vision"),
    ("moa_tools", "moa"),
    ("image_tools", "image_gen"),
    ("skills_tools", "skills"),
    ("browser_tools", "browser"),
    ("cronjob_tools", "cronjob"),
    ("rl_tools", "rl"),
    ("file_tools", "file"),
    ("tts_tools", "tts"),
];

/// Groups of older configurations that hold less than a toolset of today.
const OLDER_GROUPS: &[Toolset] = &[Toolset::group("terminal_tools", &["terminal"], &[])];

/// The result of resolving a list of toolset names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResolvedToolsets {
    pub(super) tools: BTreeSet<String>,
    /// Names that are not in the table.
    pub(super) unknown: Vec<String>,
}

/// Lists the names of all toolsets and presets, without the older ones.
pub(super) fn toolset_names() -> impl Iterator<Item = String> {
    let of_programs = PROGRAM_PRESETS.iter().map(|(name, _)| (*name).to_owned());
    let of_platforms = PLATFORM_FACTS
        .iter()
        .map(|platform| preset_of(platform.name))
        .filter(|name| !PROGRAM_PRESETS.iter().any(|(preset, _)| preset == name));
    TOOLSETS.iter().map(|set| set.name.to_owned()).chain(of_programs).chain(of_platforms)
}

/// Lists the tools of some toolsets, registered or not.
pub(crate) fn tools_of_sets(names: &[String]) -> Vec<String> {
    resolve(names.iter().map(String::as_str), BUILT_IN_TOOLS).tools.into_iter().collect()
}

/// Resolves toolsets to tools. The toolsets of MCP servers and plugins are found by their tools in `known`.
pub(super) fn resolve<'a>(
    names: impl IntoIterator<Item = &'a str>,
    known: &[ToolDescriptor<'_>],
) -> ResolvedToolsets {
    let mut resolution = Resolution { known, seen: BTreeSet::new(), tools: BTreeSet::new() };
    let mut unknown = Vec::new();
    for name in names {
        if !resolution.follow(name.trim()) {
            unknown.push(name.to_owned());
        }
    }
    ResolvedToolsets { tools: resolution.tools, unknown }
}

/// A resolution under way.
struct Resolution<'a> {
    known: &'a [ToolDescriptor<'a>],
    seen: BTreeSet<String>,
    tools: BTreeSet<String>,
}

impl Resolution<'_> {
    /// Adds the tools of a toolset. Returns false if the toolset does not exist.
    fn follow(&mut self, name: &str) -> bool {
        if !self.seen.insert(name.to_owned()) {
            return true;
        }
        if matches!(name, "all" | "*") {
            self.add(|_| true);
            return true;
        }
        if let Some(preset) = find_preset(name) {
            let withheld = |tool: &ToolDescriptor<'_>| {
                preset.withheld_from.is_some_and(|user| tool.is_withheld_from(user))
            };
            self.add(|tool| (is_in_presets(tool.toolset) || is_of_server(tool)) && !withheld(tool));
            return true;
        }
        let table = TOOLSETS.iter().chain(OLDER_GROUPS).find(|set| set.name == name);
        if let Some(set) = table {
            self.tools.extend(set.tools.iter().map(|tool| (*tool).to_owned()));
            for name in set.includes {
                self.follow(name);
            }
        }
        let older = OLDER_NAMES.iter().find(|(older, _)| *older == name).map(|(_, toolset)| *toolset);
        let of_server = format!("{SERVER_PREFIX}{}", server_name(name));
        let owns = |toolset: &str| self.known.iter().any(|tool| tool.toolset == toolset);
        let owner = older.unwrap_or(if owns(name) { name } else { &of_server });
        let has_tools = owns(owner);
        self.add(|tool| tool.toolset == owner);
        table.is_some() || older.is_some() || has_tools
    }

    fn add(&mut self, wanted: impl Fn(&ToolDescriptor<'_>) -> bool) {
        let names = self.known.iter().filter(|tool| wanted(tool)).map(|tool| tool.name.to_owned());
        self.tools.extend(names);
    }
}

/// What the toolsets of MCP servers begin with.
pub(super) const SERVER_PREFIX: &str = "mcp-";

/// Tells whether a tool belongs to an MCP server.
pub fn is_of_server(tool: &ToolDescriptor<'_>) -> bool {
    tool.toolset.starts_with(SERVER_PREFIX)
}

/// Returns the server that a name in a list stands for: its own name, or one of the forms with a prefix that lists
/// may have.
pub(super) fn server_name(listed: &str) -> &str {
    ["mcp__", SERVER_PREFIX, "mcp_"]
        .into_iter()
        .find_map(|prefix| listed.strip_prefix(prefix))
        .unwrap_or(listed)
}

fn is_in_presets(toolset: &str) -> bool {
    TOOLSETS.iter().any(|set| set.name == toolset && set.presets == InPresets::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(names: &[&str]) -> Vec<String> {
        resolve(names.iter().copied(), BUILT_IN_TOOLS).tools.into_iter().collect()
    }

    #[test]
    fn toolsets_resolve_to_their_tools() {
        assert_eq!(tools(&["search"]), ["web_search"]);
        assert_eq!(tools(&["terminal"]), ["process", "terminal"]);
        assert_eq!(tools(&["terminal_tools"]), ["terminal"]);
        assert_eq!(tools(&["browser"]).len(), 12, "the search comes along");
        assert_eq!(tools(&["browser_tools"]).len(), 11);
        assert_eq!(tools(&["file_tools"]), tools(&["file"]));
        // Those for training have to be asked for.
        let usual = BUILT_IN_TOOLS.len() - tools(&["rl"]).len();
        assert_eq!((tools(&["hermes-cli"]).len(), tools(&["rl"]).len()), (usual, 10));
        assert_eq!(tools(&["hermes-gateway"]), tools(&["hermes-cli"]));
        assert_eq!(tools(&["hermes"]), tools(&["hermes-api-server"]));
        assert_eq!(tools(&["hermes-api-server"]).len(), usual - 3);
        let services = hermes_memory::SERVICE_TOOLS.len();
        assert_eq!(tools(&["hermes-acp"]).len(), usual - 5 - services);
        assert_eq!(tools(&["all"]).len(), BUILT_IN_TOOLS.len());
        assert_eq!(tools(&["*"]), tools(&["all"]));
        assert_eq!(tools(&["debugging", "file", "web"]), tools(&["debugging"]));
    }

    #[test]
    fn every_tool_belongs_to_a_toolset_of_the_table() {
        for tool in BUILT_IN_TOOLS {
            assert!(TOOLSETS.iter().any(|set| set.name == tool.toolset), "{}", tool.name);
        }
        for (_, toolset) in OLDER_NAMES {
            assert!(TOOLSETS.iter().any(|set| set.name == *toolset), "{toolset}");
        }
    }

    #[test]
    fn unknown_names_are_reported() {
        let issues = ToolDescriptor { toolset: "mcp-github", ..ToolDescriptor::unknown("mcp_github_issues") };
        let known: Vec<ToolDescriptor<'_>> = BUILT_IN_TOOLS.iter().copied().chain([issues]).collect();
        let resolved = resolve(["github", "nonsense", "todo"], &known);
        assert_eq!(resolved.unknown, ["nonsense"]);
        assert_eq!(resolved.tools.into_iter().collect::<Vec<_>>(), ["mcp_github_issues", "todo"]);
    }
}
