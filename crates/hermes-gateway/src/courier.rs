//! Sending to a chat by name, for the `send_message` tool and the shell.
//!
//! What is sent goes through the outbox like every answer: it leaves when the gateway runs, this process or another. A
//! chat that has a conversation finds the message in it.

use std::time::Duration;

use hermes_schedule::{Target, targets};
use hermes_store::{NewMessage, OutboxState};
use hermes_types::{
    BoxFuture, Certainty, ChannelError, Courier, Dispatch, Message, OutboxId, Receipt, SessionId, random_hex,
};
use serde_json::Value;

use crate::cron::address::{Address, home};
use crate::deliver::{self, Trouble};
use crate::gateway::Gateway;

const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Courier for Gateway {
    fn deliver<'a>(
        &'a self,
        target: &'a str,
        text: &'a str,
        from: Option<&'a SessionId>,
    ) -> BoxFuture<'a, Result<Dispatch, ChannelError>> {
        Box::pin(self.post(target, text, from))
    }

    fn targets(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            let text = std::fs::read_to_string(self.live.home().channel_directory()).unwrap_or_default();
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
    async fn post(
        &self,
        target: &str,
        text: &str,
        from: Option<&SessionId>,
    ) -> Result<Dispatch, ChannelError> {
        let (address, note) = self.address_of(target).await.map_err(ChannelError::Refused)?;
        let Address { platform, place } = address;
        let abilities = self.delivery.abilities(&platform);
        let key = format!("post:{}", random_hex(24));
        let replies = deliver::plan_at(&platform, &place, text, abilities, &key);
        let later =
            |error: hermes_store::Error| ChannelError::Retry { after: None, reason: error.to_string() };
        let conversation = format!("{platform}:{}", place.chat_id);
        self.delivery.note_trouble(&platform, None);
        let mut parts = Vec::new();
        for reply in replies {
            parts.push(self.store.enqueue(&conversation, reply, self.clock.now()).await.map_err(later)?);
        }
        self.delivery.wake(&platform);
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
            return Err(ChannelError::Refused("there is nothing to send".to_owned()));
        };
        let Some(end) = self.wait_for(*last, &platform).await? else {
            let note = self.delivery.trouble(&platform).map(|trouble| trouble.words().to_owned()).or(note);
            let receipt = Receipt { message_ids: Vec::new(), certainty: Certainty::AtLeastOnce };
            return Ok(Dispatch { platform, chat_id: place.chat_id, receipt, note, mirrored: false });
        };
        // A message is known by its first part.
        let receipt = match self.store.outbox_state(*first).await {
            Ok(Some(OutboxState::Sent(receipt))) => receipt,
            _ => end,
        };
        let mirrored = self.mirror(&platform, &place.chat_id, text, from).await;
        Ok(Dispatch { platform, chat_id: place.chat_id, receipt, note, mirrored })
    }

    /// A platform alone is its home channel.
    async fn address_of(&self, target: &str) -> Result<(Address, Option<String>), String> {
        let settings = self.live.now();
        let found = targets(target).into_iter().next();
        let (mut address, note) = match found {
            Some(Target::Platform(platform)) => {
                let home = home(&settings, &platform)
                    .ok_or_else(|| format!("{platform} has no home channel; name a chat as {platform}:ID, or send /sethome in one"))?;
                let note = format!("Sent to {platform} home channel (chat_id: {})", home.place.chat_id);
                (home, Some(note))
            }
            Some(Target::Chat { platform, chat, thread }) => {
                let named = self.by_name(&platform, &chat)?;
                let (chat, thread) =
                    named.map_or((chat, thread.clone()), |(chat, of_name)| (chat, thread.or(of_name)));
                (Address::new(&platform, chat, thread), None)
            }
            _ => {
                return Err(format!(
                    "`{target}` is no place to send to; write platform, platform:ID or platform:#name"
                ));
            }
        };
        self.know_better(&mut address).await;
        Ok((address, note))
    }

    /// What became of it. Nothing, when it stays in the queue and leaves when somebody takes it.
    async fn wait_for(&self, id: OutboxId, platform: &str) -> Result<Option<Receipt>, ChannelError> {
        let began = self.clock.monotonic();
        loop {
            let mut settled = std::pin::pin!(self.delivery.settled.notified());
            // Before looking, so that nothing is missed between the look and the wait.
            settled.as_mut().enable();
            match self.store.outbox_state(id).await {
                Ok(Some(OutboxState::Sent(receipt))) => return Ok(Some(receipt)),
                Ok(Some(OutboxState::Failed(reason))) => return Err(ChannelError::Refused(reason)),
                Ok(Some(OutboxState::Waiting) | None) => {}
                Err(error) => return Err(ChannelError::Retry { after: None, reason: error.to_string() }),
            }
            let lasting = matches!(self.delivery.trouble(platform), Some(Trouble::Lasting(_)));
            if lasting || self.clock.monotonic().saturating_sub(began) > PATIENCE {
                return Ok(None);
            }
            // Another process may be the one that sends.
            tokio::select! {
                () = settled => {}
                () = self.clock.sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Writes what was sent into the chat's conversation, so that an answer to it makes sense. Says whether there was one.
    async fn mirror(&self, platform: &str, chat: &str, text: &str, from: Option<&SessionId>) -> bool {
        let Ok(entries) = self.index.all().await else { return false };
        let here = entries.into_iter().find(|entry| {
            entry.origin.as_ref().is_some_and(|origin| origin.platform == platform && origin.chat_id == chat)
        });
        let Some(entry) = here else { return false };
        let session = SessionId::new(entry.session_id);
        // A turn that runs there has the conversation to itself.
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
