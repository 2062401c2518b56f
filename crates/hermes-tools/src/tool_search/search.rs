//! `tool_search`: finds deferred tools by what they do.

use std::sync::Arc;

use hermes_text::ellipsize;
use hermes_types::{BoxFuture, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec};
use serde_json::{Value, json};

use super::TOOL_SEARCH_TOOLSET;
use super::catalogue::DeferredTools;
use crate::answer;
use crate::argument::{any_text, number, spec};

const USUAL_RESULTS: usize = 5;
/// The longest description in a list, in characters.
const LONGEST_DESCRIPTION: usize = 300;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "tool_search",
    toolset: TOOL_SEARCH_TOOLSET,
    summary: "Finds tools of MCP servers that are not in the prompt",
    condition: "when the tools of MCP servers exceed their budget",
    icon: "🧰",
    verb: "find tool",
    preview_arguments: &["query"],
    ..ToolDescriptor::unknown("")
};

/// The `tool_search` tool.
pub(super) struct ToolSearchTool {
    spec: ToolSpec,
    tools: Arc<DeferredTools>,
    most_results: usize,
}

impl ToolSearchTool {
    pub(super) fn new(tools: Arc<DeferredTools>, most_results: usize) -> Self {
        let mut spec = spec(
            &DESCRIPTOR,
            include_str!("../texts/tool_search.md"),
            include_str!("../texts/tool_search.json"),
        );
        spec.description.push_str(&tools.names());
        Self { spec, tools, most_results: most_results.max(1) }
    }
}

impl Tool for ToolSearchTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let question = any_text(&call.arguments, "query").unwrap_or_default();
        let most = self.most_results;
        let limit = number(&call.arguments, "limit", USUAL_RESULTS.min(most), 1..=most);
        let found: Vec<Value> = self
            .tools
            .search(question, limit)
            .into_iter()
            .map(|tool| {
                let spec = tool.spec();
                json!({"name": spec.name, "description": ellipsize(&spec.description, LONGEST_DESCRIPTION)})
            })
            .collect();
        let outcome = answer::success_json(&json!({ "tools": found }));
        Box::pin(std::future::ready(outcome))
    }
}
