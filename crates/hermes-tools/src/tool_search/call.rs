//! `tool_call`: calls a deferred tool.

use std::sync::Arc;

use hermes_types::{
    BoxFuture, CallPolicy, Tool, ToolContext, ToolDescriptor, ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Map, Value, json};

use super::TOOL_SEARCH_TOOLSET;
use super::catalogue::DeferredTools;
use crate::argument::{missing, spec, text};

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "tool_call",
    toolset: TOOL_SEARCH_TOOLSET,
    summary: "Calls such a tool",
    condition: "together with `tool_search`",
    icon: "⚡",
    verb: "call",
    preview_arguments: &["name"],
    ..ToolDescriptor::unknown("")
};

/// The `tool_call` tool.
pub(super) struct ToolCallTool {
    spec: ToolSpec,
    tools: Arc<DeferredTools>,
}

impl ToolCallTool {
    pub(super) fn new(tools: Arc<DeferredTools>) -> Self {
        let spec =
            spec(&DESCRIPTOR, include_str!("../texts/tool_call.md"), include_str!("../texts/tool_call.json"));
        Self { spec, tools }
    }

    fn wanted(&self, arguments: &Map<String, Value>) -> Option<&Arc<dyn Tool>> {
        self.tools.find(text(arguments, "name")?)
    }
}

/// Returns the arguments for the other tool.
fn inner_arguments(arguments: &Map<String, Value>) -> Map<String, Value> {
    arguments.get("arguments").and_then(Value::as_object).cloned().unwrap_or_default()
}

impl Tool for ToolCallTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let Some(tool) = self.wanted(&call.arguments) else {
                return match text(&call.arguments, "name") {
                    Some(name) => {
                        ToolOutcome::failed(format!("Unknown tool: {name}. Find tools with tool_search."))
                    }
                    None => missing(DESCRIPTOR.name, "name"),
                };
            };
            let (name, arguments) = (tool.spec().name.clone(), inner_arguments(&call.arguments));
            tool.run(&ToolInvocation { name, arguments, ..call.clone() }, context).await
        })
    }

    fn call_policy(&self, arguments: &Map<String, Value>) -> CallPolicy {
        self.wanted(arguments).map(|tool| tool.call_policy(&inner_arguments(arguments))).unwrap_or_default()
    }

    /// Accepts a call that names the deferred tool itself: models that read its description often make one.
    fn upgrade_legacy_call(&self, name: &str, arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
        let tool = self.tools.find(name)?;
        json!({"name": tool.spec().name, "arguments": arguments}).as_object().cloned()
    }
}
