//! Events of rooms on their way to the intake: what a cut sync left out, decryption, the gate.

use hermes_net::Method;
use hermes_types::{ChannelError, ChatPart, Envelope, Timestamp};
use serde_json::{Value, json};

use super::api::path;
use super::encryption::RoomEncryption;
use super::event::{self, MatrixBody, MatrixMessage, RoomEvent};
use super::inbound;
use super::settings::EncryptionMode;
use super::sign_in::MatrixSession;
use super::sync::{MatrixListener, SyncScope};
use crate::choices;
use crate::incoming_file::{SubmitOutcome, submit};

/// The number of pages, and the events on each, that are read back where a sync was cut.
const MAX_PAGES: usize = 20;
const PAGE: &str = "100";
/// How long an event waits for its key.
const KEY_PATIENCE_SECONDS: f64 = 60.0;
/// Limits the events that wait for their keys.
const MAX_WAITING: usize = 200;

/// The reason why an event could not be decrypted.
#[derive(Debug)]
pub(super) enum DecryptionFailure {
    /// Its key may still come.
    MissingKey,
    Failed(String),
}

impl MatrixListener<'_> {
    /// Returns the events of a room between the last sync and the beginning of a cut one, oldest first.
    pub(super) async fn fetch_gap(
        &self,
        session: &MatrixSession,
        room: &str,
        from: &str,
        to: &str,
    ) -> Result<Vec<Value>, ChannelError> {
        let mut found = Vec::new();
        let mut from = from.to_owned();
        for _ in 0..MAX_PAGES {
            let query = [("dir", "b"), ("limit", PAGE), ("from", from.as_str()), ("to", to)];
            let query = crate::rest::encode_form(&query);
            let target = format!("v3/rooms/{}/messages?{query}", path(&[room]));
            let answer = self.channel.api.call(&session.token, Method::GET, &target, None).await?;
            let events = answer.get("chunk").and_then(Value::as_array).cloned().unwrap_or_default();
            let is_last = events.is_empty();
            found.extend(events);
            match answer.get("end").and_then(Value::as_str) {
                Some(end) if !is_last && end != from => end.clone_into(&mut from),
                _ => break,
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Takes an event of a room. Returns false if the channel was cancelled before it was taken.
    pub(super) async fn take_event(
        &self,
        scope: &SyncScope,
        room: &str,
        raw: &Value,
    ) -> Result<bool, ChannelError> {
        if self.take_verification(scope, room, raw).await? {
            return Ok(true);
        }
        let Some(event) = event::parse(raw, &scope.session.user) else { return Ok(true) };
        if let RoomEvent::Encrypted { sender, .. } = &event {
            return self.take_encrypted(scope, room, raw, sender).await;
        }
        self.take_plain(scope, room, event, false).await
    }

    /// Takes an event of a verification in a room.
    async fn take_verification(
        &self,
        scope: &SyncScope,
        room: &str,
        event: &Value,
    ) -> Result<bool, ChannelError> {
        let (Some(encryption), Some(sender)) =
            (&scope.encryption, event.get("sender").and_then(Value::as_str))
        else {
            return Ok(false);
        };
        if sender == scope.session.user || !event::is_of_verification(event) {
            return Ok(false);
        }
        self.know_devices(scope, encryption, &[sender.to_owned()]).await?;
        encryption.take_room_verification(room, event).await
    }

    async fn take_encrypted(
        &self,
        scope: &SyncScope,
        room: &str,
        raw: &Value,
        sender: &str,
    ) -> Result<bool, ChannelError> {
        let Some(encryption) = &scope.encryption else {
            tracing::warn!(
                room,
                sender,
                "a message of an encrypted room was not read; MATRIX_ENCRYPTION is off"
            );
            return Ok(true);
        };
        // The first sync brings what was written before this device was there.
        let at = raw.get("origin_server_ts").and_then(Value::as_f64).unwrap_or_default() / 1000.0;
        if scope.begin.is_some_and(|begin| Timestamp(at) < begin) {
            return Ok(true);
        }
        match self.channel.decrypt(&scope.session, encryption, room, raw).await {
            Ok(plain) => self.take_decrypted(scope, room, &plain).await,
            Err(DecryptionFailure::MissingKey) => {
                let now = self.channel.context.clock.now();
                let mut waiting = encryption.undecrypted();
                let is_known = waiting.iter().any(|entry| entry["event"]["event_id"] == raw["event_id"]);
                if !is_known && waiting.len() < MAX_WAITING {
                    waiting.push(json!({"room": room, "event": raw, "at": now.seconds()}));
                    encryption.set_undecrypted(&waiting)?;
                }
                Ok(true)
            }
            Err(DecryptionFailure::Failed(reason)) => {
                tracing::warn!(room, sender, reason, "a message could not be decrypted");
                Ok(true)
            }
        }
    }

    async fn take_decrypted(
        &self,
        scope: &SyncScope,
        room: &str,
        plain: &Value,
    ) -> Result<bool, ChannelError> {
        if self.take_verification(scope, room, plain).await? {
            return Ok(true);
        }
        match event::parse(plain, &scope.session.user) {
            Some(event) => self.take_plain(scope, room, event, true).await,
            None => Ok(true),
        }
    }

    /// Tries again to decrypt the events that wait for their keys. Those that waited too long are reported to the agent, so that
    /// nothing is lost without a word.
    pub(super) async fn retry_undecrypted(
        &self,
        scope: &SyncScope,
        encryption: &RoomEncryption,
    ) -> Result<bool, ChannelError> {
        let waiting = encryption.undecrypted();
        if waiting.is_empty() {
            return Ok(true);
        }
        let mut left = Vec::new();
        let now = self.channel.context.clock.now();
        for entry in waiting {
            let (room, raw) = (entry["room"].as_str().unwrap_or_default(), &entry["event"]);
            let is_taken = match self.channel.decrypt(&scope.session, encryption, room, raw).await {
                Ok(plain) => self.take_decrypted(scope, room, &plain).await?,
                Err(_) if now.seconds() - entry["at"].as_f64().unwrap_or_default() < KEY_PATIENCE_SECONDS => {
                    left.push(entry);
                    continue;
                }
                Err(_) => self.report_undecrypted(scope, room, raw).await?,
            };
            if !is_taken {
                return Ok(false);
            }
        }
        encryption.set_undecrypted(&left)?;
        Ok(true)
    }

    async fn report_undecrypted(
        &self,
        scope: &SyncScope,
        room: &str,
        raw: &Value,
    ) -> Result<bool, ChannelError> {
        tracing::warn!(room, "the key of a message did not come");
        let mut shown = raw.clone();
        shown["type"] = json!("m.room.message");
        let text = "[The user sent a message whose key did not arrive, so that it could not be decrypted.]";
        let relation = raw.pointer("/content/m.relates_to").cloned();
        shown["content"] = json!({"msgtype": "m.text", "body": text});
        if let Some(relation) = relation {
            shown["content"]["m.relates_to"] = relation;
        }
        // In groups nobody knows whether it was meant for the bot.
        let facts = self.channel.room(&scope.session, room).await?;
        if facts.kind != hermes_types::ChatKind::Dm {
            return Ok(true);
        }
        self.take_decrypted(scope, room, &shown).await
    }

    /// Takes an event that can be read.
    async fn take_plain(
        &self,
        scope: &SyncScope,
        room: &str,
        event: RoomEvent,
        was_encrypted: bool,
    ) -> Result<bool, ChannelError> {
        match event {
            RoomEvent::Message(message) => self.take_message(scope, room, &message, was_encrypted).await,
            RoomEvent::Reaction { id, sender, at, to, key } => {
                let Some(text) = self.chosen(scope, room, &to, &key).await? else { return Ok(true) };
                let facts = self.channel.room(&scope.session, room).await?;
                let mut place = facts.address(room);
                place.thread_id = text.thread;
                let envelope = Envelope {
                    platform: super::NAME.to_owned(),
                    platform_key: id,
                    place,
                    sender: inbound::sender(&sender, &facts),
                    parts: vec![ChatPart::Text { text: text.says }],
                    message_id: Some(to.clone()),
                    reply_to: Some(to),
                    reply_to_text: None,
                    skill: None,
                    quiet_ms: 0,
                    received_at: at,
                };
                Ok(self.submit(envelope).await)
            }
            RoomEvent::Encrypted { .. } => Ok(true),
        }
    }

    async fn take_message(
        &self,
        scope: &SyncScope,
        room: &str,
        message: &MatrixMessage,
        was_encrypted: bool,
    ) -> Result<bool, ChannelError> {
        if scope.begin.is_some_and(|begin| message.at < begin) {
            return Ok(true);
        }
        let channel = self.channel;
        let facts = channel.room(&scope.session, room).await?;
        if channel.settings.encryption == EncryptionMode::Required && !was_encrypted {
            tracing::warn!(room, "a message that is not encrypted was ignored; MATRIX_E2EE_MODE is required");
            return Ok(true);
        }
        let (text, file) = match &message.body {
            MatrixBody::Text(text) => (text.as_str(), None),
            MatrixBody::File(file) => (file.caption.as_str(), Some(file)),
        };
        let me = &scope.session.user;
        if !inbound::is_relevant(message, text, room, &facts, &channel.settings, me) {
            return Ok(true);
        }
        let mut parts = Vec::new();
        let words = inbound::message_text(text, me, &facts, &channel.commands);
        if !words.is_empty() {
            parts.push(ChatPart::Text { text: words });
        }
        if let Some(file) = file {
            parts.push(channel.fetch_file(&scope.session, file).await);
        }
        if parts.is_empty() {
            return Ok(true);
        }
        Ok(self.submit(inbound::envelope(message, room, &facts, parts, &channel.settings)).await)
    }

    async fn submit(&self, envelope: Envelope) -> bool {
        let clock = &*self.channel.context.clock;
        submit(self.intake, envelope, clock, self.cancel).await == SubmitOutcome::Stored
    }

    /// Returns what a reaction to one of the bot's questions stands for.
    async fn chosen(
        &self,
        scope: &SyncScope,
        room: &str,
        to: &str,
        key: &str,
    ) -> Result<Option<ChosenAnswer>, ChannelError> {
        let target = format!("v3/rooms/{}", path(&[room, "event", to]));
        let answer = self.channel.api.call(&scope.session.token, Method::GET, &target, None).await;
        let mut question = match answer {
            Ok(question) => question,
            Err(failure) if matches!(failure.error, ChannelError::Refused(_)) => return Ok(None),
            Err(failure) => return Err(failure.error),
        };
        if question["sender"] != scope.session.user.as_str() {
            return Ok(None);
        }
        if question["type"] == "m.room.encrypted"
            && let Some(encryption) = &scope.encryption
        {
            match self.channel.decrypt(&scope.session, encryption, room, &question).await {
                Ok(plain) => question = plain,
                Err(_) => return Ok(None),
            }
        }
        let content = question.get("content").unwrap_or(&Value::Null);
        let relation = content.get("m.relates_to");
        let is_thread = relation.is_some_and(|relation| relation["rel_type"] == "m.thread");
        let thread = relation.filter(|_| is_thread).and_then(|relation| relation["event_id"].as_str());
        let thread = thread.map(str::to_owned);
        Ok(choices::chosen(content, key).map(|says| ChosenAnswer { says, thread }))
    }
}

/// The text of a chosen answer, and the thread of its question.
struct ChosenAnswer {
    says: String,
    thread: Option<String>,
}
