//! Outgoing messages, reactions, and the list of groups.

use std::sync::PoisonError;

use hermes_text::dialect;
use hermes_types::{
    AttachmentKind, ChannelError, ChatAddress, ChatKind, ChatPart, DeliveryCertainty, DeliveryReceipt,
    MessageStatus, OutgoingMessage, WebImage,
};
use serde_json::{Value, json};

use super::inbound::{message_id, split_message_id};
use super::rpc::RpcParameters;
use super::{GROUP, SignalChannel, masked};
use crate::choices;
use crate::fetch::fetch_picture;
use crate::host::IncomingFile;
use crate::media::{extension_of, mime_of};
use crate::rest::RestError;

/// The number of own messages that are remembered.
const MAX_SENT: usize = 50;

impl SignalChannel {
    pub(super) async fn deliver(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        // In a group it must be seen which question is answered.
        let mut quoted = reply.reply_to.as_deref().filter(|_| reply.place.chat_id.starts_with(GROUP));
        let mut message_ids = Vec::new();
        let instruction = choices::instruction(&reply.choices);
        for piece in &reply.pieces {
            let id = match piece {
                ChatPart::Text { text } => {
                    let text = format!("{text}{instruction}");
                    self.send_text(&reply.place, &text, quoted.take()).await?
                }
                ChatPart::File(file) => self.send_file(&reply.place, &file.path, "").await?,
                ChatPart::Picture(picture) => self.send_picture(&reply.place, picture).await?,
            };
            message_ids.push(id);
        }
        self.questions.remember(reply, &message_ids);
        Ok(DeliveryReceipt { message_ids, certainty: DeliveryCertainty::Once })
    }

    pub(super) async fn send_text(
        &self,
        place: &ChatAddress,
        text: &str,
        quoted: Option<&str>,
    ) -> Result<String, ChannelError> {
        let mut parameters = with_text(place, text);
        if let Some((timestamp, author)) = quoted.and_then(split_message_id) {
            parameters.insert("quoteTimestamp".to_owned(), json!(timestamp));
            parameters.insert("quoteAuthor".to_owned(), json!(author));
        }
        self.send_message(place, parameters).await
    }

    /// Sends a file, which the daemon reads from the disk.
    async fn send_file(
        &self,
        place: &ChatAddress,
        path: &str,
        caption: &str,
    ) -> Result<String, ChannelError> {
        let there = std::fs::metadata(path).is_ok_and(|found| found.is_file());
        if !there {
            return Err(ChannelError::Refused(format!("{path}: there is no such file")));
        }
        let mut parameters = with_text(place, caption);
        parameters.insert("attachments".to_owned(), json!([path]));
        self.send_message(place, parameters).await
    }

    /// Downloads and sends a picture. If that fails, sends its address.
    async fn send_picture(&self, place: &ChatAddress, picture: &WebImage) -> Result<String, ChannelError> {
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
                        return self.send_file(place, &kept.path, caption).await;
                    }
                    Err(why) => why,
                }
            }
            Err(why) => why,
        };
        tracing::warn!(why, "a picture is sent as its address");
        self.send_text(place, &picture.fallback_text(), None).await
    }

    async fn send_message(
        &self,
        place: &ChatAddress,
        parameters: RpcParameters,
    ) -> Result<String, ChannelError> {
        let answer = self.rpc.call("send", parameters).await.map_err(|failure| {
            tracing::debug!(to = masked(&place.chat_id), "a Signal message was not sent");
            RestError::into_send_error(failure)
        })?;
        let timestamp = answer.get("timestamp").and_then(Value::as_u64).unwrap_or_default();
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.len() >= MAX_SENT {
            sent.pop_front();
        }
        sent.push_back(timestamp);
        Ok(message_id(timestamp, &self.settings.account))
    }

    pub(super) async fn set_reaction(&self, place: &ChatAddress, message: &str, mark: MessageStatus) {
        let Some((timestamp, author)) = split_message_id(message) else { return };
        let emoji = match mark {
            MessageStatus::Processing => "👀",
            MessageStatus::Answered => "✅",
            MessageStatus::Failed => "❌",
        };
        let mut parameters = recipient(place);
        parameters.insert("emoji".to_owned(), json!(emoji));
        parameters.insert("targetAuthor".to_owned(), json!(author));
        parameters.insert("targetTimestamp".to_owned(), json!(timestamp));
        if let Err(failure) = self.rpc.call("sendReaction", parameters).await {
            tracing::debug!(error = %failure.error, "a reaction was not set");
        }
    }

    /// Lists the groups that are listened to.
    pub(super) async fn list_groups(&self) -> Vec<ChatAddress> {
        let answer = self.rpc.call("listGroups", RpcParameters::new()).await.unwrap_or_default();
        let group = |group: &Value| {
            let id = group.get("id").and_then(Value::as_str)?;
            let member = group.get("isMember").and_then(Value::as_bool).unwrap_or(true);
            let mut place = ChatAddress::new(ChatKind::Group, format!("{GROUP}{id}"));
            place.chat_name = group.get("name").and_then(Value::as_str).map(str::to_owned);
            (member && self.settings.allows_group(id)).then_some(place)
        };
        answer.as_array().into_iter().flatten().filter_map(group).collect()
    }
}

/// Returns the parameter that names a chat.
pub(super) fn recipient(place: &ChatAddress) -> RpcParameters {
    let mut parameters = RpcParameters::new();
    match place.chat_id.strip_prefix(GROUP) {
        Some(group) => parameters.insert("groupId".to_owned(), json!(group)),
        None => parameters.insert("recipient".to_owned(), json!([place.chat_id])),
    };
    parameters
}

/// Returns the parameters of a text and its styles.
fn with_text(place: &ChatAddress, text: &str) -> RpcParameters {
    let mut parameters = recipient(place);
    let styled = dialect::signal(text);
    if !styled.styles.is_empty() {
        let style =
            |range: &dialect::StyledRange| format!("{}:{}:{}", range.start, range.length, range.style);
        let styles: Vec<String> = styled.styles.iter().map(style).collect();
        parameters.insert("textStyle".to_owned(), json!(styles));
    }
    parameters.insert("message".to_owned(), json!(styled.text));
    parameters
}
