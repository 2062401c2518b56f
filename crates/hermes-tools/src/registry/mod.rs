//! The registry: which tools exist, which toolset each belongs to, and whether each can be used here.
//!
//! Invariants: tools are sorted by name, so that the same selection always produces the same prompt; a
//! registered tool accepts arguments in any JSON type that can be converted to the one in its schema.

mod coerce;
mod coercing_tool;
mod select;
mod toolset;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hermes_types::Tool;

use crate::file::{FileGuard, FileTools};
use crate::patch::PatchTool;
use crate::read_file::ReadFileTool;
use crate::search_files::SearchFilesTool;
use crate::write_file::WriteFileTool;
use coercing_tool::CoercingTool;
use toolset::{ToolsByToolset, resolve};

pub use coerce::coerce;
pub use select::{SelectedTools, ToolSelection};
pub use toolset::{ResolvedToolsets, toolset_names};

/// Lists the tools of some toolsets, registered or not.
pub(crate) fn tools_of_sets(names: &[String]) -> Vec<String> {
    resolve(names.iter().map(String::as_str), &ToolsByToolset::new()).tools.into_iter().collect()
}

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
    toolset: String,
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

    /// Returns a registry with the file tools, which work in the guard's folder.
    pub fn built_in(guard: &FileGuard) -> Self {
        Self::file_tools(&FileTools::from(guard.clone()))
    }

    /// Returns a registry with the four file tools, which share their state.
    pub fn file_tools(files: &FileTools) -> Self {
        let mut registry = Self::new();
        registry.register("file", Arc::new(ReadFileTool::new(files.clone())), None);
        registry.register("file", Arc::new(WriteFileTool::new(files.clone())), None);
        registry.register("file", Arc::new(PatchTool::new(files.clone())), None);
        registry.register("file", Arc::new(SearchFilesTool::new(files.clone())), None);
        registry
    }

    /// Adds a tool, or replaces the tool of the same name.
    pub fn register(&mut self, toolset: &str, tool: Arc<dyn Tool>, check: Option<AvailabilityCheck>) {
        let tool: Arc<dyn Tool> = Arc::new(CoercingTool::new(tool));
        let name = tool.spec().name.clone();
        let entry = RegistryEntry { tool: tool.clone(), toolset: toolset.to_owned(), check };
        match self.entries.iter_mut().find(|known| known.tool.spec().name == name) {
            Some(known) => {
                if known.toolset != toolset {
                    tracing::warn!(tool = %name, from = %known.toolset, to = %toolset, "a tool was taken over by another toolset");
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

    /// Resolves a list of toolset names to tools, registered or not.
    pub fn resolve(&self, names: &[String]) -> ResolvedToolsets {
        resolve(names.iter().map(String::as_str), &self.owned())
    }

    /// Lists every tool for people.
    pub fn list_tools(&self) -> Vec<ToolListing> {
        let list = self.entries.iter().map(|entry| ToolListing {
            name: entry.tool.spec().name.clone(),
            toolset: entry.toolset.clone(),
            summary: first_sentence(&entry.tool.spec().description),
            availability: entry.availability(),
        });
        list.collect()
    }

    /// Lists every toolset with registered tools for people. The first tool with a check decides for its
    /// toolset.
    pub fn list_toolsets(&self) -> Vec<ToolsetListing> {
        let mut names: Vec<String> = toolset_names().map(str::to_owned).collect();
        for entry in &self.entries {
            if !names.contains(&entry.toolset) {
                names.push(entry.toolset.clone());
            }
        }
        let owned = self.owned();
        let listing = names.into_iter().filter_map(|name| {
            let wanted = resolve([name.as_str()], &owned).tools;
            let tools: Vec<String> =
                self.names().filter(|tool| wanted.contains(*tool)).map(str::to_owned).collect();
            let check = self.entries.iter().find(|entry| entry.toolset == name && entry.check.is_some());
            let availability = check.map_or(Availability::Available, RegistryEntry::availability);
            (!tools.is_empty()).then_some(ToolsetListing { name, tools, availability })
        });
        listing.collect()
    }

    fn owned(&self) -> ToolsByToolset {
        let mut owned = ToolsByToolset::new();
        for entry in &self.entries {
            owned.entry(entry.toolset.clone()).or_default().insert(entry.tool.spec().name.clone());
        }
        owned
    }

    /// Returns the wanted tools that can be used now. A check that several tools share runs once.
    fn available(&self, wanted: impl Fn(&str) -> bool) -> Self {
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
            .filter(|entry| wanted(&entry.tool.spec().name) && availability(entry) == Availability::Available)
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
