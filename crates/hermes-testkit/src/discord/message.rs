//! Messages of the bot: validation and storage.

use std::time::Duration;

use serde_json::{Value, json};

use super::rest::{FakeDiscordError, FakeDiscordRequest, FakeDiscordResult, id, invalid, only, trouble};
use super::state::{EventTime, FakeDiscordId, FakeDiscordMessage, FakeDiscordState};

const LONGEST: usize = 2000;
const VOICE: u64 = 8192;
const LARGEST_FILE: usize = 10 * 1024 * 1024;
/// The time for which a nonce is remembered.
const NONCE_FOR: Duration = Duration::from_mins(5);
const FIELDS: &[&str] = &[
    "content",
    "nonce",
    "enforce_nonce",
    "tts",
    "embeds",
    "allowed_mentions",
    "message_reference",
    "components",
    "sticker_ids",
    "attachments",
    "flags",
];

impl FakeDiscordState {
    pub(super) fn create_message(
        &mut self,
        channel: FakeDiscordId,
        ask: &FakeDiscordRequest,
        at: EventTime,
    ) -> FakeDiscordResult {
        let body = &ask.body;
        only(body, FIELDS)?;
        let content = content_of(body)?;
        check_components(&body["components"])?;
        check_mentions(&body["allowed_mentions"])?;
        let flags = body["flags"].as_u64().unwrap_or(0);
        if flags & VOICE != 0 {
            check_voice(body, ask.files.len())?;
        }
        let embeds = body["embeds"].as_array().cloned().unwrap_or_default();
        if content.is_empty() && ask.files.is_empty() && embeds.is_empty() {
            return Err(trouble(400, 50006, "Cannot send an empty message"));
        }
        let nonce = nonce_of(body)?;
        let author = self.bot;
        if let (Some(nonce), Some(true)) = (&nonce, body["enforce_nonce"].as_bool()) {
            let same = |message: &&FakeDiscordMessage| {
                message.author == author
                    && message.nonce.as_ref() == Some(nonce)
                    && message.nonce_until > at.monotonic
            };
            if let Some(first) = self.messages.get(&channel).and_then(|all| all.iter().find(same)) {
                return Ok((200, self.message_json(first)));
            }
        }
        let reply_to = self.reference(channel, &body["message_reference"])?;
        let id = self.next_id(at);
        let attachments = self.keep_files(ask, at)?;
        let message = FakeDiscordMessage {
            kind: if reply_to.is_some() { 19 } else { 0 },
            reply_to,
            attachments,
            components: body["components"].as_array().cloned().unwrap_or_default(),
            embeds,
            flags,
            nonce,
            allowed_mentions: body["allowed_mentions"].clone(),
            nonce_until: at.monotonic + NONCE_FOR,
            ..FakeDiscordMessage::new(id, channel, author, &content)
        };
        self.post(message);
        let message = self.known_message(channel, id)?;
        Ok((200, self.message_json(message)))
    }

    fn reference(
        &self,
        channel: FakeDiscordId,
        reference: &Value,
    ) -> Result<Option<FakeDiscordId>, FakeDiscordError> {
        if reference.is_null() {
            return Ok(None);
        }
        only(reference, &["type", "message_id", "channel_id", "guild_id", "fail_if_not_exists"])?;
        let message = id(reference["message_id"].as_str().unwrap_or_default())?;
        match self.message(channel, message) {
            Some(known) if matches!(known.kind, 0 | 19) => Ok(Some(message)),
            Some(_) => Err(invalid(
                "message_reference",
                "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE",
                "Cannot reply to a system message",
            )),
            None if reference["fail_if_not_exists"] == false => Ok(None),
            None => Err(invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")),
        }
    }

    fn keep_files(
        &mut self,
        ask: &FakeDiscordRequest,
        at: EventTime,
    ) -> Result<Vec<Value>, FakeDiscordError> {
        let mut kept = Vec::new();
        for (index, part) in ask.files.iter().enumerate() {
            if part.bytes.len() > LARGEST_FILE {
                return Err(trouble(413, 40005, "Request entity too large"));
            }
            let about = ask.body["attachments"]
                .as_array()
                .and_then(|list| list.iter().find(|entry| entry["id"].as_u64() == u64::try_from(index).ok()));
            let name = part.file_name.clone().unwrap_or_default();
            let mut attachment =
                self.attach(&name, part.mime.as_deref().unwrap_or_default(), &part.bytes, at);
            for field in ["duration_secs", "waveform"] {
                if let Some(value) = about.and_then(|about| about.get(field)) {
                    attachment[field] = value.clone();
                }
            }
            kept.push(attachment);
        }
        Ok(kept)
    }

    /// Stores a file for download, and returns the attachment object.
    pub(super) fn attach(&mut self, name: &str, mime: &str, bytes: &[u8], at: EventTime) -> Value {
        let id = self.next_id(at);
        self.files.insert(id, (mime.to_owned(), bytes.to_vec()));
        json!({
            "id": id.to_string(),
            "filename": name,
            "content_type": mime,
            "size": bytes.len(),
            "url": format!("http://127.0.0.1:{}/cdn/{id}/{name}", self.port),
        })
    }

    pub(super) fn edit_message(
        &mut self,
        channel: FakeDiscordId,
        message: FakeDiscordId,
        body: &Value,
    ) -> FakeDiscordResult {
        only(body, &["content", "embeds", "flags", "allowed_mentions", "components", "attachments"])?;
        check_components(&body["components"])?;
        let content = content_of(body)?;
        let author = self.known_message(channel, message)?.author;
        if author != self.bot {
            return Err(trouble(403, 50005, "Cannot edit a message authored by another user"));
        }
        let Some(known) = self.message_mut(channel, message) else {
            return Err(trouble(404, 10008, "Unknown Message"));
        };
        if body["content"].is_string() {
            if content.is_empty() && known.attachments.is_empty() {
                return Err(trouble(400, 50006, "Cannot send an empty message"));
            }
            known.earlier.push(std::mem::replace(&mut known.content, content));
        }
        if let Some(components) = body["components"].as_array() {
            known.components.clone_from(components);
        }
        let message = self.known_message(channel, message)?;
        Ok((200, self.message_json(message)))
    }
}

/// Returns the content, trimmed as Discord does.
pub(super) fn content_of(body: &Value) -> Result<String, FakeDiscordError> {
    let content = match &body["content"] {
        Value::Null => "",
        Value::String(text) => text.trim(),
        _ => return Err(invalid("content", "STRING_TYPE_CONVERT", "Could not interpret as string.")),
    };
    if content.chars().count() > LONGEST {
        return Err(invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length."));
    }
    Ok(content.to_owned())
}

fn nonce_of(body: &Value) -> Result<Option<String>, FakeDiscordError> {
    let nonce = match &body["nonce"] {
        Value::Null => return Ok(None),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if nonce.chars().count() > 25 {
        return Err(invalid("nonce", "NONCE_TYPE_TOO_LONG", "Must be 25 or fewer in length."));
    }
    Ok(Some(nonce))
}

fn check_mentions(allowed: &Value) -> Result<(), FakeDiscordError> {
    if allowed.is_null() {
        return Ok(());
    }
    only(allowed, &["parse", "roles", "users", "replied_user"])?;
    let known = |kind: &Value| matches!(kind.as_str(), Some("users" | "roles" | "everyone"));
    match allowed["parse"].as_array() {
        Some(parse) if !parse.iter().all(known) => {
            Err(invalid("allowed_mentions", "BASE_TYPE_CHOICES", "parse is users, roles or everyone"))
        }
        _ => Ok(()),
    }
}

fn check_voice(body: &Value, files: usize) -> Result<(), FakeDiscordError> {
    let one = body["attachments"].as_array().filter(|list| list.len() == 1 && files == 1);
    let entry = one.and_then(|list| list.first());
    let complete =
        entry.is_some_and(|entry| entry["duration_secs"].is_number() && entry["waveform"].is_string());
    if !complete {
        return Err(trouble(400, 50161, "Voice messages must have supporting metadata."));
    }
    if body["content"].as_str().is_some_and(|text| !text.is_empty()) {
        return Err(trouble(400, 50159, "Voice messages do not support additional content."));
    }
    Ok(())
}

/// Validates rows of buttons.
fn check_components(components: &Value) -> Result<(), FakeDiscordError> {
    let bad = |why: &str| invalid("components", "COMPONENT_LAYOUT_INVALID", why);
    let rows = match components {
        Value::Null => return Ok(()),
        Value::Array(rows) if rows.len() <= 5 => rows,
        _ => return Err(bad("up to five rows")),
    };
    let mut ids = Vec::new();
    for row in rows {
        only(row, &["type", "components"])?;
        let buttons = row["components"].as_array().filter(|list| (1..=5).contains(&list.len()));
        let buttons =
            buttons.filter(|_| row["type"] == 1).ok_or_else(|| bad("a row is 1 to 5 components"))?;
        for button in buttons {
            only(button, &["type", "style", "label", "custom_id", "disabled", "emoji"])?;
            let length = |field: &str| button[field].as_str().map_or(0, |text| text.chars().count());
            let well_formed = button["type"] == 2
                && button["style"].as_u64().is_some_and(|style| (1..=4).contains(&style))
                && (1..=80).contains(&length("label"))
                && (1..=100).contains(&length("custom_id"));
            if !well_formed {
                return Err(bad("a button has a style, a label of 1 to 80 and an id of 1 to 100"));
            }
            if ids.contains(&&button["custom_id"]) {
                return Err(invalid("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "ids must be unique"));
            }
            ids.push(&button["custom_id"]);
        }
    }
    Ok(())
}
