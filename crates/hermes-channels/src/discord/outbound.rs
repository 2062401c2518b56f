//! Outgoing messages, files, edits and reactions.

use std::path::Path;
use std::time::Duration;

use hermes_net::Method;
use hermes_text::{length, split};
use hermes_types::{
    Attachment, AttachmentKind, ChannelError, ChatAddress, ChatKind, ChatPart, DeliveryCertainty,
    DeliveryReceipt, LengthUnit, MessageStatus, OutgoingMessage, Timestamp, WebImage,
};
use serde_json::{Value, json};

use super::DiscordChannel;
use super::commands::buttons;
use super::rest::{DiscordError, RequestBody};
use super::table::fence_tables;
use super::wire::ChannelInfo;
use crate::fetch::fetch_picture;
use crate::media::{extension_of, mime_of};
use crate::multipart::MultipartForm;

/// The length limit of a message.
pub(super) const LONGEST: usize = 2000;
/// Limits the files read into memory; Discord's own limit is lower.
const LARGEST_FILE: u64 = 100 * 1024 * 1024;
const INVALID_FORM: u64 = 50035;
const TOO_LARGE: u64 = 40005;
const VOICE: u64 = 8192;
/// The time for which Discord certainly recognises a nonce; its documentation says a few minutes.
const NONCE_LIFETIME: Duration = Duration::from_mins(2);
/// A waveform of 256 equal values, because that of the recording is unknown.
const WAVEFORM: (&str, usize, &str) = ("VVVV", 85, "VQ==");
const SAMPLES_PER_SECOND: f64 = 48_000.0;

impl DiscordChannel {
    pub(super) async fn send_reply(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        let channel = target_channel(&reply.place)?;
        let mut ids = Vec::new();
        for piece in &reply.pieces {
            match piece {
                ChatPart::Text { text } => {
                    for part in parts(text) {
                        let body = self.body(reply, channel, ids.len());
                        ids.push(self.send_text(channel, body, &part, reply).await?);
                    }
                }
                ChatPart::File(file) => {
                    let body = self.body(reply, channel, ids.len());
                    ids.push(self.send_file(channel, body, file).await?);
                }
                ChatPart::Picture(picture) => {
                    let body = self.body(reply, channel, ids.len());
                    ids.push(self.send_picture(channel, body, picture, reply).await?);
                }
            }
        }
        if ids.is_empty() {
            return Err(ChannelError::Refused("there is nothing to say".to_owned()));
        }
        self.remove_pressed_buttons(channel).await;
        Ok(DeliveryReceipt { message_ids: ids, certainty: DeliveryCertainty::Once })
    }

    /// Retries a reply. While Discord remembers the nonce, it answers with the message of the first attempt.
    pub(super) async fn send_reply_again(
        &self,
        reply: &OutgoingMessage,
        since: Timestamp,
    ) -> Result<DeliveryReceipt, ChannelError> {
        let remembered = self.api.clock.now().since(since) < NONCE_LIFETIME;
        let receipt = self.send_reply(reply).await?;
        let certainty = if remembered { DeliveryCertainty::Once } else { DeliveryCertainty::AtLeastOnce };
        Ok(DeliveryReceipt { certainty, ..receipt })
    }

    /// Builds the fields every message of a reply has. The nonce is the same at each attempt, so Discord answers a
    /// retry with the message of the first.
    fn body(&self, reply: &OutgoingMessage, channel: &str, at: usize) -> Value {
        let mut body = json!({
            "nonce": nonce(&reply.idempotency_key, at),
            "enforce_nonce": true,
            "allowed_mentions": self.settings.allowed_mentions,
        });
        // A thread has the id of the message it began with, and that message is not in it.
        let quoted =
            reply.reply_to.as_deref().filter(|id| at == 0 && self.settings.quote_replies && *id != channel);
        if let Some(id) = quoted.filter(|id| is_id(id)) {
            body["message_reference"] = json!({"message_id": id, "fail_if_not_exists": false});
        }
        body
    }

    async fn send_text(
        &self,
        channel: &str,
        mut body: Value,
        text: &str,
        reply: &OutgoingMessage,
    ) -> Result<String, ChannelError> {
        body["content"] = json!(text);
        if !reply.choices.is_empty() {
            body["components"] = json!(buttons(&reply.choices));
        }
        let path = format!("/channels/{channel}/messages");
        let sent = match self.api.post(&path, body.clone()).await {
            // Most often the quoted message is a system message; the reply is sent without quote and buttons.
            Err(failure) if failure.code() == Some(INVALID_FORM) => {
                if let Some(fields) = body.as_object_mut() {
                    fields.remove("message_reference");
                    fields.remove("components");
                }
                self.api.post(&path, body).await
            }
            other => other,
        };
        id_of(&sent.map_err(DiscordError::into_send_error)?)
    }

    /// Downloads and sends an image. If that fails, sends its URL, which Discord previews where it can.
    async fn send_picture(
        &self,
        channel: &str,
        body: Value,
        picture: &WebImage,
        reply: &OutgoingMessage,
    ) -> Result<String, ChannelError> {
        match fetch_picture(&self.api.client, &*self.api.clock, &picture.url).await {
            Ok(file) => {
                let mut shown = body.clone();
                if let Some(caption) = &picture.caption {
                    shown["content"] = json!(truncate(caption));
                }
                let about = json!({"id": 0, "filename": file.name});
                match self.upload(channel, shown, about, mime_of(&file.name), &file.bytes).await {
                    Err(failure @ DiscordError::Refused { .. }) => {
                        tracing::warn!(%failure, "a picture is sent as its address");
                    }
                    other => return id_of(&other.map_err(DiscordError::into_send_error)?),
                }
            }
            Err(why) => tracing::warn!(why, "a picture is sent as its address"),
        }
        self.send_text(channel, body, &picture.fallback_text(), reply).await
    }

    async fn send_file(&self, channel: &str, body: Value, file: &Attachment) -> Result<String, ChannelError> {
        let path = Path::new(&file.path);
        let own = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = file.name.clone().or(own).unwrap_or_else(|| "file".to_owned());
        let bytes = match read(path) {
            Ok(bytes) => bytes,
            Err(why) => return self.send_note(channel, body, &name, &why).await,
        };
        if let Some(seconds) = voice_duration(file, &name, &bytes) {
            let (step, times, end) = WAVEFORM;
            let waveform = format!("{}{end}", step.repeat(times));
            let mut body = body.clone();
            body["flags"] = json!(VOICE);
            let about = json!({"id": 0, "filename": "voice-message.ogg", "duration_secs": seconds, "waveform": waveform});
            match self.upload(channel, body, about, "audio/ogg", &bytes).await {
                Err(DiscordError::Refused { .. }) => {}
                other => return id_of(&other.map_err(DiscordError::into_send_error)?),
            }
        }
        let mime = file.mime.clone().unwrap_or_else(|| mime_of(&name).to_owned());
        let about = json!({"id": 0, "filename": name});
        let mut sent = self.upload(channel, body.clone(), about.clone(), &mime, &bytes).await;
        if sent.as_ref().is_err_and(|failure| failure.code() == Some(INVALID_FORM)) {
            let mut body = body.clone();
            body["message_reference"] = Value::Null;
            sent = self.upload(channel, body, about, &mime, &bytes).await;
        }
        match sent {
            Err(DiscordError::Refused { status, code, .. }) if status == 413 || code == TOO_LARGE => {
                self.send_note(channel, body, &name, "it is larger than this chat takes").await
            }
            other => id_of(&other.map_err(DiscordError::into_send_error)?),
        }
    }

    async fn upload(
        &self,
        channel: &str,
        mut body: Value,
        about: Value,
        mime: &str,
        bytes: &[u8],
    ) -> Result<Value, DiscordError> {
        let name = about.get("filename").and_then(Value::as_str).unwrap_or("file").to_owned();
        body["attachments"] = json!([about]);
        let (kind, form) =
            MultipartForm::new().json("payload_json", &body).file("files[0]", &name, mime, bytes).finish();
        self.api
            .call(Method::POST, &format!("/channels/{channel}/messages"), RequestBody::Form(kind, form))
            .await
    }

    /// Sends a note that a file could not be sent.
    async fn send_note(
        &self,
        channel: &str,
        mut body: Value,
        name: &str,
        why: &str,
    ) -> Result<String, ChannelError> {
        body["content"] = json!(hermes_text::head(&format!("📎 File: {name} ({why})"), LONGEST));
        let sent = self.api.post(&format!("/channels/{channel}/messages"), body).await;
        id_of(&sent.map_err(DiscordError::into_send_error)?)
    }

    /// Removes pressed buttons once a message was sent after the press.
    async fn remove_pressed_buttons(&self, channel: &str) {
        for message in self.pressed_buttons.take(channel) {
            let path = format!("/channels/{channel}/messages/{message}");
            if let Err(failure) =
                self.api.call(Method::PATCH, &path, RequestBody::Json(json!({"components": []}))).await
            {
                tracing::debug!(%failure, "buttons stay on a Discord message");
            }
        }
    }

    pub(super) async fn post_text(&self, place: &ChatAddress, text: &str) -> Result<String, ChannelError> {
        let body = json!({"content": truncate(&with_fenced_tables(text)), "allowed_mentions": {"parse": []}});
        id_of(&self.api.post(&format!("/channels/{}/messages", target_channel(place)?), body).await?)
    }

    pub(super) async fn edit_text(
        &self,
        place: &ChatAddress,
        message: &str,
        text: &str,
    ) -> Result<(), ChannelError> {
        if !is_id(message) {
            return Err(ChannelError::Refused(format!("`{message}` is not a Discord message")));
        }
        let path = format!("/channels/{}/messages/{message}", target_channel(place)?);
        let body = json!({"content": truncate(&with_fenced_tables(text)), "allowed_mentions": self.settings.allowed_mentions});
        self.api.call(Method::PATCH, &path, RequestBody::Json(body)).await?;
        Ok(())
    }

    pub(super) async fn set_reaction(&self, place: &ChatAddress, message: &str, mark: MessageStatus) {
        let Ok(place) = target_channel(place) else { return };
        if !self.settings.reactions || !is_id(message) {
            return;
        }
        // The message a thread began with is in the parent channel.
        let parent = if place == message {
            self.directory.channel(&self.api, place).await.ok().and_then(|room| room.parent_id)
        } else {
            None
        };
        let channel = parent.as_deref().unwrap_or(place);
        let steps: &[(Method, &str)] = match mark {
            MessageStatus::Processing => &[(Method::PUT, "👀")],
            MessageStatus::Answered => &[(Method::DELETE, "👀"), (Method::PUT, "✅")],
            MessageStatus::Failed => &[(Method::DELETE, "👀"), (Method::PUT, "❌")],
        };
        for (method, emoji) in steps {
            let path = format!("/channels/{channel}/messages/{message}/reactions/{emoji}/@me");
            if let Err(failure) = self.api.call(method.clone(), &path, RequestBody::Nothing).await {
                tracing::debug!(%failure, "a mark was not put on a Discord message");
            }
        }
    }

    /// Returns the text channels of the servers the bot is in.
    pub(super) async fn visible_chats(&self) -> Result<Vec<ChatAddress>, DiscordError> {
        let guilds = self.api.get("/users/@me/guilds").await?;
        let mut places = Vec::new();
        for guild in guilds.as_array().into_iter().flatten() {
            let text = |key: &str| guild.get(key).and_then(Value::as_str);
            let Some(id) = text("id").filter(|id| is_id(id)) else { continue };
            let rooms = self.api.get(&format!("/guilds/{id}/channels")).await?;
            let rooms: Vec<ChannelInfo> = serde_json::from_value(rooms).unwrap_or_default();
            for room in rooms.into_iter().filter(ChannelInfo::supports_threads) {
                let parts = [text("name").map(str::to_owned), room.name.map(|name| format!("#{name}"))];
                let name: Vec<String> = parts.into_iter().flatten().collect();
                let place = ChatAddress::new(ChatKind::Group, room.id);
                places.push(ChatAddress { chat_name: Some(name.join(" / ")), topic: room.topic, ..place });
            }
        }
        Ok(places)
    }
}

/// Returns the channel or thread id of an address.
pub(super) fn target_channel(place: &ChatAddress) -> Result<&str, ChannelError> {
    let id = place.thread_id.as_deref().filter(|id| !id.is_empty()).unwrap_or(&place.chat_id);
    if is_id(id) {
        return Ok(id);
    }
    Err(ChannelError::Refused(format!("`{id}` is not a Discord channel: its id is a number")))
}

fn is_id(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn id_of(message: &Value) -> Result<String, ChannelError> {
    let id = message.get("id").and_then(Value::as_str).map(str::to_owned);
    let reason = "Discord's answer does not name the message".to_owned();
    id.ok_or(ChannelError::Retry { after: None, reason })
}

/// Adds fences around tables, if the text stays within the limit.
fn with_fenced_tables(text: &str) -> String {
    let fenced = fence_tables(text);
    if length(&fenced, LengthUnit::Scalars) <= LONGEST { fenced } else { text.to_owned() }
}

fn parts(text: &str) -> Vec<String> {
    let parts = split(&with_fenced_tables(text), LONGEST, LengthUnit::Scalars);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

fn truncate(text: &str) -> String {
    if length(text, LengthUnit::Scalars) <= LONGEST {
        return text.to_owned();
    }
    hermes_text::ellipsize(text, LONGEST - 3).into_owned()
}

/// Returns the nonce of a message, the same at every attempt: 25 digits of an FNV-1a hash.
fn nonce(key: &str, at: usize) -> String {
    let text = format!("{key}:{at}");
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
    let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step);
    format!("{:025x}", hash >> 28)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let size = std::fs::metadata(path).map_err(|_| "it is not there any more")?.len();
    if size > LARGEST_FILE {
        return Err("it is larger than this chat takes".to_owned());
    }
    std::fs::read(path).map_err(|_| "it cannot be read".to_owned())
}

/// Returns the duration of a voice message in seconds; `None` when the file is not one.
fn voice_duration(file: &Attachment, name: &str, bytes: &[u8]) -> Option<f64> {
    let voice =
        file.kind == AttachmentKind::Voice && matches!(extension_of(name).as_deref(), Some(".ogg" | ".opus"));
    if !voice || !bytes.starts_with(b"OggS") {
        return None;
    }
    // The last page has the total number of samples.
    let last = bytes.windows(4).rposition(|window| window == b"OggS")?;
    let samples =
        bytes.get(last + 6..last + 14).and_then(|field| field.try_into().ok()).map(u64::from_le_bytes)?;
    let seconds =
        Some(samples).and_then(|samples| u32::try_from(samples).ok()).map(f64::from)? / SAMPLES_PER_SECOND;
    Some(seconds.max(0.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_short_stable_and_differ() {
        assert_eq!(nonce("turn:1:0", 0), nonce("turn:1:0", 0));
        assert_eq!(nonce("turn:1:0", 0).len(), 25);
        let all: std::collections::HashSet<String> =
            (0..2000).map(|n| nonce(&format!("turn:{n}"), n % 3)).collect();
        assert_eq!(all.len(), 2000);
    }

    #[test]
    fn only_numbers_are_places() {
        for (id, good) in [("123", true), ("", false), ("general", false), ("1/../2", false), ("-1", false)] {
            assert_eq!(target_channel(&ChatAddress::new(ChatKind::Group, id)).is_ok(), good, "{id}");
        }
    }

    #[test]
    fn long_texts_are_cut_or_split() {
        let long = "word ".repeat(900);
        assert!(parts(&long).iter().all(|part| part.chars().count() <= LONGEST));
        assert_eq!((truncate(&long).chars().count(), truncate(&long).ends_with("...")), (LONGEST, true));
        assert_eq!(parts(" \n"), Vec::<String>::new());
    }
}
