//! `tool_describe`: shows the description and the arguments of a deferred tool.

use std::sync::Arc;

use hermes_types::{BoxFuture, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec};
use serde_json::json;

use super::TOOL_SEARCH_TOOLSET;
use super::catalogue::DeferredTools;
use crate::answer;
use crate::argument::{missing, spec, text};

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "tool_describe",
    toolset: TOOL_SEARCH_TOOLSET,
    summary: "Shows the arguments of such a tool",
    condition: "together with `tool_search`",
    icon: "🧰",
    verb: "describe tool",
    preview_arguments: &["name"],
    ..ToolDescriptor::unknown("")
};

/// The `tool_describe` tool.
pub(super) struct ToolDescribeTool {
    spec: ToolSpec,
    tools: Arc<DeferredTools>,
}

impl ToolDescribeTool {
    pub(super) fn new(tools: Arc<DeferredTools>) -> Self {
        let spec = spec(
            &DESCRIPTOR,
            include_str!("../texts/tool_describe.md"),
            include_str!("../texts/tool_describe.json"),
        );
        Self { spec, tools }
    }
}

impl Tool for ToolDescribeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        let outcome = match text(&call.arguments, "name") {
            None => missing(DESCRIPTOR.name, "name"),
            Some(name) => match self.tools.find(name) {
                None => ToolOutcome::failed(format!("Unknown tool: {name}. Find tools with tool_search.")),
                Some(tool) => {
                    let spec = tool.spec();
                    answer::success_json(&json!({
                        "name": spec.name,
                        "description": spec.description,
                        "parameters": spec.parameters.to_value(),
                    }))
                }
            },
        };
        Box::pin(std::future::ready(outcome))
    }
}
