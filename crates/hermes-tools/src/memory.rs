//! `memory`: stores notes of the agent for later sessions. `hermes-knowledge` holds the files and their rules.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hermes_knowledge::{MemoryChange, MemoryFile, MemoryRefusal, MemoryState, MemoryStore};
use hermes_text::ellipsize;
use hermes_types::{
    ApprovalDecision, BoxFuture, CallKind, CallPolicy, Danger, MemoryWrite, OutcomeStatus, Provenance,
    ResultAuthor, TaskId, Tool, ToolContext, ToolDescriptor, ToolEvent, ToolInvocation, ToolOutcome,
    ToolRole, ToolSpec, ToolUser, UserAnswer, UserQuestion,
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

/// The longest change that is shown to a person, in characters.
const SHOWN_CHANGE: usize = 600;

/// What holds for changes of memory files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryRules {
    /// Whether a person must approve each change.
    pub needs_approval: bool,
    /// The service that keeps the notes of the agent instead of MEMORY.md.
    pub notes_elsewhere: Option<&'static str>,
    /// The service that keeps the profile of the user instead of USER.md.
    pub profile_elsewhere: Option<&'static str>,
}

/// The `memory` tool. Each store is present only if its kind of memory is enabled.
#[derive(Debug)]
pub struct MemoryTool {
    spec: ToolSpec,
    notes: Option<MemoryStore>,
    profile: Option<MemoryStore>,
    rules: MemoryRules,
    /// Where the words of others came from that the model read before the call that runs now, by task.
    sources: Mutex<HashMap<TaskId, Vec<String>>>,
}

impl MemoryTool {
    pub fn new(notes: Option<MemoryStore>, profile: Option<MemoryStore>) -> Self {
        let spec = spec(&DESCRIPTOR, include_str!("texts/memory.md"), include_str!("texts/memory.json"));
        Self { spec, notes, profile, rules: MemoryRules::default(), sources: Mutex::default() }
    }

    /// Sets what holds for changes.
    #[must_use]
    pub fn with_rules(self, rules: MemoryRules) -> Self {
        Self { rules, ..self }
    }

    /// Returns why a change is not made: it was denied, or nobody could be asked.
    async fn refusal(
        &self,
        arguments: &Map<String, Value>,
        context: ToolContext<'_>,
    ) -> Option<&'static str> {
        let changes = MemoryWrite::from_arguments(arguments);
        if !self.rules.needs_approval || changes.is_empty() {
            return None;
        }
        let shown: Vec<String> = changes
            .iter()
            .map(|change| {
                let file = if change.target == "user" { "USER.md" } else { "MEMORY.md" };
                let text = if change.action == "remove" { &change.old_text } else { &change.content };
                format!("{} in {file}: {}", change.action, ellipsize(text, SHOWN_CHANGE))
            })
            .collect();
        let danger = Danger { key: "memory".to_owned(), reason: "the agent changes its memory".to_owned() };
        let question = UserQuestion::Approve { command: shown.join("\n"), danger };
        match context.frontend.ask_before_acting(question, context.cancel).await {
            UserAnswer::Approval(ApprovalDecision::Deny) => {
                Some("The user denied this change; nothing was written.")
            }
            UserAnswer::Approval(_) => None,
            _ => Some(
                "Changes of the memory need the approval of the user (memory.write_approval), and nobody could be \
                 asked. Nothing was written.",
            ),
        }
    }

    fn answer(&self, arguments: &Map<String, Value>, sources: &[String]) -> ToolOutcome {
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
        let elsewhere = match target {
            MemoryFile::Memory => self.rules.notes_elsewhere,
            MemoryFile::User => self.rules.profile_elsewhere,
        };
        let writes = MemoryWrite::from_arguments(arguments);
        if let (Some(service), false) = (elsewhere, writes.is_empty()) {
            if writes.iter().any(|write| write.action != "add") {
                return refused(&format!("{service} keeps this memory; it can only be added to."));
            }
            let words = format!("Passed on to {service}, which keeps this memory; the file is unchanged.");
            return ToolOutcome::done(
                json!({"success": true, "target": target.as_str(), "message": words}).to_string(),
            );
        }
        let Some(memory) = store else {
            return refused(
                "Memory is not available. It is turned off in config.yaml (memory.memory_enabled, memory.user_profile_enabled).",
            );
        };
        let memory = &memory.from_sources(sources);
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

    fn run<'a>(&'a self, call: &'a ToolInvocation, context: ToolContext<'a>) -> BoxFuture<'a, ToolOutcome> {
        Box::pin(async move {
            let sources = self.sources().remove(&call.task).unwrap_or_default();
            match self.refusal(&call.arguments, context).await {
                Some(reason) => refused(reason),
                None => self.answer(&call.arguments, &sources),
            }
        })
    }

    fn on_event(&self, task: &TaskId, occasion: ToolEvent<'_>) {
        match occasion {
            ToolEvent::OthersWordsRead(sources) => {
                self.sources().insert(task.clone(), sources.to_vec());
            }
            ToolEvent::Ended => {
                self.sources().remove(task);
            }
            _ => {}
        }
    }

    fn call_policy(&self, _: &Map<String, Value>) -> CallPolicy {
        CallPolicy { kind: CallKind::Housekeeping, ..CallPolicy::default() }
    }
}

impl MemoryTool {
    fn sources(&self) -> std::sync::MutexGuard<'_, HashMap<TaskId, Vec<String>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
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
