//! A tool wrapper that converts the arguments to the types of the schema before the tool runs.

use std::sync::Arc;

use hermes_types::{
    BoxFuture, CallPolicy, TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent, ToolInvocation, ToolOutcome,
    ToolSpec,
};
use serde_json::{Map, Value};

use super::coerce::coerce;

pub(super) struct CoercingTool {
    tool: Arc<dyn Tool>,
    schema: Value,
}

impl CoercingTool {
    pub(super) fn new(tool: Arc<dyn Tool>) -> Self {
        let schema = tool.spec().parameters.to_value();
        Self { tool, schema }
    }
}

impl Tool for CoercingTool {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        self.tool.descriptor()
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let arguments = coerce(call.arguments.clone(), &self.schema);
            if arguments == call.arguments {
                return self.tool.run(call, context).await;
            }
            let call = ToolInvocation { arguments, ..call.clone() };
            self.tool.run(&call, context).await
        })
    }

    fn call_policy(&self, arguments: &Map<String, Value>) -> CallPolicy {
        self.tool.call_policy(arguments)
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        self.tool.on_event(task, occasion);
    }

    fn end_background_work(&self, task: &TaskId) {
        self.tool.end_background_work(task);
    }

    fn upgrade_legacy_call(&self, name: &str, arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
        self.tool.upgrade_legacy_call(name, arguments)
    }

    fn carry_over(&self, task: &TaskId) -> Option<String> {
        self.tool.carry_over(task)
    }
}
