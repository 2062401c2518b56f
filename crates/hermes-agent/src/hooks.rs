//! What hooks are told at each step, in the words that configurations and plugins know.
//!
//! Nothing is collected for a step at which no hook runs. Invariant: no hook fails or outlasts a turn that was
//! interrupted.

use hermes_types::{
    Cancel, HookEvent, ModelError, OutcomeStatus, SessionId, ToolInvocation, ToolOutcome, Usage,
};
use serde_json::{Map, Value, json};

use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::result::TurnResult;

/// What hooks are told, a mapping.
type HookInput = Map<String, Value>;

/// Passes a step on, if a hook wants it.
pub(crate) fn notify(agent: &Agent, event: HookEvent, input: impl FnOnce() -> HookInput) {
    if let Some(hooks) = agent.hooks.as_ref().filter(|hooks| hooks.wants(event)) {
        hooks.notify(event, input());
    }
}

/// Passes a step on, if a hook wants it, and waits for the answer. An interrupt ends the wait.
pub(crate) async fn ask(
    agent: &Agent,
    event: HookEvent,
    cancel: &Cancel,
    input: impl FnOnce() -> HookInput,
) -> Option<String> {
    let hooks = agent.hooks.as_ref().filter(|hooks| hooks.wants(event))?;
    tokio::select! {
        biased;
        answer = hooks.ask(event, input()) => answer,
        () = cancel.cancelled() => None,
    }
}

/// Describes a session.
pub(crate) fn session_input(agent: &Agent, conversation: &Conversation) -> HookInput {
    input([
        ("session_id", json!(conversation.session.as_str())),
        ("model", json!(agent.models.name)),
        ("platform", json!(conversation.source)),
    ])
}

/// Describes a turn before its first model call.
pub(crate) fn turn_input(agent: &Agent, conversation: &Conversation, words: &str) -> HookInput {
    let is_first = conversation.messages.iter().all(|message| message.role != hermes_types::Role::Assistant);
    let mut facts = session_input(agent, conversation);
    facts.insert("user_message".to_owned(), json!(words));
    facts.insert("conversation_history".to_owned(), json!(conversation.messages));
    facts.insert("is_first_turn".to_owned(), json!(is_first));
    facts
}

/// Passes on that a turn has ended.
pub(crate) fn notify_turn_end(agent: &Agent, conversation: &Conversation, words: &str, result: &TurnResult) {
    if let Some(answer) = &result.response {
        notify(agent, HookEvent::PostLlmCall, || {
            let mut facts = turn_input(agent, conversation, words);
            facts.insert("assistant_response".to_owned(), json!(answer));
            facts
        });
    }
    notify(agent, HookEvent::OnSessionEnd, || {
        let mut facts = session_input(agent, conversation);
        facts.insert("completed".to_owned(), json!(result.response.is_some() && !result.failed()));
        facts.insert("interrupted".to_owned(), json!(result.interrupted()));
        facts
    });
}

/// Describes a call of a tool.
pub(crate) fn call_input(call: &ToolInvocation) -> HookInput {
    input([
        ("tool_name", json!(call.name)),
        ("args", json!(call.arguments)),
        ("task_id", json!(call.task.as_str())),
        ("session_id", json!(call.session.as_str())),
        ("tool_call_id", json!(call.id.as_str())),
    ])
}

/// Describes a call of a tool with its result.
pub(crate) fn result_input(call: &ToolInvocation, outcome: &ToolOutcome) -> HookInput {
    let status = match outcome.status {
        OutcomeStatus::Done => "done",
        OutcomeStatus::Failed => "failed",
        OutcomeStatus::Cancelled => "cancelled",
        OutcomeStatus::Unknown => "unknown",
    };
    let mut facts = call_input(call);
    facts.insert("result".to_owned(), json!(outcome.content));
    facts.insert("status".to_owned(), json!(status));
    facts
}

/// Lets hooks replace the output of a command in its result.
pub(crate) async fn transform_output(
    agent: &Agent,
    cancel: &Cancel,
    call: &ToolInvocation,
    outcome: &mut ToolOutcome,
) {
    let Ok(Value::Object(mut result)) = serde_json::from_str(&outcome.content) else { return };
    let Some(output) = result.get("output").and_then(Value::as_str).map(str::to_owned) else { return };
    let describe = || {
        let mut facts = call_input(call);
        facts.remove("args");
        facts.insert("command".to_owned(), call.arguments.get("command").cloned().unwrap_or_default());
        facts.insert("returncode".to_owned(), result.get("exit_code").cloned().unwrap_or_default());
        facts.insert("output".to_owned(), output.clone().into());
        facts
    };
    let changed = ask(agent, HookEvent::TransformTerminalOutput, cancel, describe).await;
    if let Some(text) = changed.filter(|text| *text != output) {
        result.insert("output".to_owned(), text.into());
        outcome.content = Value::Object(result).to_string();
    }
}

/// Describes a model call.
pub(crate) fn request_input(session: &SessionId, model: &str, iteration: u32) -> HookInput {
    input([("session_id", json!(session.as_str())), ("model", json!(model)), ("iteration", json!(iteration))])
}

/// Adds the usage of a model call.
pub(crate) fn with_usage(mut facts: HookInput, usage: Option<Usage>) -> HookInput {
    if let Some(usage) = usage {
        facts.insert("prompt_tokens".to_owned(), json!(usage.prompt()));
        facts.insert("completion_tokens".to_owned(), json!(usage.output));
    }
    facts
}

/// Adds the error of a model call.
pub(crate) fn with_error(mut facts: HookInput, error: &ModelError) -> HookInput {
    facts.insert("error".to_owned(), json!(error.to_string()));
    facts
}

/// Describes a subagent.
pub(crate) fn subagent_input(parent: &SessionId, label: &str, goal: &str) -> HookInput {
    input([("session_id", json!(parent.as_str())), ("label", json!(label)), ("goal", json!(goal))])
}

fn input<const N: usize>(pairs: [(&str, Value); N]) -> HookInput {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
