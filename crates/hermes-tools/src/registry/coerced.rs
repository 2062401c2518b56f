//! A tool whose arguments are brought to their kinds before it runs.

use std::sync::Arc;

use hermes_types::{BoxFuture, Call, Manner, Occasion, Outcome, TaskId, Tool, ToolContext, ToolSpec};
use serde_json::{Map, Value};

use super::coerce::coerce;

pub(super) struct Coerced {
    tool: Arc<dyn Tool>,
    schema: Value,
}

impl Coerced {
    pub(super) fn new(tool: Arc<dyn Tool>) -> Self {
        let schema = tool.spec().parameters.to_value();
        Self { tool, schema }
    }
}

impl Tool for Coerced {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn run<'a>(&'a self, call: &'a Call, context: ToolContext<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let arguments = coerce(call.arguments.clone(), &self.schema);
            if arguments == call.arguments {
                return self.tool.run(call, context).await;
            }
            let call = Call { arguments, ..call.clone() };
            self.tool.run(&call, context).await
        })
    }

    fn manner(&self, arguments: &Map<String, Value>) -> Manner {
        self.tool.manner(arguments)
    }

    fn notice(&self, task: &TaskId, occasion: Occasion<'_>) {
        self.tool.notice(task, occasion);
    }

    fn abandon(&self, task: &TaskId) {
        self.tool.abandon(task);
    }

    fn carry_over(&self, task: &TaskId) -> Option<String> {
        self.tool.carry_over(task)
    }
}
