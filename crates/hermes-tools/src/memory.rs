//! `memory`: stores notes of the agent for later sessions. `hermes-knowledge` holds the files and their rules.

use hermes_knowledge::{MemoryChange, MemoryFile, MemoryRefusal, MemoryState, MemoryStore};
use hermes_types::{
    BoxFuture, CallKind, CallPolicy, OutcomeStatus, Provenance, ResultAuthor, Tool, ToolContext,
    ToolDescriptor, ToolInvocation, ToolOutcome, ToolRole, ToolSpec, ToolUser,
};
use serde_json::{Map, Value, json};

use crate::argument::spec;

pub(crate) const DESCRIPTOR: ToolDescriptor<'static> = ToolDescriptor {
    name: "memory",
    toolset: "memory",
    summary: "Keeps notes for later sessions",
    condition: "while `memory.memory_enabled` or `memory.user_profile_enabled` is on",
    icon: "🧠",
    verb: "memory",
    preview_arguments: &["action"],
    role: Some(ToolRole::Memory),
    guidance: Some(include_str!("texts/memory_guidance.md")),
    withheld_from: &[ToolUser::Subagent],
    result_author: ResultAuthor::Tool,
    ..ToolDescriptor::unknown("")
};

/// The `memory` tool. Each store is present only if its kind of memory is enabled.
#[derive(Debug)]
pub struct MemoryTool {
    spec: ToolSpec,
    notes: Option<MemoryStore>,
    profile: Option<MemoryStore>,
}

impl MemoryTool {
    pub fn new(notes: Option<MemoryStore>, profile: Option<MemoryStore>) -> Self {
        let spec = spec(&DESCRIPTOR, include_str!("texts/memory.md"), include_str!("texts/memory.json"));
        Self { spec, notes, profile }
    }

    fn answer(&self, arguments: &Map<String, Value>) -> ToolOutcome {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let target = match arguments.get("target") {
            None | Some(Value::Null) => MemoryFile::Memory,
            Some(Value::String(name)) if name.is_empty() => MemoryFile::Memory,
            Some(given) => {
                let name = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
                match MemoryFile::parse(&name) {
                    Some(target) => target,
                    None => {
                        return refused(&format!("Invalid target '{name}'. Use 'memory' or 'user'."));
                    }
                }
            }
        };
        let store = match target {
            MemoryFile::Memory => &self.notes,
            MemoryFile::User => &self.profile,
        };
        let Some(memory) = store else {
            return refused(
                "Memory is not available. It is turned off in config.yaml (memory.memory_enabled, memory.user_profile_enabled).",
            );
        };
        if let Some(Value::Array(operations)) = arguments.get("operations") {
            return match operations.iter().map(change_of).collect::<Result<Vec<MemoryChange>, String>>() {
                Ok(changes) => change_outcome(target, memory.apply_all(target, &changes)),
                Err(words) => refused(&words),
            };
        }
        let action = text("action");
        if action == "read" {
            return change_outcome(target, Ok(memory.state(target)));
        }
        match change(&action, text("content"), text("old_text")) {
            Some(change) => change_outcome(target, memory.apply(target, &change)),
            None => refused(&format!("Unknown action '{action}'. Use add, replace or remove.")),
        }
    }
}

impl Tool for MemoryTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn descriptor(&self) -> ToolDescriptor<'_> {
        DESCRIPTOR
    }

    fn run<'a>(&'a self, call: &'a ToolInvocation, _: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move { self.answer(&call.arguments) })
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { kind: CallKind::Housekeeping, ..CallPolicy::default() }
    }
}

fn change(action: &str, content: String, old_text: String) -> Option<MemoryChange> {
    match action {
        "add" => Some(MemoryChange::Add { content }),
        "replace" => Some(MemoryChange::Replace { old_text, content }),
        "remove" => Some(MemoryChange::Remove { old_text }),
        _ => None,
    }
}

fn change_of(operation: &Value) -> Result<MemoryChange, String> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let action = text("action");
    change(&action, text("content"), text("old_text"))
        .ok_or_else(|| format!("Unknown action '{action}'. Use add, replace or remove."))
}

fn change_outcome(target: MemoryFile, result: Result<MemoryState, MemoryRefusal>) -> ToolOutcome {
    match result {
        Ok(kept) => {
            let mut answer = json!({
                "success": true,
                "target": target.as_str(),
                "entries": kept.entries,
                "usage": kept.usage,
                "entry_count": kept.entries.len(),
            });
            if !kept.message.is_empty() {
                answer["message"] = json!(kept.message);
            }
            ToolOutcome::done(answer.to_string())
        }
        Err(refusal) => {
            let mut answer = json!({"success": false, "error": refusal.to_string()});
            match refusal {
                MemoryRefusal::Full { entries, usage, .. } => {
                    answer["current_entries"] = json!(entries);
                    answer["usage"] = json!(usage);
                }
                MemoryRefusal::Ambiguous { previews, .. } => answer["matches"] = json!(previews),
                _ => {}
            }
            failed(&answer)
        }
    }
}

fn refused(words: &str) -> ToolOutcome {
    failed(&json!({"success": false, "error": words}))
}

fn failed(answer: &Value) -> ToolOutcome {
    ToolOutcome { content: answer.to_string(), status: OutcomeStatus::Failed, provenance: Provenance::Tool }
}
