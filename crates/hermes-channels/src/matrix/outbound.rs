//! Outgoing messages, edits and reactions.
//!
//! Invariant: each event has a transaction id made from the key of its message, so that the server sends it once however often it is
//! asked to.

use std::time::Duration;

use hermes_net::Method;
use hermes_types::{
    ChannelError, ChatAddress, ChatPart, DeliveryCertainty, DeliveryReceipt, MessageStatus, OutgoingMessage,
    QuickReply, Timestamp, WebImage,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::MatrixChannel;
use super::api::{code, path};
use super::rooms::RoomFacts;
use super::settings::EncryptionMode;
use super::sign_in::MatrixSession;
use crate::choices;
use crate::fetch::fetch_picture;
use crate::incoming_file::read_outgoing;
use crate::rest::RestError;

/// How long a server certainly knows transaction ids; after that, an earlier event is looked for.
const REMEMBERED: Duration = Duration::from_mins(10);
/// The number of events of a room among which it is looked for.
const LOOK_BACK: &str = "100";

/// Sends to one room.
struct RoomSender<'a> {
    channel: &'a MatrixChannel,
    session: MatrixSession,
    facts: std::sync::Arc<RoomFacts>,
    place: &'a ChatAddress,
}

impl MatrixChannel {
    /// Sends a reply. `since` is the time of the first attempt, if there was one.
    pub(super) async fn deliver(
        &self,
        reply: &OutgoingMessage,
        since: Option<Timestamp>,
    ) -> Result<DeliveryReceipt, ChannelError> {
        let destination = self.destination(&reply.place).await?;
        let now = self.context.clock.now();
        let forgotten = since.is_some_and(|since| now.since(since) > REMEMBERED);
        let sent = if forgotten { destination.list_sent().await? } else { Vec::new() };
        let mut message_ids = Vec::new();
        let last_text = reply.pieces.iter().rposition(|piece| matches!(piece, ChatPart::Text { .. }));
        for (at, piece) in reply.pieces.iter().enumerate() {
            let transaction = transaction(&format!("{}#{at}", reply.idempotency_key));
            let choices = if Some(at) == last_text { &reply.choices[..] } else { &[] };
            let known = sent.iter().find(|(known, _)| *known == transaction).map(|(_, id)| id.clone());
            message_ids.push(match known {
                Some(id) => id,
                None => destination.send_piece(reply, piece, choices, &transaction).await?,
            });
        }
        Ok(DeliveryReceipt { message_ids, certainty: DeliveryCertainty::Once })
    }

    async fn destination<'a>(&'a self, place: &'a ChatAddress) -> Result<RoomSender<'a>, ChannelError> {
        let session = self.session().await?;
        let room = self.room(&session, &place.chat_id).await;
        let facts = self.checked(room).await?;
        if self.settings.encryption == EncryptionMode::Required && facts.encryption.is_none() {
            let why = "the room is not encrypted, and MATRIX_E2EE_MODE is required; nothing was sent";
            return Err(ChannelError::Refused(why.to_owned()));
        }
        Ok(RoomSender { channel: self, session, facts, place })
    }

    /// Ends a session that the server refused.
    async fn checked<T>(&self, outcome: Result<T, ChannelError>) -> Result<T, ChannelError> {
        match outcome {
            Err(error @ ChannelError::Reauthorise(_)) => Err(self.refused_session(error).await),
            outcome => outcome,
        }
    }

    pub(super) async fn post_text(&self, place: &ChatAddress, text: &str) -> Result<String, ChannelError> {
        let to = self.destination(place).await?;
        let mut content = text_content(text, &[]);
        relate(&mut content, place, None);
        to.send_event("m.room.message", &content, &random_transaction()).await
    }

    /// Replaces the text of a message; `message` is its first event.
    pub(super) async fn edit_text(
        &self,
        place: &ChatAddress,
        message: &str,
        text: &str,
    ) -> Result<(), ChannelError> {
        let to = self.destination(place).await?;
        let new = text_content(text, &[]);
        let mut content = new.clone();
        content["body"] = json!(format!("* {text}"));
        if let Some(markup) = new.get("formatted_body").and_then(Value::as_str) {
            content["formatted_body"] = json!(format!("* {markup}"));
        }
        content["m.new_content"] = new;
        content["m.relates_to"] = json!({"rel_type": "m.replace", "event_id": message});
        to.send_event("m.room.message", &content, &random_transaction()).await.map(|_| ())
    }

    /// Shows the status of a message by a reaction. The one before it is taken back.
    pub(super) async fn set_reaction(&self, place: &ChatAddress, message: &str, mark: MessageStatus) {
        let Ok(to) = self.destination(place).await else { return };
        let key = match mark {
            MessageStatus::Processing => "👀",
            MessageStatus::Answered => "✅",
            MessageStatus::Failed => "❌",
        };
        let of = |key: &str| transaction(&format!("status:{message}:{key}"));
        if mark != MessageStatus::Processing {
            // The same transaction id returns the id of the reaction, also in another process.
            if let Ok(seen) = to.react(message, "👀", &of("👀")).await {
                let target = path(&[&place.chat_id, "redact", &seen, &of("taken back")]);
                let target = format!("v3/rooms/{target}");
                self.api.call(&to.session.token, Method::PUT, &target, Some(&json!({}))).await.ok();
            }
        }
        if let Err(error) = to.react(message, key, &of(key)).await {
            tracing::debug!(%error, "a reaction was not set");
        }
    }

    pub(super) async fn send_typing(&self, place: &ChatAddress) {
        let Ok(session) = self.session().await else { return };
        let target = format!("v3/rooms/{}", path(&[&place.chat_id, "typing", &session.user]));
        let body = json!({"typing": true, "timeout": 30_000});
        self.api.call(&session.token, Method::PUT, &target, Some(&body)).await.ok();
    }
}

impl RoomSender<'_> {
    async fn send_piece(
        &self,
        reply: &OutgoingMessage,
        piece: &ChatPart,
        choices: &[QuickReply],
        transaction: &str,
    ) -> Result<String, ChannelError> {
        let mut content = match piece {
            ChatPart::Text { text } => text_content(text, choices),
            ChatPart::File(file) => {
                let (name, bytes) = read_outgoing(file)?;
                self.channel.upload(&self.session, &self.facts, &name, bytes, Some(file.kind)).await?
            }
            ChatPart::Picture(picture) => self.picture_content(picture).await?,
        };
        relate(&mut content, self.place, reply.reply_to.as_deref());
        let id = self.send_event("m.room.message", &content, transaction).await?;
        for (key, _) in choices::reactions(choices) {
            let own = self::transaction(&format!("{transaction}:{key}"));
            if let Err(error) = self.react(&id, key, &own).await {
                tracing::debug!(%error, "a choice was not offered as a reaction");
            }
        }
        Ok(id)
    }

    /// Downloads and uploads a picture. If that fails, its address is sent.
    async fn picture_content(&self, picture: &WebImage) -> Result<Value, ChannelError> {
        let why =
            match fetch_picture(&self.channel.context.client, &*self.channel.context.clock, &picture.url)
                .await
            {
                Ok(file) => {
                    match self
                        .channel
                        .upload(&self.session, &self.facts, &file.name, file.bytes.to_vec(), None)
                        .await
                    {
                        Ok(mut content) => {
                            if let Some(caption) = &picture.caption {
                                content["body"] = json!(caption);
                            }
                            return Ok(content);
                        }
                        Err(ChannelError::Refused(why)) => why,
                        Err(error) => return Err(error),
                    }
                }
                Err(why) => why,
            };
        tracing::warn!(why, "a picture is sent as its address");
        Ok(text_content(&picture.fallback_text(), &[]))
    }

    /// Sends an event, encrypted where the room is. A repetition with the same transaction id is the same event.
    async fn send_event(
        &self,
        kind: &str,
        content: &Value,
        transaction: &str,
    ) -> Result<String, ChannelError> {
        let room = &self.place.chat_id;
        let encrypted;
        let (kind, content) = if self.facts.encryption.is_some() && kind != "m.reaction" {
            let sealed = self.channel.encrypt(&self.session, room, &self.facts, (kind, content)).await;
            encrypted = self.channel.checked(sealed).await?;
            ("m.room.encrypted", &encrypted)
        } else {
            (kind, content)
        };
        let target = format!("v3/rooms/{}", path(&[room, "send", kind, transaction]));
        match self.channel.api.call(&self.session.token, Method::PUT, &target, Some(content)).await {
            Ok(answer) => {
                let id = answer.get("event_id").and_then(Value::as_str).map(str::to_owned);
                id.ok_or_else(|| {
                    ChannelError::DeliveryUnknown("Matrix returned no id of the event".to_owned())
                })
            }
            Err(failure) => {
                if code(&failure) == Some("M_FORBIDDEN") {
                    self.channel.rooms.forget(room);
                }
                self.channel.checked(Err(failure.into_send_error())).await
            }
        }
    }

    /// Returns the transaction ids and the ids of this device's newest events in a room.
    async fn list_sent(&self) -> Result<Vec<(String, String)>, ChannelError> {
        let target = format!("v3/rooms/{}/messages?dir=b&limit={LOOK_BACK}", path(&[&self.place.chat_id]));
        let answer = self.channel.api.call(&self.session.token, Method::GET, &target, None).await;
        let answer = self.channel.checked(answer.map_err(|failure: RestError| failure.error)).await?;
        let pair = |event: &Value| {
            let transaction = event.pointer("/unsigned/transaction_id")?.as_str()?;
            Some((transaction.to_owned(), event.get("event_id")?.as_str()?.to_owned()))
        };
        let events = answer.get("chunk").and_then(Value::as_array).into_iter().flatten();
        Ok(events.filter_map(pair).collect())
    }

    async fn react(&self, message: &str, key: &str, transaction: &str) -> Result<String, ChannelError> {
        let content = json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": message, "key": key}});
        self.send_event("m.reaction", &content, transaction).await
    }
}

/// Builds the content of a text; its markup is left out where it says nothing more.
fn text_content(markdown: &str, choices: &[QuickReply]) -> Value {
    let reactions = choices::reactions(choices);
    let text = if reactions.is_empty() {
        markdown.to_owned()
    } else {
        format!("{markdown}{}", choices::legend(choices, &reactions))
    };
    // Nobody is called by what a model wrote.
    let mut content = json!({"msgtype": "m.text", "body": text, "m.mentions": {}});
    if let Some(markup) = hermes_text::dialect::matrix(&text) {
        content["format"] = json!("org.matrix.custom.html");
        content["formatted_body"] = json!(markup);
    }
    if !reactions.is_empty() {
        choices::describe(&mut content, &reactions);
    }
    content
}

/// Puts a message into its thread, or makes it a reply.
fn relate(content: &mut Value, place: &ChatAddress, reply_to: Option<&str>) {
    if let Some(thread) = &place.thread_id {
        let shown_below = reply_to.unwrap_or(thread);
        content["m.relates_to"] = json!({
            "rel_type": "m.thread", "event_id": thread, "is_falling_back": true,
            "m.in_reply_to": {"event_id": shown_below},
        });
    } else if let Some(reply_to) = reply_to {
        content["m.relates_to"] = json!({"m.in_reply_to": {"event_id": reply_to}});
    }
}

/// Returns the transaction id for a key.
fn transaction(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    format!("hermes-{}", data_encoding::HEXLOWER.encode(digest.get(..16).unwrap_or_default()))
}

fn random_transaction() -> String {
    format!("hermes-{}", hermes_types::random_hex(32))
}

#[cfg(test)]
mod tests {
    use hermes_types::ChatKind;

    use super::*;

    #[test]
    fn texts_and_their_relations() {
        assert_eq!(text_content("hi", &[]), json!({"msgtype": "m.text", "body": "hi", "m.mentions": {}}));
        let bold = text_content("**hi**", &[]);
        assert_eq!((&bold["body"], &bold["formatted_body"]), (&json!("**hi**"), &json!("<b>hi</b>")));
        let mut place = ChatAddress::new(ChatKind::Group, "!r:x");
        let mut content = json!({});
        relate(&mut content, &place, Some("$1"));
        assert_eq!(content["m.relates_to"], json!({"m.in_reply_to": {"event_id": "$1"}}));
        place.thread_id = Some("$root".to_owned());
        relate(&mut content, &place, None);
        assert_eq!(content["m.relates_to"]["event_id"], "$root");
        assert_eq!(content["m.relates_to"]["m.in_reply_to"]["event_id"], "$root");
    }

    #[test]
    fn a_key_has_one_transaction_id() {
        assert_eq!(transaction("a#0"), transaction("a#0"));
        assert_ne!(transaction("a#0"), transaction("a#1"));
    }
}
