//! The loop of one rollout: ask the model, run its calls, until it answers without one.
//!
//! Knows nothing of training. Calls of one answer run one after the other; each gets exactly one result.

use hermes_text::head;
use hermes_types::Cancel;
use serde_json::{Map, Value, json};

use super::chat::{ChatAnswer, ChatCall, ChatPartner};
use super::result_budget::{PlacedResult, ResultBudget, failure_of};
use super::rollout_tools::RolloutTools;

/// The tools that need a home, which a rollout has not.
const WITHOUT_HOME: [&str; 2] = ["memory", "session_search"];
/// The characters of arguments and results that are kept with an error.
const KEPT_ARGUMENTS: usize = 200;
const KEPT_RESULT: usize = 500;

/// A call that failed in a way that says something about the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutToolError {
    pub turn: usize,
    pub tool: String,
    pub arguments: String,
    pub error: String,
    pub result: String,
}

/// What came of the conversation of a rollout.
#[derive(Debug, Clone, Default)]
pub struct AgentLoopResult {
    pub messages: Vec<Value>,
    pub turns_used: usize,
    /// Whether the model ended the conversation itself.
    pub finished_naturally: bool,
    pub reasoning_per_turn: Vec<Option<String>>,
    pub tool_errors: Vec<RolloutToolError>,
    /// Why the model could not be asked any more.
    pub failure: Option<String>,
}

impl AgentLoopResult {
    /// Tells whether the model did nothing.
    pub fn is_empty(&self) -> bool {
        let role = |message: &Value| message.get("role").and_then(Value::as_str).map(str::to_owned);
        self.turns_used == 0
            || self
                .messages
                .iter()
                .all(|message| role(message).is_some_and(|role| role == "system" || role == "user"))
    }

    /// Returns the text of the last answer.
    pub fn last_answer(&self) -> &str {
        let answers = self.messages.iter().rev();
        let mut answers =
            answers.filter(|message| message.get("role").and_then(Value::as_str) == Some("assistant"));
        answers
            .find_map(|message| message.get("content")?.as_str().filter(|text| !text.trim().is_empty()))
            .unwrap_or_default()
    }

    /// Returns the names of the tools the model called, in order.
    pub fn called_tools(&self) -> Vec<&str> {
        let calls = self.messages.iter().filter_map(|message| message.get("tool_calls")?.as_array());
        calls.flatten().filter_map(|call| call.pointer("/function/name")?.as_str()).collect()
    }
}

/// Holds the conversation.
pub(crate) struct AgentLoop<'a> {
    pub(crate) tools: &'a RolloutTools,
    /// The names the model may call.
    pub(crate) names: &'a [String],
    pub(crate) budget: &'a ResultBudget,
    pub(crate) max_turns: usize,
}

impl AgentLoop<'_> {
    pub(crate) async fn run(
        &self,
        partner: &mut dyn ChatPartner,
        messages: Vec<Value>,
        cancel: &Cancel,
    ) -> AgentLoopResult {
        let mut result = AgentLoopResult { messages, ..AgentLoopResult::default() };
        for turn in 0..self.max_turns {
            let answer = match partner.answer(&result.messages, cancel).await {
                Ok(answer) => answer,
                Err(reason) => {
                    result.failure = Some(reason);
                    return result;
                }
            };
            result.turns_used = turn + 1;
            result.reasoning_per_turn.push(answer.reasoning.clone());
            result.messages.push(message_of(&answer));
            if answer.calls.is_empty() {
                result.finished_naturally = true;
                return result;
            }
            let mut placed = Vec::new();
            for call in &answer.calls {
                let content = self.run_call(turn, call, &mut result.tool_errors).await;
                placed.push(self.budget.fit(self.tools, &call.name, &call.id, content).await);
            }
            self.budget.fit_turn(self.tools, &mut placed).await;
            result.messages.extend(placed.into_iter().map(|PlacedResult { call, content, .. }| {
                json!({"role": "tool", "tool_call_id": call, "content": content})
            }));
        }
        result
    }

    async fn run_call(&self, turn: usize, call: &ChatCall, errors: &mut Vec<RolloutToolError>) -> String {
        let mut note = |error: &str, result: &str| {
            errors.push(RolloutToolError {
                turn,
                tool: call.name.clone(),
                arguments: head(&call.arguments, KEPT_ARGUMENTS).to_owned(),
                error: error.to_owned(),
                result: head(result, KEPT_RESULT).to_owned(),
            });
        };
        if !self.names.contains(&call.name) {
            let mut names = self.names.to_vec();
            names.sort_unstable();
            let error = format!("unknown tool `{}`; there are {}", call.name, names.join(", "));
            let result = json!({"error": error}).to_string();
            note(&error, &result);
            return result;
        }
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_str() };
        let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(arguments) else {
            let error = "the arguments are not a JSON object; write them as valid JSON".to_owned();
            let result = json!({"error": error}).to_string();
            note(&error, &result);
            return result;
        };
        if WITHOUT_HOME.contains(&call.name.as_str()) {
            return json!({"error": format!("`{}` is not available here", call.name)}).to_string();
        }
        let result = self.tools.run(&call.id, &call.name, arguments).await;
        let result = result.unwrap_or_else(|| json!({"error": "the tool is gone"}).to_string());
        if let Some(error) = failure_of(&result) {
            note(&error, &result);
        }
        result
    }
}

/// Writes an answer as a message of the conversation.
fn message_of(answer: &ChatAnswer) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.content.as_deref().unwrap_or_default()});
    if let Some(reasoning) = &answer.reasoning {
        message["reasoning_content"] = json!(reasoning);
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().map(|call| {
            json!({
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        });
        message["tool_calls"] = calls.collect();
    }
    message
}
