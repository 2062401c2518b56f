//! The offline model: answers plain requests by rule, so that a new user sees a turn with real tools in the first
//! minute.
//!
//! Implements the same port as every other model and never uses the network. For anything that has no rule, it says
//! so and explains how to connect a model.

mod intent;
mod phrase;

use hermes_text::estimate_tokens;
use hermes_types::{
    BoxFuture, Completion, Cost, CostStatus, Delta, DeltaSink, FinishReason, Message, Model, ModelError,
    ModelRequest, Role, ToolCall, Usage,
};

use intent::Intent;

/// The model's name for users and logs.
pub const MODEL_NAME: &str = "offline";

const EXPLANATION: &str = include_str!("explanation.md");

/// The context window; more than the rules need, since the model never makes a conversation longer by itself.
const CONTEXT_WINDOW: u64 = 128_000;

/// A model made of rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineModel;

impl Model for OfflineModel {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(async move {
            if request.cancel.is_cancelled() {
                return Err(ModelError::Cancelled);
            }
            let message = answer(request);
            stream_message(&message, sink);
            Ok(complete(request, message))
        })
    }

    fn context_window(&self, _model: &str) -> u64 {
        CONTEXT_WINDOW
    }
}

/// Returns the next step of the turn: another call, or the final answer.
fn answer(request: &ModelRequest) -> Message {
    let turn = current_turn(&request.messages);
    let Some((asked, since)) = turn.split_first() else { return assistant_message(EXPLANATION.trim()) };
    // What a memory recalled is no request.
    let intents = intent::read(hermes_text::strip_think(&asked.content.text()).trim());
    let made: Vec<&ToolCall> = since.iter().flat_map(|message| &message.tool_calls).collect();
    if let Some(next) = intents.get(made.len()) {
        let offered = |name: &str| request.tools.iter().any(|tool| tool.name == name);
        if let Some((name, arguments)) = next.call(&offered) {
            let call = ToolCall::new(None, name, arguments.to_string());
            let mut message = Message::assistant("").with_calls(vec![call]);
            message.finish_reason = Some(FinishReason::ToolCalls);
            return message;
        }
        if made.is_empty() {
            return assistant_message(&unavailable(next));
        }
    }
    if made.is_empty() {
        return assistant_message(EXPLANATION.trim());
    }
    let results: Vec<String> = made
        .iter()
        .zip(&intents)
        .map(|(call, intent)| {
            let result = since.iter().rfind(|message| message.tool_call_id.as_ref() == Some(&call.id));
            phrase::describe_result(intent, result.map(|message| message.content.text()).as_deref())
        })
        .collect();
    assistant_message(&format!("{}\n\n{}", results.join("\n\n"), phrase::SIGNATURE))
}

/// Returns the newest user message and everything after it.
fn current_turn(messages: &[Message]) -> &[Message] {
    let start = messages.iter().rposition(|message| message.role == Role::User);
    start.and_then(|start| messages.get(start..)).unwrap_or_default()
}

fn unavailable(intent: &Intent) -> String {
    format!(
        "That needs the tool `{}`, which is not enabled here. `hermes tools` shows what is.\n\n{}",
        intent.tool(),
        phrase::SIGNATURE
    )
}

fn assistant_message(text: &str) -> Message {
    let mut message = Message::assistant(text);
    message.finish_reason = Some(FinishReason::Stop);
    message
}

/// Streams the message like any other model, a line at a time.
fn stream_message(message: &Message, sink: DeltaSink<'_>) {
    for call in &message.tool_calls {
        sink(Delta::ToolStarted { name: call.name.clone() });
    }
    for line in message.content.text().split_inclusive('\n') {
        sink(Delta::Text(line.to_owned()));
    }
}

fn complete(request: &ModelRequest, message: Message) -> Completion {
    let sent = request.messages.iter().map(|message| estimate_tokens(&message.content.text())).sum::<u64>();
    let usage = Usage {
        input: sent + estimate_tokens(&request.system),
        output: estimate_tokens(&message.content.text()),
        ..Usage::default()
    };
    Completion {
        message,
        usage: Some(usage),
        cost: Cost { micro_usd: Some(0), status: CostStatus::Included },
        model: MODEL_NAME.to_owned(),
        provider: MODEL_NAME.to_owned(),
        response_id: None,
        provider_items: None,
    }
}

#[cfg(test)]
mod tests;
