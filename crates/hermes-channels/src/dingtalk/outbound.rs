//! Outgoing messages: through the webhook of a conversation while it is valid, else through the robot API.

use hermes_types::{
    Attachment, AttachmentKind, ChannelError, ChatPart, DeliveryCertainty, DeliveryReceipt, OutgoingMessage,
};
use serde_json::{Value, json};

use super::DingTalkChannel;
use super::api::DingTalkFileKind;
use super::chats::KnownChat;
use crate::incoming_file::read_outgoing;
use crate::media::{extension_of, mime_of};
use crate::rest::RestError;

const TITLE: &str = "Hermes";
/// What the id of a group begins with.
const GROUP: &str = "cid";

impl DingTalkChannel {
    pub(super) async fn deliver(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        let chat = &reply.place.chat_id;
        let mut message_ids = Vec::new();
        for piece in &reply.pieces {
            message_ids.push(match piece {
                ChatPart::Text { text } => self.send_text(chat, text).await?,
                // Markdown shows pictures by their address.
                ChatPart::Picture(picture) => {
                    let caption = picture.caption.as_deref().unwrap_or_default();
                    self.send_text(chat, &format!("{caption}\n\n![]({})", picture.url)).await?
                }
                ChatPart::File(file) => self.send_file(chat, file).await?,
            });
        }
        message_ids.retain(|id| !id.is_empty());
        Ok(DeliveryReceipt { message_ids, certainty: DeliveryCertainty::Once })
    }

    pub(super) async fn send_text(&self, chat: &str, text: &str) -> Result<String, ChannelError> {
        let known = self.chats.find(chat);
        let markdown = json!({"title": TITLE, "text": text.trim()});
        let body = json!({"msgtype": "markdown", "markdown": markdown});
        if let Some(known) = known.as_ref().filter(|known| known.has_webhook(self.context.clock.now())) {
            match self.api.post_to_webhook(&known.webhook, &body).await {
                // A webhook may end before its time; the robot API reaches the conversation all the same.
                Err(failure) if matches!(failure.error, ChannelError::Refused(_)) => {
                    tracing::debug!(error = %failure.error, "a webhook was not taken; asking the robot API");
                }
                other => return other.map(|()| String::new()).map_err(RestError::into_send_error),
            }
        } else if known.is_none()
            && let Some(webhook) = &self.settings.webhook
        {
            let sent = self.api.post_to_webhook(webhook.expose(), &body).await;
            return sent.map(|()| String::new()).map_err(RestError::into_send_error);
        }
        self.send_by_robot(chat, known.as_ref(), "sampleMarkdown", &markdown).await
    }

    /// Uploads and sends a file. Webhooks take no files.
    async fn send_file(&self, chat: &str, file: &Attachment) -> Result<String, ChannelError> {
        let (name, bytes) = read_outgoing(file)?;
        let mime = mime_of(&name);
        let known = self.chats.find(chat);
        if file.kind == AttachmentKind::Image && mime.starts_with("image/") {
            let id = self.api.upload(DingTalkFileKind::Image, &name, mime, &bytes).await?;
            return self
                .send_by_robot(chat, known.as_ref(), "sampleImageMsg", &json!({"photoURL": id}))
                .await;
        }
        let id = self.api.upload(DingTalkFileKind::File, &name, mime, &bytes).await?;
        let kind = extension_of(&name).unwrap_or_default();
        let content = json!({"mediaId": id, "fileName": name, "fileType": kind.trim_start_matches('.')});
        self.send_by_robot(chat, known.as_ref(), "sampleFile", &content).await
    }

    async fn send_by_robot(
        &self,
        chat: &str,
        known: Option<&KnownChat>,
        key: &str,
        content: &Value,
    ) -> Result<String, ChannelError> {
        let robot = known.map(|known| known.robot.as_str()).filter(|robot| !robot.is_empty());
        let mut body = json!({
            "robotCode": robot.unwrap_or(&self.settings.client_id), "msgKey": key, "msgParam": content.to_string(),
        });
        let is_group = known.map_or_else(|| chat.starts_with(GROUP), |known| known.is_group);
        let path = if is_group {
            body["openConversationId"] = json!(chat);
            "v1.0/robot/groupMessages/send"
        } else {
            let staff = known.and_then(|known| known.staff.clone()).unwrap_or_else(|| chat.to_owned());
            body["userIds"] = json!([staff]);
            "v1.0/robot/oToMessages/batchSend"
        };
        let answer = self.api.call(path, &body).await.map_err(|failure| {
            let failure = explain(failure);
            failure.into_send_error()
        })?;
        let missed = ["invalidStaffIdList", "flowControlledStaffIdList"];
        for list in missed {
            if answer.get(list).and_then(Value::as_array).is_some_and(|list| !list.is_empty()) {
                return Err(match list {
                    "flowControlledStaffIdList" => {
                        let reason = "DingTalk limits messages to this person".to_owned();
                        ChannelError::Retry { after: None, reason }
                    }
                    _ => ChannelError::Refused(format!("DingTalk knows nobody with the staff id {chat}")),
                });
            }
        }
        Ok(answer.get("processQueryKey").and_then(Value::as_str).unwrap_or_default().to_owned())
    }
}

/// Says what is missing where the robot may not send.
fn explain(mut failure: RestError) -> RestError {
    let code = failure.body.get("code").and_then(Value::as_str).unwrap_or_default();
    if code.to_lowercase().contains("accessdenied") || failure.status == Some(403) {
        let text = "the DingTalk app may not send robot messages; add that permission, or write to the robot first \
                    and it answers there";
        failure.error = ChannelError::Refused(text.to_owned());
    }
    failure
}
