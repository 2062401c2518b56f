//! Sends to a chat by name, for the `send_message` tool and the shell.
//!
//! Messages go through the outbox like every answer: they are sent while a gateway runs, in this process or
//! another. If the chat has a conversation, the message is added to it.

use std::time::Duration;

use hermes_schedule::{DeliveryTarget, parse_targets};
use hermes_store::{NewMessage, OutboxState};
use hermes_types::{
    BoxFuture, ChannelError, DeliveryCertainty, DeliveryReceipt, Message, MessageSender, OutboxId,
    SendOutcome, SessionId, random_hex,
};
use serde_json::Value;

use crate::cron::destination::{ChatDestination, home_destination};
use crate::deliver::{self, DeliveryProblem};
use crate::gateway::Gateway;

const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl MessageSender for Gateway {
    fn deliver<'a>(
        &'a self,
        target: &'a str,
        text: &'a str,
        from: Option<&'a SessionId>,
    ) -> BoxFuture<'a, Result<SendOutcome, ChannelError>> {
        Box::pin(self.send_to_target(target, text, from))
    }

    fn targets(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            let text = std::fs::read_to_string(self.settings.home().channel_directory()).unwrap_or_default();
            let directory: Value = serde_json::from_str(&text).unwrap_or_default();
            let mut lines = Vec::new();
            for (platform, chats) in
                directory.get("platforms").and_then(Value::as_object).into_iter().flatten()
            {
                for chat in chats.as_array().into_iter().flatten() {
                    let field = |key: &str| chat.get(key).and_then(Value::as_str).unwrap_or_default();
                    lines.push(format!("{platform}:{} ({}, {})", field("id"), field("name"), field("type")));
                }
            }
            lines
        })
    }
}

impl Gateway {
    async fn send_to_target(
        &self,
        target: &str,
        text: &str,
        from: Option<&SessionId>,
    ) -> Result<SendOutcome, ChannelError> {
        let (address, note) = self.resolve_destination(target).await.map_err(ChannelError::Refused)?;
        let ChatDestination { platform, place } = address;
        let abilities = self.delivery.abilities(&platform);
        let key = format!("post:{}", random_hex(24));
        let replies = deliver::plan_replies_at(&platform, &place, text, abilities, &key);
        let later =
            |error: hermes_store::Error| ChannelError::Retry { after: None, reason: error.to_string() };
        let conversation = format!("{platform}:{}", place.chat_id);
        self.delivery.record_problem(&platform, None);
        let mut parts = Vec::new();
        for reply in replies {
            parts.push(self.store.enqueue(&conversation, reply, self.clock.now()).await.map_err(later)?);
        }
        self.delivery.wake(&platform);
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
            return Err(ChannelError::Refused("there is nothing to send".to_owned()));
        };
        let Some(end) = self.wait_for_receipt(*last, &platform).await? else {
            let note = self.delivery.problem(&platform).map(|trouble| trouble.message().to_owned()).or(note);
            let receipt =
                DeliveryReceipt { message_ids: Vec::new(), certainty: DeliveryCertainty::AtLeastOnce };
            return Ok(SendOutcome { platform, chat_id: place.chat_id, receipt, note, mirrored: false });
        };
        // A message is identified by its first part.
        let receipt = match self.store.outbox_state(*first).await {
            Ok(Some(OutboxState::Sent(receipt))) => receipt,
            _ => end,
        };
        let mirrored = self.append_to_conversation(&platform, &place.chat_id, text, from).await;
        Ok(SendOutcome { platform, chat_id: place.chat_id, receipt, note, mirrored })
    }

    /// Resolves a target; a platform alone means its home channel.
    async fn resolve_destination(&self, target: &str) -> Result<(ChatDestination, Option<String>), String> {
        let settings = self.settings.current();
        let found = parse_targets(target).into_iter().next();
        let (mut address, note) = match found {
            Some(DeliveryTarget::Platform(platform)) => {
                let home = home_destination(&settings, &platform)
                    .ok_or_else(|| format!("{platform} has no home channel; name a chat as {platform}:ID, or send /sethome in one"))?;
                let note = format!("Sent to {platform} home channel (chat_id: {})", home.place.chat_id);
                (home, Some(note))
            }
            Some(DeliveryTarget::Chat { platform, chat, thread }) => {
                let named = self.find_chat_by_name(&platform, &chat)?;
                let (chat, thread) =
                    named.map_or((chat, thread.clone()), |(chat, of_name)| (chat, thread.or(of_name)));
                (ChatDestination::new(&platform, chat, thread), None)
            }
            _ => {
                return Err(format!(
                    "`{target}` is no place to send to; write platform, platform:ID or platform:#name"
                ));
            }
        };
        self.fill_chat_metadata(&mut address).await;
        Ok((address, note))
    }

    /// Waits for the result of a send. Returns `None` when the message stays in the queue until a process sends
    /// it.
    async fn wait_for_receipt(
        &self,
        id: OutboxId,
        platform: &str,
    ) -> Result<Option<DeliveryReceipt>, ChannelError> {
        let began = self.clock.monotonic();
        loop {
            let mut settled = std::pin::pin!(self.delivery.settled.notified());
            // Enabled before the check, so that no wake-up is missed between the check and the wait.
            settled.as_mut().enable();
            match self.store.outbox_state(id).await {
                Ok(Some(OutboxState::Sent(receipt))) => return Ok(Some(receipt)),
                Ok(Some(OutboxState::Failed(reason))) => return Err(ChannelError::Refused(reason)),
                Ok(Some(OutboxState::Waiting) | None) => {}
                Err(error) => return Err(ChannelError::Retry { after: None, reason: error.to_string() }),
            }
            let lasting = matches!(self.delivery.problem(platform), Some(DeliveryProblem::Permanent(_)));
            if lasting || self.clock.monotonic().saturating_sub(began) > TIMEOUT {
                return Ok(None);
            }
            // Another process may be the sender, so the outbox is also polled.
            tokio::select! {
                () = settled => {}
                () = self.clock.sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Adds the message to the chat's conversation, so that an answer to it makes sense. Returns whether there
    /// was one.
    async fn append_to_conversation(
        &self,
        platform: &str,
        chat: &str,
        text: &str,
        from: Option<&SessionId>,
    ) -> bool {
        let Ok(entries) = self.index.all().await else { return false };
        let here = entries.into_iter().find(|entry| {
            entry.origin.as_ref().is_some_and(|origin| origin.platform == platform && origin.chat_id == chat)
        });
        let Some(entry) = here else { return false };
        let session = SessionId::new(entry.session_id);
        // A running turn holds the conversation exclusively.
        if !matches!(self.store.running_turn(&session).await, Ok(None)) {
            return false;
        }
        let source = self.source_of(from).await;
        let message = Message::assistant(format!("[Delivered from {source}] {text}"));
        self.store.append(&session, NewMessage::new(message, self.clock.now())).await.is_ok()
    }

    /// Returns where a message was written: the platform of the session that sent it, or the shell.
    async fn source_of(&self, from: Option<&SessionId>) -> String {
        let Some(session) = from else { return "cli".to_owned() };
        match self.store.session(session).await {
            Ok(Some(row)) => row.source,
            Ok(None) | Err(_) => "another session".to_owned(),
        }
    }
}
