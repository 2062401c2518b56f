//! A tool of a plugin as the model calls it.

use std::time::Duration;

use hermes_types::{
    BoxFuture, OutcomeStatus, Provenance, RawJson, ResultAuthor, Tool, ToolContext, ToolDescriptor,
    ToolInvocation, ToolOutcome, ToolSpec,
};
use serde_json::{Value, json};

use crate::error::PluginError;
use crate::plugin_host::PluginHost;

const LIMIT: Duration = Duration::from_mins(5);
const USUAL_ICON: &str = "⚡";

/// What a plugin registered.
#[derive(Debug, Clone)]
pub(crate) struct PluginToolRecord {
    pub(crate) name: String,
    pub(crate) toolset: String,
    pub(crate) description: String,
    pub(crate) icon: String,
    pub(crate) parameters: Value,
}

impl PluginToolRecord {
    /// Reads one entry of the helper's list.
    pub(crate) fn parse(entry: &Value) -> Option<Self> {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let name = text("name").filter(|name| is_tool_name(name))?;
        let schema = entry.get("schema").cloned().unwrap_or_default();
        // The whole function object, or only its parameters.
        let schema = schema.get("function").cloned().unwrap_or(schema);
        let described = schema.get("description").and_then(Value::as_str).map(str::to_owned);
        let parameters = schema.get("parameters").cloned().filter(Value::is_object);
        let parameters = parameters.or_else(|| schema.get("properties").is_some().then(|| schema.clone()));
        Some(Self {
            toolset: text("toolset").filter(|name| !name.is_empty()).unwrap_or_else(|| "plugins".to_owned()),
            description: described.or_else(|| text("description")).unwrap_or_default(),
            icon: text("emoji").filter(|icon| !icon.is_empty()).unwrap_or_else(|| USUAL_ICON.to_owned()),
            parameters: parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}})),
            name,
        })
    }
}

fn is_tool_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_part)
}

pub(crate) struct PluginTool {
    spec: ToolSpec,
    record: PluginToolRecord,
    host: PluginHost,
}

impl PluginTool {
    pub(crate) fn new(record: PluginToolRecord, host: PluginHost) -> Self {
        let spec = ToolSpec {
            name: record.name.clone(),
            description: record.description.clone(),
            parameters: RawJson::from_value(&record.parameters),
        };
        Self { spec, record, host }
    }

    async fn call(&self, call: &ToolInvocation, context: ToolContext<'_>) -> ToolOutcome {
        let params = json!({
            "name": self.record.name,
            "args": call.arguments,
            "context": {"task_id": call.task.as_str(), "session_id": call.session.as_str()},
        });
        let answer = tokio::select! {
            answer = self.host.request("tool", &params, LIMIT) => answer,
            () = context.cancel.cancelled() => {
                return ToolOutcome {
                    content: json!({"error": "The call was interrupted; the plugin may still work on it."}).to_string(),
                    status: OutcomeStatus::Cancelled,
                    provenance: Provenance::Tool,
                };
            }
        };
        match answer {
            Ok(Value::String(text)) => {
                let failed =
                    serde_json::from_str::<Value>(&text).is_ok_and(|value| value.get("error").is_some());
                if failed { failure(text) } else { ToolOutcome::done(text) }
            }
            Ok(other) => ToolOutcome::done(other.to_string()),
            Err(PluginError::Failed(reason)) => failure(json!({"error": reason}).to_string()),
            Err(error) => failure(json!({"error": format!("{}: {error}", self.record.name)}).to_string()),
        }
    }
}

fn failure(content: String) -> ToolOutcome {
    ToolOutcome { content, status: OutcomeStatus::Failed, provenance: Provenance::Tool }
}

impl Tool for PluginTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        ToolDescriptor {
            toolset: &self.record.toolset,
            icon: &self.record.icon,
            result_author: ResultAuthor::Others,
            ..ToolDescriptor::unknown(&self.spec.name)
        }
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(self.call(call, context))
    }
}
