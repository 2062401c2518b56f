//! Many tools in a small prompt: those of MCP servers beyond a budget are named, searched and called on demand.
//!
//! Holds the choice of what is deferred and the three tools that reach it. Invariant: what is deferred depends only on
//! the tools and the budget, so that the same tools always produce the same prompt.

mod call;
mod catalogue;
mod describe;
mod search;

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_text::estimate_tokens;
use hermes_types::Tool;

use crate::registry::{ToolRegistry, is_of_server};
use call::ToolCallTool;
use catalogue::DeferredTools;
use describe::ToolDescribeTool;
use search::ToolSearchTool;

pub(crate) use call::DESCRIPTOR as CALL_DESCRIPTOR;
pub(crate) use describe::DESCRIPTOR as DESCRIBE_DESCRIPTOR;
pub(crate) use search::DESCRIPTOR as SEARCH_DESCRIPTOR;

/// The toolset of the tools that reach deferred ones.
pub const TOOL_SEARCH_TOOLSET: &str = "tool_search";

/// Says when tools of servers are deferred, and how many a search finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolSearchOptions {
    pub mode: ToolSearchMode,
    /// The tokens that descriptions and schemas of servers' tools may take in the prompt.
    pub budget: u64,
    /// The most results of one search.
    pub most_results: usize,
}

/// Says when the tools of servers are deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolSearchMode {
    /// Those beyond the budget.
    Auto,
    /// All of them.
    Always,
    /// None of them.
    Never,
}

/// Replaces the tools of servers that do not fit the budget by tools that search, describe and call them. A server's
/// tools are kept or deferred together; the smallest servers are kept first.
pub fn defer_tools(registry: &ToolRegistry, options: ToolSearchOptions) -> ToolRegistry {
    let mut by_server: BTreeMap<String, Vec<Arc<dyn Tool>>> = BTreeMap::new();
    for tool in registry.tools().iter().filter(|tool| is_of_server(&tool.descriptor())) {
        by_server.entry(tool.descriptor().toolset.to_owned()).or_default().push(tool.clone());
    }
    let mut sizes: Vec<(u64, &str)> =
        by_server.iter().map(|(server, tools)| (tools.iter().map(size_of).sum(), server.as_str())).collect();
    sizes.sort_unstable();
    let budget = match options.mode {
        ToolSearchMode::Never => return registry.clone(),
        ToolSearchMode::Always => 0,
        ToolSearchMode::Auto => options.budget,
    };
    let mut spent = 0;
    let deferred: Vec<&str> = sizes
        .into_iter()
        .filter(|(size, _)| {
            spent += size;
            spent > budget
        })
        .map(|(_, server)| server)
        .collect();
    if deferred.is_empty() {
        return registry.clone();
    }
    let tools = deferred.iter().filter_map(|server| by_server.get(*server)).flatten().cloned().collect();
    let catalogue = Arc::new(DeferredTools::new(tools));
    let mut offered = registry.without(|tool| deferred.contains(&tool.toolset));
    offered.register(Arc::new(ToolSearchTool::new(catalogue.clone(), options.most_results)));
    offered.register(Arc::new(ToolDescribeTool::new(catalogue.clone())));
    offered.register(Arc::new(ToolCallTool::new(catalogue)));
    offered
}

/// Estimates the tokens of a tool in the prompt.
fn size_of(tool: &Arc<dyn Tool>) -> u64 {
    let spec = tool.spec();
    estimate_tokens(&spec.name)
        + estimate_tokens(&spec.description)
        + estimate_tokens(spec.parameters.as_str())
}
