//! Outgoing messages.

use hermes_text::dialect;
use hermes_types::{
    ApprovalDecision, ChannelError, ChatAddress, ChatPart, DeliveryCertainty, DeliveryReceipt,
    OutgoingMessage, QuickReply,
};
use serde_json::{Value, json};

use super::SlackChannel;
use super::api::{MethodArguments, SlackError};
use crate::approval::parse_approval;

/// The length limit of a section of a message with buttons.
const SECTION: usize = 3000;
const BUTTON: usize = 75;
/// The limit of buttons in one row.
const BUTTONS: usize = 25;
/// The event type in the metadata of the bot's messages.
const EVENT: &str = "hermes_reply";
/// The number of messages searched for a reply that may have arrived. Threads are listed from their beginning, so
/// more of them are read.
const LOOK_BACK: &str = "50";
const LOOK_BACK_IN_THREAD: &str = "999";

impl SlackChannel {
    pub(super) async fn deliver(&self, reply: &OutgoingMessage) -> Result<DeliveryReceipt, ChannelError> {
        let mut ids = Vec::new();
        for piece in &reply.pieces {
            ids.push(match piece {
                ChatPart::Text { text } => self.send_text(reply, text).await?,
                ChatPart::File(file) => self.share_file(&reply.place, file).await?,
                ChatPart::Picture(picture) => self.share_picture(reply, picture).await?,
            });
        }
        Ok(DeliveryReceipt { message_ids: ids, certainty: DeliveryCertainty::Once })
    }

    /// Retries a reply: a text message is found by the key in its metadata; an upload has none.
    pub(super) async fn deliver_again(
        &self,
        reply: &OutgoingMessage,
    ) -> Result<DeliveryReceipt, ChannelError> {
        if let Some(ts) = self.find_sent(reply).await? {
            return Ok(DeliveryReceipt { message_ids: vec![ts], certainty: DeliveryCertainty::Once });
        }
        let receipt = self.deliver(reply).await?;
        let said = reply.pieces.iter().all(|piece| matches!(piece, ChatPart::Text { .. }));
        let certainty = if said { receipt.certainty } else { DeliveryCertainty::AtLeastOnce };
        Ok(DeliveryReceipt { certainty, ..receipt })
    }

    pub(super) async fn send_text(
        &self,
        reply: &OutgoingMessage,
        text: &str,
    ) -> Result<String, ChannelError> {
        let key = &reply.idempotency_key;
        let mut body = body(&reply.place, text);
        body["metadata"] = json!({"event_type": EVENT, "event_payload": {"key": key}});
        if !reply.choices.is_empty() {
            body["blocks"] = blocks(text, &reply.choices);
        }
        // Only a reply to a message is also shown in the channel.
        if self.settings.reply_broadcast && reply.reply_to.is_some() && reply.place.thread_id.is_some() {
            body["reply_broadcast"] = json!(true);
        }
        let answer = self.api.call("chat.postMessage", MethodArguments::Json(&body)).await;
        ts_of(&answer.map_err(SlackError::into_send_error)?)
    }

    /// Finds the message that an earlier attempt at this reply left in the chat.
    pub(super) async fn find_sent(&self, reply: &OutgoingMessage) -> Result<Option<String>, ChannelError> {
        let channel = ("channel", reply.place.chat_id.as_str());
        let metadata = ("include_all_metadata", "true");
        let answer = if let Some(thread) = &reply.place.thread_id {
            let arguments = [channel, ("limit", LOOK_BACK_IN_THREAD), metadata, ("ts", thread.as_str())];
            self.api.call("conversations.replies", MethodArguments::Form(&arguments)).await
        } else {
            let arguments = [channel, ("limit", LOOK_BACK), metadata];
            self.api.call("conversations.history", MethodArguments::Form(&arguments)).await
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(failure) if matches!(failure.error, ChannelError::Retry { .. }) => return Err(failure.error),
            // Without permission to search, the message is sent again.
            Err(failure) => {
                tracing::debug!(code = failure.code, "the chat cannot be looked at");
                return Ok(None);
            }
        };
        let ours = |message: &&Value| {
            message.pointer("/metadata/event_payload/key").and_then(Value::as_str)
                == Some(&reply.idempotency_key)
        };
        let messages = answer.get("messages").and_then(Value::as_array);
        let found = messages.into_iter().flatten().find(ours);
        Ok(found.and_then(|message| message.get("ts")).and_then(Value::as_str).map(str::to_owned))
    }

    pub(super) async fn post_text(&self, place: &ChatAddress, text: &str) -> Result<String, ChannelError> {
        let answer = self.api.call("chat.postMessage", MethodArguments::Json(&body(place, text))).await?;
        ts_of(&answer)
    }

    pub(super) async fn edit_text(
        &self,
        place: &ChatAddress,
        message: &str,
        text: &str,
    ) -> Result<(), ChannelError> {
        let body = json!({"channel": place.chat_id, "ts": message, "text": dialect::slack(text)});
        self.api.call("chat.update", MethodArguments::Json(&body)).await?;
        Ok(())
    }
}

fn body(place: &ChatAddress, text: &str) -> Value {
    let mut body = json!({"channel": place.chat_id, "text": dialect::slack(text)});
    if let Some(thread) = &place.thread_id {
        body["thread_ts"] = json!(thread);
    }
    body
}

fn ts_of(answer: &Value) -> Result<String, ChannelError> {
    let ts = answer.get("ts").and_then(Value::as_str);
    ts.map(str::to_owned).ok_or_else(|| ChannelError::Refused("chat.postMessage: no id came".to_owned()))
}

/// Builds sections for the text, and buttons for the choices below it.
fn blocks(text: &str, choices: &[QuickReply]) -> Value {
    let sections = hermes_text::split(text, SECTION / 2, hermes_types::LengthUnit::Scalars);
    let mut blocks: Vec<Value> = sections
        .iter()
        .map(|part| json!({"type": "section", "text": {"type": "mrkdwn", "text": truncate(&dialect::slack(part), SECTION)}}))
        .collect();
    let buttons: Vec<Value> =
        choices.iter().take(BUTTONS).enumerate().map(|(at, choice)| button(at, choice)).collect();
    blocks.push(json!({"type": "actions", "elements": buttons}));
    json!(blocks)
}

fn button(at: usize, choice: &QuickReply) -> Value {
    let (id, style) = match parse_approval(&choice.text) {
        Some((ApprovalDecision::Once, _)) => ("hermes_approve_once".to_owned(), Some("primary")),
        Some((ApprovalDecision::Session, _)) => ("hermes_approve_session".to_owned(), None),
        Some((ApprovalDecision::Always, _)) => ("hermes_approve_always".to_owned(), None),
        Some((ApprovalDecision::Deny, _)) => ("hermes_deny".to_owned(), Some("danger")),
        None => (format!("hermes_choice_{at}"), None),
    };
    let label = json!({"type": "plain_text", "text": truncate(&choice.label, BUTTON), "emoji": true});
    let mut button =
        json!({"type": "button", "action_id": id, "text": label, "value": truncate(&choice.text, 2000)});
    if let Some(style) = style {
        button["style"] = json!(style);
    }
    button
}

fn truncate(text: &str, most: usize) -> String {
    hermes_text::head(text, most).to_owned()
}
