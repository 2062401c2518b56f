//! Marks users' messages on the platform: as seen, then with their outcome.

use hermes_store::WaitingMessage;
use hermes_types::{ChatAddress, MessageStatus};
use tokio::sync::oneshot;

use crate::gateway::Gateway;

/// The marks of messages. When dropped without an outcome, the messages count as failed.
pub(super) struct MessageMarks(oneshot::Sender<MessageStatus>);

impl MessageMarks {
    pub(super) fn replace_with(self, mark: MessageStatus) {
        // The receiver is gone when the gateway has ended.
        let _ = self.0.send(mark);
    }
}

impl Gateway {
    /// Marks messages as seen in the background; the turn never waits for it.
    pub(super) fn mark_seen(&self, rows: &[WaitingMessage]) -> MessageMarks {
        let (end, ended) = oneshot::channel();
        let channel = rows.first().and_then(|row| self.delivery.channel(&row.envelope.platform));
        let messages: Vec<(ChatAddress, String)> = rows
            .iter()
            .filter_map(|row| Some((row.envelope.place.clone(), row.envelope.message_id.clone()?)))
            .collect();
        if let Some(channel) = channel {
            drop(self.tasks.spawn("marks", async move {
                for (place, message) in &messages {
                    channel.show_message_status(place, message, MessageStatus::Processing).await;
                }
                let mark = ended.await.unwrap_or(MessageStatus::Failed);
                for (place, message) in &messages {
                    channel.show_message_status(place, message, mark).await;
                }
            }));
        }
        MessageMarks(end)
    }
}
