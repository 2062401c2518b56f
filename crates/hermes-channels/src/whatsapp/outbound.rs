//! Outgoing messages.

use std::time::Duration;

use data_encoding::HEXUPPER;
use hermes_text::dialect;
use hermes_types::{
    Attachment, AttachmentKind, ChannelError, ChatAddress, ChatKind, ChatPart, DeliveryCertainty,
    DeliveryReceipt, OutgoingMessage, WebImage,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::WhatsAppChannel;
use super::bridge::{ending, parse_line};
use crate::choices;
use crate::fetch::fetch_picture;
use crate::host::{IncomingFile, RunningHelper};
use crate::media::{extension_of, mime_of};
use crate::rest::RestError;

/// The time a bridge that was started for a message has to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

impl WhatsAppChannel {
    /// Sends a reply. The ids of its messages are the same for every attempt, and phones show one message per id.
    pub(super) async fn deliver(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        self.ensure_bridge().await?;
        // In a group it must be seen which question is answered.
        let mut quoted = reply.reply_to.as_deref().filter(|_| reply.place.kind == ChatKind::Group);
        let instruction = choices::instruction(&reply.choices);
        let mut message_ids = Vec::new();
        for (at, piece) in reply.pieces.iter().enumerate() {
            let id = message_id(reply, at);
            match piece {
                ChatPart::Text { text } => {
                    let text = format!("{text}{instruction}");
                    self.send_text(&reply.place, &text, Some(&id), quoted.take()).await?
                }
                ChatPart::File(file) => self.send_file(&reply.place, file, "", &id).await?,
                ChatPart::Picture(picture) => self.send_picture(&reply.place, picture, &id).await?,
            };
            message_ids.push(id);
        }
        self.questions.remember(reply, &message_ids);
        Ok(DeliveryReceipt { message_ids, certainty: DeliveryCertainty::Once })
    }

    /// Starts a bridge, if none runs: for messages that are sent without a gateway.
    async fn ensure_bridge(&self) -> Result<(), ChannelError> {
        if self.bridge.is_running() {
            return Ok(());
        }
        let mut slot = self.bridge.helper.lock().await;
        if !self.bridge.is_running() && !self.listens.load(std::sync::atomic::Ordering::SeqCst) {
            let mut helper = self.bridge.start(&self.settings, &self.context).await?;
            self.until_connected(&mut *helper).await?;
            *slot = Some(helper);
        }
        Ok(())
    }

    /// Waits for the connection to WhatsApp for a while; without it the send says what is wrong.
    async fn until_connected(&self, helper: &mut dyn RunningHelper) -> Result<(), ChannelError> {
        let mut late = self.context.clock.sleep(CONNECT_TIMEOUT);
        loop {
            let line = tokio::select! {
                line = helper.next_line() => line,
                () = &mut late => return Ok(()),
            };
            let error = match line.map(|line| parse_line(&line)) {
                Some(event) if event["event"] == "connected" => return Ok(()),
                Some(event) => ending(&event),
                None => {
                    let reason = "the WhatsApp bridge ended".to_owned();
                    Some(ChannelError::Retry { after: None, reason })
                }
            };
            if let Some(error) = error {
                self.bridge.forget();
                return Err(error);
            }
        }
    }

    pub(super) async fn send_text(
        &self,
        place: &ChatAddress,
        text: &str,
        id: Option<&str>,
        quoted: Option<&str>,
    ) -> Result<String, ChannelError> {
        let mut body = json!({"chatId": place.chat_id, "message": dialect::whatsapp(text)});
        if let Some(id) = id {
            body["messageId"] = json!(id);
        }
        if let Some(quoted) = quoted {
            body["replyTo"] = json!(quoted);
        }
        self.call("send", &body).await
    }

    pub(super) async fn edit_text(
        &self,
        place: &ChatAddress,
        message: &str,
        text: &str,
    ) -> Result<(), ChannelError> {
        let body = json!({"chatId": place.chat_id, "messageId": message, "message": dialect::whatsapp(text)});
        self.call("edit", &body).await.map(drop)
    }

    async fn send_file(
        &self,
        place: &ChatAddress,
        file: &Attachment,
        caption: &str,
        id: &str,
    ) -> Result<String, ChannelError> {
        let path = std::fs::canonicalize(&file.path)
            .map_err(|error| ChannelError::Refused(format!("{}: {error}", file.path)))?;
        let kind = match file.kind {
            AttachmentKind::Image => "image",
            AttachmentKind::Audio => "audio",
            AttachmentKind::Voice => "ptt",
            AttachmentKind::Video => "video",
            AttachmentKind::Document => "document",
        };
        let path = path.to_string_lossy();
        let name = file.name.as_deref().or_else(|| path.rsplit('/').next());
        let mut body = json!({
            "chatId": place.chat_id, "filePath": path, "mediaType": kind, "fileName": name, "messageId": id,
        });
        if !caption.is_empty() {
            body["caption"] = json!(dialect::whatsapp(caption));
        }
        self.call("send-media", &body).await
    }

    /// Downloads and sends a picture. If that fails, sends its address.
    async fn send_picture(
        &self,
        place: &ChatAddress,
        picture: &WebImage,
        id: &str,
    ) -> Result<String, ChannelError> {
        let why = match fetch_picture(&self.context.client, &*self.context.clock, &picture.url).await {
            Ok(fetched) => {
                let extension = extension_of(&fetched.name).unwrap_or_default();
                let file = IncomingFile {
                    kind: AttachmentKind::Image,
                    name: Some(&fetched.name),
                    extension: &extension,
                    mime: Some(mime_of(&fetched.name)),
                    bytes: &fetched.bytes,
                };
                match self.context.host.save_file(file).await {
                    Ok(kept) => {
                        let caption = picture.caption.as_deref().unwrap_or_default();
                        return self.send_file(place, &kept, caption, id).await;
                    }
                    Err(why) => why,
                }
            }
            Err(why) => why,
        };
        tracing::warn!(why, "a picture is sent as its address");
        self.send_text(place, &picture.fallback_text(), Some(id), None).await
    }

    /// Calls an endpoint and returns the id of the message.
    async fn call(&self, endpoint: &str, body: &Value) -> Result<String, ChannelError> {
        let answer = self.bridge.post(endpoint, body).await.map_err(not_connected);
        let answer = answer.map_err(RestError::into_send_error)?;
        Ok(answer.get("messageId").and_then(Value::as_str).unwrap_or_default().to_owned())
    }
}

/// A bridge that is not connected has sent nothing.
fn not_connected(failure: RestError) -> RestError {
    match failure.status {
        Some(503) => RestError { may_have_succeeded: false, ..failure },
        _ => failure,
    }
}

/// Returns the id of a part of a reply, the same for every attempt to send it.
fn message_id(reply: &OutgoingMessage, at: usize) -> String {
    let mut digest = Sha256::new();
    for part in [reply.place.chat_id.as_str(), &reply.idempotency_key, &at.to_string()] {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    // A database that was begun anew counts from the start; its texts differ.
    if let Some(ChatPart::Text { text }) = reply.pieces.get(at) {
        digest.update(text.as_bytes());
    }
    let hex = HEXUPPER.encode(&digest.finalize());
    format!("3EB0{}", hermes_text::head(&hex, 18))
}
