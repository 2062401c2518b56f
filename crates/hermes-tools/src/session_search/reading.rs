//! Reads one conversation by its id: its beginning and end, or the messages around one of them.

use hermes_store::{Store, StoredMessage};
use hermes_text::ellipsize;
use hermes_types::SessionId;
use serde_json::{Map, Value, json};

use super::transcript::masked;
use super::{LocalTime, SearchFailure, long_date};
use crate::argument::number;

const FROM_START: usize = 20;
const FROM_END: usize = 10;
const DEFAULT_WINDOW: usize = 5;
const MOST_WINDOW: usize = 20;
const MOST_CHARS: usize = 2000;

pub(super) async fn read(
    store: &Store,
    id: &str,
    arguments: &Map<String, Value>,
    local: LocalTime,
) -> Result<Value, SearchFailure> {
    let id = SessionId::from(id.trim());
    let session =
        store.session(&id).await?.ok_or_else(|| SearchFailure(format!("Session not found: {id}")))?;
    let messages = store.transcript(&id).await?;
    let wanted = match arguments.get("around_message_id") {
        None | Some(Value::Null) => None,
        Some(given) => Some(
            given.as_i64().ok_or_else(|| SearchFailure("`around_message_id` must be a number".to_owned()))?,
        ),
    };
    let Some(wanted) = wanted else {
        let left_out = messages.len().saturating_sub(FROM_START + FROM_END);
        let (start, end) = if left_out == 0 {
            (messages.as_slice(), [].as_slice())
        } else {
            (&messages[..FROM_START], &messages[messages.len() - FROM_END..])
        };
        let shown: Vec<Value> = start.iter().chain(end).map(show).collect();
        return Ok(json!({
            "success": true, "mode": "read", "session_id": id.as_str(), "title": session.title,
            "source": session.source, "when": long_date(local(session.started_at)),
            "message_count": messages.len(), "messages": shown, "left_out": left_out,
        }));
    };
    let at = messages
        .iter()
        .position(|stored| stored.id.0 == wanted)
        .ok_or_else(|| SearchFailure(format!("session {id} has no message {wanted}")))?;
    let window = number(arguments, "window", DEFAULT_WINDOW, 1..=MOST_WINDOW);
    let (from, to) = (at.saturating_sub(window), (at + window + 1).min(messages.len()));
    let shown: Vec<Value> = messages[from..to].iter().map(show).collect();
    Ok(json!({
        "success": true, "mode": "scroll", "session_id": id.as_str(), "match_message_id": wanted,
        "messages": shown, "messages_before": from, "messages_after": messages.len() - to,
    }))
}

fn show(stored: &StoredMessage) -> Value {
    let message = &stored.message;
    let said = message.content.text();
    let mut shown = json!({
        "id": stored.id.0,
        "role": message.role.as_str(),
        "content": masked(&ellipsize(&said, MOST_CHARS)),
    });
    let Some(object) = shown.as_object_mut() else { return shown };
    if let Some(name) = &message.tool_name {
        object.insert("tool_name".to_owned(), json!(name));
    }
    if !message.tool_calls.is_empty() {
        let names: Vec<&str> = message.tool_calls.iter().map(|call| call.name.as_str()).collect();
        object.insert("called".to_owned(), json!(names));
    }
    shown
}
