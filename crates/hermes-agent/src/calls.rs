//! Checking the calls a model made before anything is run.

use std::sync::Arc;

use hermes_types::{Tool, ToolCall};
use serde_json::{Map, Value};

/// What is to be done about a call.
pub(crate) enum Checked {
    Run(Arc<dyn Tool>, Map<String, Value>),
    /// It cannot be run; the model is told why and may try again.
    Refuse(String),
}

/// Looks at one call: is the tool known, are the arguments an object.
pub(crate) fn check(call: &ToolCall, tools: &[Arc<dyn Tool>]) -> Checked {
    let Some(tool) = find(&call.name, tools) else {
        let mut names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        names.sort_unstable();
        return Checked::Refuse(format!(
            "Tool '{}' does not exist. Available tools: {}",
            call.name,
            names.join(", ")
        ));
    };
    let text = call.arguments.trim();
    if text.is_empty() {
        return Checked::Run(tool, Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Checked::Run(tool, arguments),
        // A list or a number is no set of arguments; the tool says what it misses.
        Ok(_) => Checked::Run(tool, Map::new()),
        Err(error) => Checked::Refuse(format!(
            "Error: Invalid JSON arguments. {error}. Send a JSON object; use {{}} when no parameters are needed."
        )),
    }
}

/// By name, forgiving case and the usual mix-ups of `-`, space and `_`.
fn find(name: &str, tools: &[Arc<dyn Tool>]) -> Option<Arc<dyn Tool>> {
    let exact = |wanted: &str| tools.iter().find(|tool| tool.spec().name == wanted).cloned();
    let lower = name.trim().to_ascii_lowercase();
    exact(name).or_else(|| exact(&lower)).or_else(|| exact(&lower.replace(['-', ' '], "_")))
}
