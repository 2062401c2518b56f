//! Sending from a process that is not the gateway.
//!
//! Messages go through the outbox all the same. While a gateway runs, it sends them; else a [`TemporaryDelivery`]
//! does, for as long as a command needs it. Invariant: one process of a home sends at a time.

use std::sync::Arc;
use std::time::Duration;

use hermes_gateway::process::{self, SendingLock};
use hermes_gateway::{ChatMessageSender, FileSendPolicy, LiveSettings};
use hermes_store::Store;
use hermes_types::{BoxFuture, Cancel, ChannelError, Clock, MessageSender, SendOutcome, SessionId};

use super::channels;
use super::message_sender::chat_sender;

/// Limits the wait for other queued messages once the command's own message has been sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends in place of a gateway that does not run, until it is dropped.
pub(crate) struct TemporaryDelivery {
    sender: ChatMessageSender,
    _right: SendingLock,
}

impl TemporaryDelivery {
    /// Starts sending queued messages, unless another process does.
    pub(crate) async fn start(sender: &ChatMessageSender) -> Option<Self> {
        let live = sender.settings();
        let right = SendingLock::try_acquire(live.home()).unwrap_or_else(|error| {
            tracing::warn!(%error, "nothing is sent from here");
            None
        })?;
        // Checked after the lock is acquired: a gateway that starts later waits for the lock.
        if process::running_pid(live.home()).is_some() {
            return None;
        }
        if let Err(error) = sender.store().recover_outbox().await {
            tracing::warn!(%error, "what an earlier process was sending is left alone");
        }
        channels::connect(sender.delivery(), live, sender.clock());
        // Messages an earlier process postponed may be deliverable now, and must not block later ones.
        sender.delivery().make_all_due().await;
        Some(Self { sender: sender.clone(), _right: right })
    }

    /// Waits until the due messages have been sent, and stops sending.
    pub(crate) async fn finish(self, patience: Duration) {
        self.sender.delivery().flush(patience).await;
    }
}

impl Drop for TemporaryDelivery {
    /// Disconnects the platforms before the lock is released.
    fn drop(&mut self) {
        for platform in self.sender.delivery().platforms() {
            self.sender.delivery().disconnect(&platform);
        }
    }
}

/// Sends messages to chats for a command or a terminal chat.
pub(crate) struct OutboxMessageSender {
    sender: ChatMessageSender,
}

impl OutboxMessageSender {
    /// Creates a sender. Nothing is read or sent before the first message.
    pub(crate) fn new(
        live: LiveSettings,
        store: Store,
        clock: Arc<dyn Clock>,
        files: Arc<dyn FileSendPolicy>,
    ) -> Self {
        Self { sender: chat_sender(live, store, clock, files, &Cancel::new()) }
    }

    async fn send_message(
        &self,
        target: &str,
        text: &str,
        from: Option<&SessionId>,
    ) -> Result<SendOutcome, ChannelError> {
        let Some(stand_in) = TemporaryDelivery::start(&self.sender).await else {
            return self.sender.deliver(target, text, from).await;
        };
        let platform = target.split(':').next().unwrap_or_default().trim().to_lowercase();
        let sent = if self.sender.delivery().platforms().contains(&platform) {
            self.sender.deliver(target, text, from).await
        } else {
            Err(ChannelError::Refused(format!(
                "{platform} is not set up, so nothing was sent; `hermes gateway setup` does it"
            )))
        };
        stand_in.finish(FLUSH_TIMEOUT).await;
        sent
    }
}

impl MessageSender for OutboxMessageSender {
    fn deliver<'a>(
        &'a self,
        target: &'a str,
        text: &'a str,
        from: Option<&'a SessionId>,
    ) -> BoxFuture<'a, Result<SendOutcome, ChannelError>> {
        Box::pin(self.send_message(target, text, from))
    }

    fn targets(&self) -> BoxFuture<'_, Vec<String>> {
        self.sender.targets()
    }
}
