//! Sampling: a server asks the user's model. Its requests are limited in number, length, time and rounds, and see
//! nothing of a conversation.
// Sampling is deprecated in the newest protocol, and servers of today use it.
#![expect(deprecated, reason = "servers that sample are still in use")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_config::settings::McpSampling;
use hermes_types::{
    Cancel, Clock, Completion, ContentPart, Deadline, FinishReason, Message, MessageContent, ModelError,
    ModelRequest, RawJson, SideModel, ToolCall, ToolSpec, Usage,
};
use rmcp::model::{
    ContentBlock, CreateMessageRequestParams, CreateMessageResult, ErrorCode, ErrorData, Role as PeerRole,
    SamplingContent, SamplingMessage, SamplingMessageContentBlock,
};
use serde_json::{Map, Value, json};

use crate::foreign_text::scrub_error;

const MINUTE: Duration = Duration::from_mins(1);

/// Answers a server's requests to the model, within limits.
pub(crate) struct SamplingService {
    settings: McpSampling,
    model: Option<SideModel>,
    clock: Arc<dyn Clock>,
    usage: Mutex<SamplingUsage>,
}

/// What a server has used so far.
#[derive(Debug, Clone, Default)]
struct SamplingUsage {
    /// The times of the requests of the last minute.
    recent: VecDeque<Duration>,
    /// The answers with tool calls since the last one with a text.
    tool_rounds: u64,
    requests: u64,
    errors: u64,
    tokens: u64,
    tool_uses: u64,
}

impl SamplingService {
    pub(crate) fn new(settings: &McpSampling, model: Option<SideModel>, clock: Arc<dyn Clock>) -> Self {
        Self { settings: settings.clone(), model, clock, usage: Mutex::default() }
    }

    /// Tells whether the server may ask at all.
    pub(crate) fn is_open(&self) -> bool {
        self.settings.enabled && self.model.is_some()
    }

    pub(crate) async fn answer(
        &self,
        server: &str,
        params: CreateMessageRequestParams,
        cancel: &Cancel,
    ) -> Result<CreateMessageResult, ErrorData> {
        let answered = self.ask(params, cancel).await;
        let mut usage = self.usage();
        usage.requests += 1;
        if answered.is_err() {
            usage.errors += 1;
        }
        let SamplingUsage { requests, errors, tokens, tool_uses, .. } = *usage;
        let quiet = matches!(self.settings.log_level.as_str(), "debug" | "warning" | "warn" | "error");
        if quiet {
            tracing::debug!(server, requests, errors, tokens, tool_uses, "an MCP server asked the model");
        } else {
            tracing::info!(server, requests, errors, tokens, tool_uses, "an MCP server asked the model");
        }
        answered
    }

    fn usage(&self) -> std::sync::MutexGuard<'_, SamplingUsage> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(
        &self,
        params: CreateMessageRequestParams,
        cancel: &Cancel,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(side) = self.model.as_ref().filter(|_| self.settings.enabled) else {
            return Err(refusal("Sampling is not enabled"));
        };
        self.count_request()?;
        let model = self.model_for(&params, side)?;
        let limit = self.settings.timeout;
        let request = ModelRequest {
            model: model.clone(),
            system: params.system_prompt.clone().unwrap_or_default(),
            messages: params.messages.iter().flat_map(messages_of).collect(),
            tools: params.tools.iter().flatten().map(tool_spec).collect(),
            max_tokens: Some(u64::from(params.max_tokens).min(self.settings.max_tokens_cap)),
            temperature: params.temperature,
            effort: None,
            session: None,
            deadline: Deadline::after(&*self.clock, limit),
            cancel: cancel.clone(),
        };
        let completed = tokio::select! {
            biased;
            completed = async { side.model.complete(&request, &mut |_| ()).await } => completed,
            () = self.clock.sleep(limit) => Err(ModelError::DeadlinePassed(String::new())),
        };
        let completion = match completed {
            Ok(completion) => completion,
            Err(ModelError::DeadlinePassed(_)) => {
                return Err(refusal(&format!("Sampling timed out after {} s", limit.as_secs())));
            }
            Err(error) => {
                return Err(refusal(&format!("Sampling failed: {}", scrub_error(&error.to_string()))));
            }
        };
        self.usage().tokens += completion.usage.map(Usage::total).unwrap_or_default();
        self.result_of(completion)
    }

    fn count_request(&self) -> Result<(), ErrorData> {
        let now = self.clock.monotonic();
        let mut usage = self.usage();
        while usage.recent.front().is_some_and(|at| now.saturating_sub(*at) >= MINUTE) {
            usage.recent.pop_front();
        }
        let most = self.settings.max_rpm;
        if u64::try_from(usage.recent.len()).unwrap_or(u64::MAX) >= most {
            return Err(refusal(&format!("Sampling rate limit exceeded ({most} requests per minute)")));
        }
        usage.recent.push_back(now);
        Ok(())
    }

    fn model_for(&self, params: &CreateMessageRequestParams, side: &SideModel) -> Result<String, ErrorData> {
        let hint = || {
            let hints = params.model_preferences.as_ref()?.hints.as_ref()?;
            hints.iter().find_map(|hint| hint.name.clone()).filter(|name| !name.trim().is_empty())
        };
        let model = self.settings.model.clone().or_else(hint).unwrap_or_else(|| side.name.clone());
        let allowed = &self.settings.allowed_models;
        if allowed.is_empty() || allowed.contains(&model) {
            return Ok(model);
        }
        Err(refusal(&format!("The model {model} is not allowed; allowed: {}", allowed.join(", "))))
    }

    fn result_of(&self, completion: Completion) -> Result<CreateMessageResult, ErrorData> {
        let Completion { message, model, .. } = completion;
        let stop = match &message.finish_reason {
            _ if !message.tool_calls.is_empty() => CreateMessageResult::STOP_REASON_TOOL_USE,
            Some(FinishReason::Length) => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
            _ => CreateMessageResult::STOP_REASON_END_TURN,
        };
        let text = message.content.text().into_owned();
        let mut blocks = Vec::new();
        if !text.trim().is_empty() {
            blocks.push(SamplingMessageContentBlock::text(text));
        }
        let calls = message.tool_calls.len();
        blocks.extend(message.tool_calls.into_iter().map(|call| {
            let input = serde_json::from_str::<Map<String, Value>>(&call.arguments)
                .unwrap_or_else(|_| Map::from_iter([("_raw".to_owned(), call.arguments.clone().into())]));
            SamplingMessageContentBlock::tool_use(call.id.as_str(), call.name, input)
        }));
        let mut usage = self.usage();
        if calls > 0 {
            let most = self.settings.max_tool_rounds;
            if most == 0 {
                return Err(refusal("Tool use in sampling is disabled"));
            }
            usage.tool_rounds += 1;
            if usage.tool_rounds > most {
                usage.tool_rounds = 0;
                return Err(refusal(&format!("Sampling tool loop limit exceeded ({most} rounds)")));
            }
            usage.tool_uses += u64::try_from(calls).unwrap_or_default();
        } else {
            usage.tool_rounds = 0;
        }
        drop(usage);
        let content = match blocks.len() {
            0 => return Err(refusal("The model returned an empty response")),
            1 => SamplingContent::Single(blocks.remove(0)),
            _ => SamplingContent::Multiple(blocks),
        };
        let mut message = SamplingMessage::new(PeerRole::Assistant, SamplingMessageContentBlock::text(""));
        message.content = content;
        Ok(CreateMessageResult::new(message, model).with_stop_reason(stop))
    }
}

fn refusal(reason: &str) -> ErrorData {
    ErrorData::new(ErrorCode(-1), reason.to_owned(), None)
}

fn tool_spec(tool: &rmcp::model::Tool) -> ToolSpec {
    ToolSpec {
        name: tool.name.to_string(),
        description: tool.description.as_deref().unwrap_or_default().to_owned(),
        parameters: RawJson::from_value(&Value::Object(tool.input_schema.as_ref().clone())),
    }
}

/// Converts a message of the protocol; results of tools become messages of their own.
fn messages_of(message: &SamplingMessage) -> Vec<Message> {
    let blocks = message.content.clone().into_vec();
    let mut converted = Vec::new();
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in blocks {
        match block {
            SamplingMessageContentBlock::Text(text) => parts.push(ContentPart::Text(text.text)),
            SamplingMessageContentBlock::Image(image) => {
                parts.push(ContentPart::Image {
                    url: format!("data:{};base64,{}", image.mime_type, image.data),
                });
            }
            SamplingMessageContentBlock::ToolUse(used) => {
                let arguments = Value::Object(used.input).to_string();
                calls.push(ToolCall::new(Some(&used.id), used.name, arguments));
            }
            SamplingMessageContentBlock::ToolResult(result) => {
                let call = ToolCall::new(Some(&result.tool_use_id), "", "{}");
                let texts = result.content.iter().map(|block| match block {
                    ContentBlock::Text(text) => text.text.clone(),
                    other => json!(other).to_string(),
                });
                converted.push(Message::tool(&call, texts.collect::<Vec<_>>().join("\n")));
            }
            _ => {}
        }
    }
    if !parts.is_empty() || !calls.is_empty() {
        let is_text = parts.iter().all(|part| matches!(part, ContentPart::Text(_)));
        let whole = MessageContent::Parts(parts);
        let content = if is_text { MessageContent::Text(whole.text().into_owned()) } else { whole };
        let own = match message.role {
            PeerRole::Assistant => Message::assistant(content).with_calls(calls),
            PeerRole::User => Message::user(content),
        };
        converted.push(own);
    }
    converted
}
