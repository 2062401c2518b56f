//! Sends to a chat by name, for the `send_message` tool and the shell.
//!
//! Messages go through the outbox like every answer: they are sent while a gateway runs, in this process or
//! another. If the chat has a conversation, the message is added to it.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::Calendar;
use hermes_store::{NewMessage, OutboxState, Store};
use hermes_types::{
    BoxFuture, Cancel, ChannelError, Clock, DeliveryCertainty, DeliveryReceipt, Message, MessageSender,
    OutboxId, SendOutcome, SessionId, random_hex,
};

use crate::deliver::{
    ChatDestination, ChatDestinations, ChatDirectory, Delivery, DeliveryProblem, Outbox, ReplyTarget,
};
use crate::ports::{FileSendPolicy, PlatformCatalog};
use crate::session::SessionIndex;
use crate::settings::LiveSettings;

const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The outgoing half of a gateway: platforms, outbox and addresses. It works alone where no turns are run. Clones
/// refer to the same parts.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct ChatMessageSender {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    index: Arc<SessionIndex>,
    delivery: Delivery,
    outbox: Outbox,
    directory: ChatDirectory,
    destinations: ChatDestinations,
}

/// The ports through which messages leave.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct DeliveryPorts {
    pub platforms: Arc<dyn PlatformCatalog>,
    pub files: Arc<dyn FileSendPolicy>,
}

impl ChatMessageSender {
    /// Creates a sender without platforms. Nothing is read or sent before the first message.
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        calendar: Calendar,
        settings: LiveSettings,
        ports: DeliveryPorts,
        cancel: &Cancel,
    ) -> Self {
        let DeliveryPorts { platforms, files } = ports;
        let home = settings.home().clone();
        let index = Arc::new(SessionIndex::new(&home, store.clone(), calendar));
        let delivery = Delivery::new(store.clone(), clock.clone(), settings.clone(), platforms, cancel);
        let outbox = Outbox::new(store.clone(), clock.clone(), delivery.clone(), files);
        let directory = ChatDirectory::new(index.clone(), delivery.clone(), clock.clone(), home);
        let destinations = ChatDestinations::new(settings.clone(), directory.clone());
        Self { store, clock, settings, index, delivery, outbox, directory, destinations }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub fn settings(&self) -> &LiveSettings {
        &self.settings
    }

    /// Returns the connected platforms and their queues.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    pub(crate) fn index(&self) -> &Arc<SessionIndex> {
        &self.index
    }

    pub(crate) fn directory(&self) -> &ChatDirectory {
        &self.directory
    }

    pub(crate) fn destinations(&self) -> &ChatDestinations {
        &self.destinations
    }

    /// Sends a text to the chat of a conversation. Does nothing for a conversation without a chat.
    pub async fn notify_conversation(&self, key: &str, text: String, idempotency_key: String) {
        let found = match self.index.find(key).await {
            Ok(entry) => entry.and_then(|entry| entry.origin),
            Err(error) => return tracing::warn!(%error, key, "a chat could not be told something"),
        };
        let (platform, place) = match found {
            Some(origin) => (origin.platform.clone(), origin.place()),
            // Background work has no chat of its own: it replies in the chat it was requested in.
            None => match self.store.newest_envelope(key).await {
                Ok(Some(envelope)) => (envelope.platform, envelope.place),
                Ok(None) => return,
                Err(error) => return tracing::warn!(%error, key, "a chat could not be told something"),
            },
        };
        self.outbox.say(key, ReplyTarget::chat(&platform, &place).reply(text, idempotency_key)).await;
    }

    async fn send_to_target(
        &self,
        target: &str,
        text: &str,
        from: Option<&SessionId>,
    ) -> Result<SendOutcome, ChannelError> {
        let (address, note) = self.destinations.resolve(target).await.map_err(ChannelError::Refused)?;
        let ChatDestination { platform, place } = address;
        let key = format!("post:{}", random_hex(24));
        let replies = self.outbox.plan(ReplyTarget::chat(&platform, &place), text, &key);
        let later =
            |error: hermes_store::Error| ChannelError::Retry { after: None, reason: error.to_string() };
        let conversation = format!("{platform}:{}", place.chat_id);
        self.delivery.record_problem(&platform, None);
        let parts = self.outbox.store_parts(&conversation, replies).await.map_err(later)?;
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

    /// Waits for the result of a send. Returns `None` when the message stays in the queue until a process sends
    /// it.
    async fn wait_for_receipt(
        &self,
        id: OutboxId,
        platform: &str,
    ) -> Result<Option<DeliveryReceipt>, ChannelError> {
        let began = self.clock.monotonic();
        loop {
            let mut settled = std::pin::pin!(self.delivery.settled());
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

impl MessageSender for ChatMessageSender {
    fn deliver<'a>(
        &'a self,
        target: &'a str,
        text: &'a str,
        from: Option<&'a SessionId>,
    ) -> BoxFuture<'a, Result<SendOutcome, ChannelError>> {
        Box::pin(self.send_to_target(target, text, from))
    }

    fn targets(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move { self.directory.list_lines() })
    }
}
