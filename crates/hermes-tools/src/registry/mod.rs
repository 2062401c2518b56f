//! The registry: which tools exist, which toolset each belongs to, and whether each can be used here.
//!
//! Invariants: tools are sorted by name, so that the same selection always produces the same prompt; a
//! registered tool accepts arguments in any JSON type that can be converted to the one in its schema.

mod coerce;
mod coercing_tool;
mod platform_toolsets;
mod select;
mod toolset;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hermes_types::{Tool, ToolDescriptor};

use crate::built_in::BUILT_IN_TOOLS;
use crate::file::FileTools;
use crate::patch::PatchTool;
use crate::read_file::ReadFileTool;
use crate::search_files::SearchFilesTool;
use crate::write_file::WriteFileTool;
use coercing_tool::CoercingTool;
use toolset::{resolve, toolset_names};

pub use coerce::coerce;
pub use platform_toolsets::PlatformToolsets;
pub use select::{SelectedTools, ToolSelection};
pub(crate) use toolset::tools_of_sets;
pub use toolset::{InPresets, TOOLSETS, Toolset, ToolsetSwitch, is_of_server};

/// A function that tells whether a tool can be used now.
pub type AvailabilityCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// The tools of a program or of one of its sessions.
#[derive(Clone, Default)]
#[expect(missing_debug_implementations, reason = "it only holds ports")]
pub struct ToolRegistry {
    /// The entries in the order of registration, the order in which people see them.
    entries: Vec<RegistryEntry>,
    /// The same tools sorted by name, the order in which the model sees them.
    tools: Vec<Arc<dyn Tool>>,
}

#[derive(Clone)]
struct RegistryEntry {
    tool: Arc<dyn Tool>,
    check: Option<AvailabilityCheck>,
}

/// A tool in a list for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolListing {
    pub name: String,
    pub toolset: String,
    /// The first sentence of the tool's description.
    pub summary: String,
    pub availability: Availability,
}

/// A toolset in a list for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetListing {
    pub name: String,
    /// The registered tools of the toolset.
    pub tools: Vec<String>,
    pub availability: Availability,
}

/// Describes whether a tool or a toolset can be used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    Available,
    Unavailable,
}

impl ToolRegistry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a registry with tools that come from other registries, all of which are available.
    pub fn of_registered(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Self {
        let mut tools: Vec<Arc<dyn Tool>> = tools.into_iter().collect();
        let entries = tools.iter().map(|tool| RegistryEntry { tool: tool.clone(), check: None }).collect();
        tools.sort_by(|a, b| a.spec().name.cmp(&b.spec().name));
        Self { entries, tools }
    }

    /// Returns a registry with the four file tools, which share their state.
    pub fn file_tools(files: &FileTools) -> Self {
        let mut registry = Self::new();
        registry.register(Arc::new(ReadFileTool::new(files.clone())));
        registry.register(Arc::new(WriteFileTool::new(files.clone())));
        registry.register(Arc::new(PatchTool::new(files.clone())));
        registry.register(Arc::new(SearchFilesTool::new(files.clone())));
        registry
    }

    /// Adds a tool, or replaces the tool of the same name.
    pub fn register(&mut self, tool: Arc<dyn Tool>) {
        self.add(tool, None);
    }

    /// Adds a tool that is available only while a check passes.
    pub fn register_checked(&mut self, tool: Arc<dyn Tool>, check: AvailabilityCheck) {
        self.add(tool, Some(check));
    }

    fn add(&mut self, tool: Arc<dyn Tool>, check: Option<AvailabilityCheck>) {
        let tool: Arc<dyn Tool> = Arc::new(CoercingTool::new(tool));
        let name = tool.spec().name.clone();
        let entry = RegistryEntry { tool: tool.clone(), check };
        match self.entries.iter_mut().find(|known| known.tool.spec().name == name) {
            Some(known) => {
                let (from, to) = (known.tool.descriptor().toolset, tool.descriptor().toolset);
                if from != to {
                    tracing::warn!(tool = %name, %from, %to, "a tool was taken over by another toolset");
                }
                *known = entry;
            }
            None => self.entries.push(entry),
        }
        match self.tools.binary_search_by(|known| known.spec().name.cmp(&name)) {
            Ok(at) => self.tools[at] = tool,
            Err(at) => self.tools.insert(at, tool),
        }
    }

    /// Returns the tools that are not in the described set.
    #[must_use]
    pub fn without(&self, left_out: impl Fn(&ToolDescriptor<'_>) -> bool) -> Self {
        let mut kept = self.clone();
        kept.entries.retain(|entry| !left_out(&entry.tool.descriptor()));
        kept.tools.retain(|tool| !left_out(&tool.descriptor()));
        kept
    }

    /// Returns this registry with these tools of MCP servers instead of those it has. A tool whose name is taken is
    /// left out.
    #[must_use]
    pub fn with_server_tools(&self, tools: Vec<Arc<dyn Tool>>) -> Self {
        let mut registry = self.without(is_of_server);
        for tool in tools {
            let name = &tool.spec().name;
            if registry.find(name).is_some() {
                tracing::warn!(tool = name, "an MCP tool has the name of another tool and is left out");
            } else {
                registry.register(tool);
            }
        }
        registry
    }

    /// Returns the tools sorted by name.
    pub fn tools(&self) -> &[Arc<dyn Tool>] {
        &self.tools
    }

    pub fn find(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.iter().find(|tool| tool.spec().name == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.spec().name.as_str())
    }

    /// Lists every tool for people.
    pub fn list_tools(&self) -> Vec<ToolListing> {
        let list = self.entries.iter().map(|entry| ToolListing {
            name: entry.tool.spec().name.clone(),
            toolset: entry.tool.descriptor().toolset.to_owned(),
            summary: first_sentence(&entry.tool.spec().description),
            availability: entry.availability(),
        });
        list.collect()
    }

    /// Lists every toolset with registered tools for people. The first tool with a check decides for its
    /// toolset.
    pub fn list_toolsets(&self) -> Vec<ToolsetListing> {
        let mut names: Vec<String> = toolset_names().collect();
        for entry in &self.entries {
            let toolset = entry.tool.descriptor().toolset;
            if !names.iter().any(|name| name == toolset) {
                names.push(toolset.to_owned());
            }
        }
        let known = self.known();
        let listing = names.into_iter().filter_map(|name| {
            let wanted = resolve([name.as_str()], &known).tools;
            let tools: Vec<String> =
                self.names().filter(|tool| wanted.contains(*tool)).map(str::to_owned).collect();
            let check = self
                .entries
                .iter()
                .find(|entry| entry.tool.descriptor().toolset == name && entry.check.is_some());
            let availability = check.map_or(Availability::Available, RegistryEntry::availability);
            (!tools.is_empty()).then_some(ToolsetListing { name, tools, availability })
        });
        listing.collect()
    }

    /// Returns the descriptors of the built-in tools, registered or not, and of the registered ones.
    fn known(&self) -> Vec<ToolDescriptor<'_>> {
        let registered = self.entries.iter().map(|entry| entry.tool.descriptor());
        BUILT_IN_TOOLS.iter().copied().chain(registered).collect()
    }

    /// Returns the wanted tools that can be used now. A check that several tools share runs once.
    fn available(&self, wanted: impl Fn(&ToolDescriptor<'_>) -> bool) -> Self {
        let mut asked: Vec<(AvailabilityCheck, Availability)> = Vec::new();
        let mut availability = |entry: &RegistryEntry| {
            let Some(check) = &entry.check else { return Availability::Available };
            if let Some((_, known)) = asked.iter().find(|(known, _)| Arc::ptr_eq(known, check)) {
                return *known;
            }
            let found = entry.availability();
            asked.push((check.clone(), found));
            found
        };
        let entries: Vec<RegistryEntry> = self
            .entries
            .iter()
            .filter(|entry| {
                wanted(&entry.tool.descriptor()) && availability(entry) == Availability::Available
            })
            .cloned()
            .collect();
        let kept: BTreeSet<&str> = entries.iter().map(|entry| entry.tool.spec().name.as_str()).collect();
        let tools =
            self.tools.iter().filter(|tool| kept.contains(tool.spec().name.as_str())).cloned().collect();
        Self { entries, tools }
    }
}

impl RegistryEntry {
    /// Runs the check. A check that panics counts as unavailable.
    fn availability(&self) -> Availability {
        let yes = self
            .check
            .as_ref()
            .is_none_or(|check| catch_unwind(AssertUnwindSafe(|| check())).unwrap_or(false));
        if yes { Availability::Available } else { Availability::Unavailable }
    }
}

fn first_sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => text,
    }
}
