//! Queues replies. Nothing leaves the gateway by another way.

use std::sync::Arc;

use hermes_store::{Error, Store};
use hermes_types::{Clock, OutboxId, OutgoingMessage};

use super::plan::{self, ReplyTarget};
use super::{Delivery, media};
use crate::ports::FileSendPolicy;

/// Plans replies for the platform they go to and writes them into the database. Clones share one outbox.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Outbox {
    store: Store,
    clock: Arc<dyn Clock>,
    delivery: Delivery,
    files: Arc<dyn FileSendPolicy>,
}

impl Outbox {
    pub(crate) fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        delivery: Delivery,
        files: Arc<dyn FileSendPolicy>,
    ) -> Self {
        Self { store, clock, delivery, files }
    }

    /// Queues a message for a chat of a platform.
    pub async fn enqueue(&self, reply: OutgoingMessage) -> Result<(), Error> {
        let conversation = format!("{}:{}", reply.platform, reply.place.chat_id);
        let platform = reply.platform.clone();
        self.store_parts(&conversation, self.split(reply)).await?;
        self.wake(&platform);
        Ok(())
    }

    /// Queues a message of a conversation. A failure is logged: nobody waits for the message.
    pub(crate) async fn say(&self, conversation: &str, reply: OutgoingMessage) {
        let platform = reply.platform.clone();
        for part in self.split(reply) {
            if let Err(error) = self.store.enqueue(conversation, part, self.clock.now()).await {
                tracing::error!(%error, key = conversation, "something could not be said");
            }
        }
        self.wake(&platform);
    }

    /// Queues planned messages and returns their rows.
    pub(crate) async fn store_parts(
        &self,
        conversation: &str,
        parts: Vec<OutgoingMessage>,
    ) -> Result<Vec<OutboxId>, Error> {
        let mut rows = Vec::with_capacity(parts.len());
        for part in parts {
            rows.push(self.store.enqueue(conversation, part, self.clock.now()).await?);
        }
        Ok(rows)
    }

    /// Splits a reply into messages the platform accepts.
    pub(crate) fn split(&self, reply: OutgoingMessage) -> Vec<OutgoingMessage> {
        let abilities = self.delivery.abilities(&reply.platform);
        plan::split_reply(reply, abilities)
    }

    /// Plans the messages of an answer: its text in parts, then the images and files it names. `key` is the prefix
    /// of their idempotency keys.
    pub(crate) fn plan(&self, target: ReplyTarget<'_>, text: &str, key: &str) -> Vec<OutgoingMessage> {
        let refuses = |path: &std::path::Path| media::is_secret(path) || self.files.refuses(path);
        plan::plan_replies(target, text, self.delivery.abilities(target.platform), key, &refuses)
    }

    /// Tells the delivery that a platform has new replies.
    pub(crate) fn wake(&self, platform: &str) {
        self.delivery.wake(platform);
    }
}
