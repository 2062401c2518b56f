//! One conversation with a model: through a server that answers messages, or through one that answers tokens.
//!
//! Invariant: what the second kind keeps of a conversation is exactly what was sent and received.

use std::sync::Arc;

use hermes_net::{HttpClient, HttpRequest, Method};
use hermes_text::ToolCallParser;
use hermes_types::{BoxFuture, CallId, Cancel, Clock, Deadline};
use serde_json::{Map, Value, json};

use super::request::RequestFailure;
use super::sequence::{SequenceTracker, TokenSequence};
use super::servers::{ModelServers, RequestPurpose};
use super::settings::EnvironmentSettings;
use super::tokenizer::{ChatTokenizer, SpecialTokens};

/// A call as a model made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChatCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// An answer of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChatAnswer {
    pub(crate) content: Option<String>,
    pub(crate) reasoning: Option<String>,
    pub(crate) calls: Vec<ChatCall>,
}

/// The model's side of one conversation.
pub(crate) trait ChatPartner: Send {
    fn answer<'a>(
        &'a mut self,
        messages: &'a [Value],
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<ChatAnswer, String>>;

    /// Returns the tokens of the conversation, where they are known.
    fn finish<'a>(&'a mut self, cancel: &'a Cancel) -> BoxFuture<'a, Option<TokenSequence>>;
}

/// What requests of a conversation have in common.
#[derive(Clone)]
pub(crate) struct ChatOptions {
    pub(crate) settings: Arc<EnvironmentSettings>,
    pub(crate) tools: Arc<[Value]>,
    pub(crate) purpose: RequestPurpose,
    pub(crate) parser: ToolCallParser,
}

/// A server that takes messages and finds the calls itself.
pub(crate) struct MessageChat {
    pub(crate) servers: Arc<ModelServers>,
    pub(crate) options: ChatOptions,
}

impl ChatPartner for MessageChat {
    fn answer<'a>(
        &'a mut self,
        messages: &'a [Value],
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<ChatAnswer, String>> {
        Box::pin(async move {
            let ChatOptions { settings, tools, purpose, parser } = &self.options;
            let mut body = Map::new();
            body.insert("messages".to_owned(), json!(messages));
            body.insert("n".to_owned(), json!(1));
            body.insert("temperature".to_owned(), json!(settings.agent_temperature));
            body.insert("max_tokens".to_owned(), json!(settings.max_token_length));
            if !tools.is_empty() {
                body.insert("tools".to_owned(), json!(**tools));
            }
            ask_for_reasoning(&mut body, settings, &self.servers.first().base_url);
            for (key, value) in settings.extra_body.iter().flatten() {
                body.insert(key.clone(), value.clone());
            }
            let message = self.servers.chat(*purpose, &body, cancel).await?;
            let mut answer = read_message(&message);
            let has_marks = answer.content.as_deref().is_some_and(|text| text.contains("<tool_call>"));
            if answer.calls.is_empty() && has_marks && !tools.is_empty() {
                find_calls(&mut answer, *parser);
            }
            Ok(answer)
        })
    }

    fn finish<'a>(&'a mut self, _: &'a Cancel) -> BoxFuture<'a, Option<TokenSequence>> {
        Box::pin(std::future::ready(None))
    }
}

/// Asks for reasoning in the way the server knows.
fn ask_for_reasoning(body: &mut Map<String, Value>, settings: &EnvironmentSettings, base_url: &str) {
    if !settings.thinking_mode
        && settings.reasoning_effort.is_none()
        && settings.max_reasoning_tokens.is_none()
    {
        return;
    }
    if base_url.contains("://api.openai.com/") {
        let effort = settings.reasoning_effort.as_deref().unwrap_or("medium");
        body.insert("reasoning_effort".to_owned(), json!(effort));
        body.insert("temperature".to_owned(), json!(1.0));
        body.remove("max_tokens");
        body.insert("max_completion_tokens".to_owned(), json!(settings.max_token_length));
        return;
    }
    let mut reasoning = Map::from_iter([("enabled".to_owned(), json!(true))]);
    if let Some(tokens) = settings.max_reasoning_tokens {
        reasoning.insert("max_tokens".to_owned(), json!(tokens));
    } else if let Some(effort) = &settings.reasoning_effort {
        reasoning.insert("effort".to_owned(), json!(effort));
    }
    body.insert("reasoning".to_owned(), Value::Object(reasoning));
}

/// Reads a message of a server.
fn read_message(message: &Value) -> ChatAnswer {
    let text = |name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
    let details = message.get("reasoning_details").and_then(Value::as_array);
    let of_details = details.into_iter().flatten().find_map(|detail| detail.get("text")?.as_str());
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let reasoning = given(text("reasoning_content")).or_else(|| given(text("reasoning")));
    let calls =
        message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().filter_map(|call| {
            let function = call.get("function")?;
            let arguments = match function.get("arguments") {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => "{}".to_owned(),
                Some(other) => other.to_string(),
            };
            let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            Some(ChatCall {
                id: id.map_or_else(|| CallId::generate().as_str().to_owned(), str::to_owned),
                name: function.get("name")?.as_str()?.to_owned(),
                arguments,
            })
        });
    ChatAnswer {
        content: text("content"),
        reasoning: reasoning.or_else(|| given(of_details.map(str::to_owned))),
        calls: calls.collect(),
    }
}

/// Finds the calls in the text of an answer.
fn find_calls(answer: &mut ChatAnswer, parser: ToolCallParser) {
    let Some(parsed) = answer.content.as_deref().and_then(|text| parser.parse(text)) else { return };
    answer.content = parsed.content;
    let calls = parsed.calls.into_iter().map(|call| ChatCall {
        id: call.id.unwrap_or_else(|| CallId::generate().as_str().to_owned()),
        name: call.name,
        arguments: call.arguments,
    });
    answer.calls = calls.collect();
}

/// A server that takes tokens; messages become tokens here.
pub(crate) struct TokenChat {
    pub(crate) servers: Arc<ModelServers>,
    pub(crate) options: ChatOptions,
    pub(crate) tokenizer: Arc<dyn ChatTokenizer>,
    pub(crate) tracker: SequenceTracker,
}

impl ChatPartner for TokenChat {
    fn answer<'a>(
        &'a mut self,
        messages: &'a [Value],
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<ChatAnswer, String>> {
        Box::pin(async move {
            let ChatOptions { settings, tools, purpose, parser } = &self.options;
            let prompt = self.tracker.prompt(messages, tools, settings.thinking_mode, &*self.tokenizer)?;
            let generated = self.servers.generate(
                *purpose,
                &prompt.tokens,
                settings.max_token_length,
                settings.agent_temperature,
                cancel,
            );
            let generated = generated.await?;
            // With the tokens that are no text: the next prompt repeats them.
            let whole = self.tokenizer.decode(&generated.tokens, SpecialTokens::Include)?;
            self.tracker.add(prompt, &generated, &whole);
            // Some forms of calls consist of such tokens.
            let shown = if tools.is_empty() {
                self.tokenizer.decode(&generated.tokens, SpecialTokens::Omit)?
            } else {
                whole.clone()
            };
            let mut answer = ChatAnswer { content: Some(shown), ..ChatAnswer::default() };
            if !tools.is_empty() {
                find_calls(&mut answer, *parser);
                if answer.calls.is_empty() {
                    let plain = self.tokenizer.decode(&generated.tokens, SpecialTokens::Omit)?;
                    answer.content = Some(plain);
                }
            }
            if let Some(first) = answer.calls.first() {
                let written = self.tokenizer.decode(
                    &without_last_special(&generated.tokens, &*self.tokenizer),
                    SpecialTokens::Include,
                )?;
                self.tracker.keep_written(&first.id, &written);
            }
            Ok(answer)
        })
    }

    fn finish<'a>(&'a mut self, _: &'a Cancel) -> BoxFuture<'a, Option<TokenSequence>> {
        Box::pin(std::future::ready(self.tracker.last().cloned()))
    }
}

/// Leaves out the token that ended an answer: the template writes it itself.
fn without_last_special(tokens: &[u32], tokenizer: &dyn ChatTokenizer) -> Vec<u32> {
    let Some((last, rest)) = tokens.split_last() else { return Vec::new() };
    let is_text = tokenizer.decode(&[*last], SpecialTokens::Omit).is_ok_and(|text| !text.is_empty());
    if is_text { tokens.to_vec() } else { rest.to_vec() }
}

/// A proxy that keeps the tokens of conversations and takes messages.
pub(crate) struct ProxyChat {
    net: HttpClient,
    clock: Arc<dyn Clock>,
    options: ChatOptions,
    proxy: String,
    session: Option<String>,
    limit: std::time::Duration,
}

/// The largest answer of a proxy.
const PROXY_ANSWER: usize = 256 * 1024 * 1024;

impl ProxyChat {
    pub(crate) fn new(
        net: HttpClient,
        clock: Arc<dyn Clock>,
        options: ChatOptions,
        proxy: &str,
        seconds: f64,
    ) -> Self {
        let limit = std::time::Duration::try_from_secs_f64(seconds);
        let limit = limit.unwrap_or(std::time::Duration::from_mins(20));
        Self { net, clock, options, proxy: proxy.trim_end_matches('/').to_owned(), session: None, limit }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        cancel: &Cancel,
    ) -> Result<Value, RequestFailure> {
        let url = format!("{}{path}", self.proxy);
        let url = url.parse().map_err(|_| RequestFailure::from(hermes_net::Error::InvalidUrl))?;
        let mut request =
            HttpRequest::new(method, url).response_timeout(self.limit).stall_timeout(self.limit);
        if let Some(body) = body {
            request = request.json(&body)?;
        }
        let answer = self.net.send(request, Deadline::after(&*self.clock, self.limit), cancel).await?;
        RequestFailure::check(answer, PROXY_ANSWER).await
    }

    async fn session(&mut self, cancel: &Cancel) -> Result<String, RequestFailure> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let body = json!({"tool_parser": self.options.settings.tool_call_parser, "track_tree": false});
        let created = self.send(Method::POST, "/sessions/create", Some(body), cancel).await?;
        let id = created
            .get("uuid")
            .and_then(Value::as_str)
            .filter(|id| !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
        let id = id.map(str::to_owned).ok_or_else(|| RequestFailure {
            reason: "the proxy began no session".to_owned(),
            may_pass: false,
            status: None,
        })?;
        self.session = Some(id.clone());
        Ok(id)
    }
}

impl ChatPartner for ProxyChat {
    fn answer<'a>(
        &'a mut self,
        messages: &'a [Value],
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<ChatAnswer, String>> {
        Box::pin(async move {
            let session = self.session(cancel).await.map_err(|failure| failure.reason)?;
            let settings = &self.options.settings;
            let mut body = json!({
                "messages": messages,
                "max_tokens": settings.max_token_length,
                "temperature": settings.agent_temperature,
                "n": 1,
            });
            if !self.options.tools.is_empty() {
                body["tools"] = json!(*self.options.tools);
            }
            // Not repeated: the proxy would keep the tokens of both answers.
            let path = format!("/{session}/v1/chat/completions");
            let answer = self.send(Method::POST, &path, Some(body), cancel).await;
            let answer = answer.map_err(|failure| failure.reason)?;
            let message =
                answer.pointer("/choices/0/message").ok_or("the answer of the proxy has no message")?;
            Ok(read_message(message))
        })
    }

    fn finish<'a>(&'a mut self, cancel: &'a Cancel) -> BoxFuture<'a, Option<TokenSequence>> {
        Box::pin(async move {
            let session = self.session.take()?;
            let nodes = self.send(Method::GET, &format!("/{session}/nodes"), None, cancel).await;
            let nodes = nodes.inspect_err(|failure| {
                tracing::warn!(
                    reason = failure.reason,
                    "the proxy did not return the tokens of a conversation"
                );
            });
            let sequence = nodes
                .ok()
                .and_then(|answer| TokenSequence::from_node(answer.get("nodes")?.as_array()?.last()?));
            if let Err(failure) = self.send(Method::DELETE, &format!("/{session}"), None, cancel).await {
                tracing::warn!(reason = failure.reason, "a session of the proxy was not ended");
            }
            sequence
        })
    }
}
