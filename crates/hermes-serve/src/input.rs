//! Reads the input of a turn and the answer it builds on, for `/v1/responses` and `/v1/runs`.

use hermes_types::{ContentPart, Message, MessageContent, Role, SessionId};
use serde_json::Value;

use crate::app::App;
use crate::error::ApiError;
use crate::field::{self, BodyObject, kind};
use crate::responses::response_store;

/// The input of a request and the messages before it.
pub(crate) struct ResponseInput {
    pub(crate) history: Vec<Message>,
    pub(crate) content: MessageContent,
    pub(crate) instructions: Option<String>,
    /// The session of the answer that the request builds on.
    pub(crate) session: Option<SessionId>,
    /// Set when the client sent the history itself.
    pub(crate) has_client_history: bool,
}

/// The answer a request builds on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ResponseBasis<'a> {
    Nothing,
    /// An answer, by its id.
    Response(&'a str),
    /// The newest answer of a conversation, by its name.
    Conversation(&'a str),
}

impl ResponseInput {
    /// Reads the fields and loads the answer the request builds on. A history from the client replaces the stored
    /// one.
    pub(crate) async fn read(
        app: &App,
        body: &BodyObject,
        basis: ResponseBasis<'_>,
    ) -> Result<Self, ApiError> {
        let (given, content) = split_history(body)?;
        let told_history = read_client_history(body)?;
        let told = told_history.is_some() || !given.is_empty();
        let mut instructions = field::text(body, "instructions")?.map(str::to_owned);
        let stored = match basis {
            ResponseBasis::Nothing => None,
            ResponseBasis::Conversation(name) => response_store::load_conversation(app, name).await?,
            ResponseBasis::Response(id) => {
                Some(response_store::load(app, id).await?.ok_or_else(|| ApiError {
                    param: Some("previous_response_id".to_owned()),
                    ..ApiError::not_found(format!("Previous response not found: {id}"))
                })?)
            }
        };
        let (mut history, mut session) = (Vec::new(), None);
        if let Some(stored) = stored {
            history = stored.history;
            instructions = instructions.or(stored.instructions);
            session = stored.session;
        }
        if let Some(told) = told_history {
            history = told;
        }
        history.extend(given);
        Ok(Self { history, content, instructions, session, has_client_history: told })
    }

    /// Returns the first text of the conversation, by which an unnamed one is recognized.
    pub(crate) fn first_words(&self) -> String {
        self.history.first().map_or(&self.content, |message| &message.content).text().into_owned()
    }
}

fn read_client_history(body: &BodyObject) -> Result<Option<Vec<Message>>, ApiError> {
    const NAME: &str = "conversation_history";
    match body.get(NAME) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => Ok(Some(messages(items, NAME)?)),
        Some(other) => Err(ApiError::invalid_field(
            NAME,
            format!("`{NAME}` must be a list of messages, not {}", kind(other)),
        )),
    }
}

/// Splits the input: the last item is the question, all others are history.
fn split_history(body: &BodyObject) -> Result<(Vec<Message>, MessageContent), ApiError> {
    let items = match body.get("input") {
        Some(Value::String(text)) if !text.trim().is_empty() => {
            return Ok((Vec::new(), MessageContent::Text(text.clone())));
        }
        Some(Value::Array(items)) if !items.is_empty() => items,
        Some(Value::String(_) | Value::Array(_)) | None => {
            return Err(ApiError::invalid_field(
                "input",
                "`input` must be a text or a list with at least one item",
            ));
        }
        Some(other) => {
            return Err(ApiError::invalid_field(
                "input",
                format!("`input` must be a text or a list, not {}", kind(other)),
            ));
        }
    };
    // Parts without a role form one message of the user.
    if items.iter().all(is_part) {
        return Ok((Vec::new(), field::content(body.get("input"), "input")?));
    }
    let mut messages = messages(items, "input")?;
    match messages.pop() {
        Some(last) if last.role == Role::User && !last.content.is_empty() => Ok((messages, last.content)),
        _ => {
            Err(ApiError::invalid_field("input", "The last item of `input` must be something the user said"))
        }
    }
}

fn is_part(item: &Value) -> bool {
    let kind = item.get("type").and_then(Value::as_str);
    let known = ["text", "input_text", "image_url", "input_image"];
    item.get("role").is_none() && kind.is_some_and(|kind| known.contains(&kind))
}

fn messages(items: &[Value], at: &str) -> Result<Vec<Message>, ApiError> {
    let mut messages = Vec::new();
    for (index, item) in items.iter().enumerate() {
        messages.extend(message(item, &format!("{at}[{index}]"))?);
    }
    Ok(messages)
}

fn message(item: &Value, at: &str) -> Result<Option<Message>, ApiError> {
    match item {
        Value::String(text) => Ok(Some(Message::user(text.clone()))),
        Value::Object(object) => {
            let content = || field::content(object.get("content"), &format!("{at}.content"));
            let role = || format!("{at}.role");
            match object.get("role") {
                Some(Value::String(said)) => match said.as_str() {
                    "user" => Ok(Some(Message::user(content()?))),
                    "assistant" => Ok(Some(Message::assistant(with_calls(&content()?, object)))),
                    "tool" | "function" => Ok(Some(Message::user(tool_result(&content()?, object)))),
                    _ => Ok(None),
                },
                Some(other) => Err(ApiError::invalid_field(
                    role(),
                    format!("`{at}.role` must be a string, not {}", kind(other)),
                )),
                // Calls and results of the client's own tools are part of the conversation.
                None if is_kind(object, "function_call") || is_kind(object, "custom_tool_call") => {
                    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
                    let arguments =
                        if object.contains_key("arguments") { text("arguments") } else { text("input") };
                    Ok(Some(Message::assistant(format!("[Called {}({arguments})]", text("name")))))
                }
                None if is_kind(object, "function_call_output")
                    || is_kind(object, "custom_tool_call_output") =>
                {
                    let output = field::content(object.get("output"), &format!("{at}.output"))?;
                    Ok(Some(Message::user(tool_result(&output, object))))
                }
                // Items of other kinds (our own calls, reasoning) are already stored here, or belong to the
                // client's record.
                None if object.get("type").and_then(Value::as_str).is_some() => Ok(None),
                None => Err(ApiError::invalid_field(role(), format!("`{at}.role` is missing"))),
            }
        }
        other => Err(ApiError::invalid_field(
            at,
            format!("`{at}` must be a text or an object, not {}", kind(other)),
        )),
    }
}

fn is_kind(item: &BodyObject, kind: &str) -> bool {
    item.get("type").and_then(Value::as_str) == Some(kind)
}

/// Returns an answer together with the calls the client ran for it, as text.
pub(crate) fn with_calls(content: &MessageContent, message: &BodyObject) -> MessageContent {
    let calls = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if calls.is_empty() {
        return content.clone();
    }
    let field = |call: &Value, name: &str| {
        call.pointer(&format!("/function/{name}")).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let told =
        calls.iter().map(|call| format!("[Called {}({})]", field(call, "name"), field(call, "arguments")));
    let text = content.text();
    let parts = Some(text.into_owned()).filter(|text| !text.trim().is_empty()).into_iter().chain(told);
    MessageContent::Text(parts.collect::<Vec<_>>().join("\n"))
}

/// Returns the result of a client's tool, as text.
pub(crate) fn tool_result(content: &MessageContent, message: &BodyObject) -> MessageContent {
    let named = |name: &str| message.get(name).and_then(Value::as_str);
    let of = named("name").or_else(|| named("tool_call_id")).or_else(|| named("call_id")).unwrap_or("a tool");
    let head = format!("[Result of {of}]");
    match content {
        MessageContent::Text(text) => MessageContent::Text(format!("{head}\n{text}")),
        MessageContent::Parts(parts) => MessageContent::Parts(
            std::iter::once(ContentPart::Text(head)).chain(parts.iter().cloned()).collect(),
        ),
    }
}
