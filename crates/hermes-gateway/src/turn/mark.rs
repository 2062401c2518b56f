//! Marks users' messages on the platform: as seen, then with their outcome.

use std::sync::Arc;

use hermes_store::WaitingMessage;
use hermes_task::TaskGroup;
use hermes_types::{Channel, ChatAddress, MessageStatus};
use tokio::sync::oneshot;

/// The marks of messages. When dropped without an outcome, the messages count as failed.
pub(super) struct MessageMarks(oneshot::Sender<MessageStatus>);

impl MessageMarks {
    /// Marks messages as seen, in a task.
    pub(super) fn show(
        rows: &[WaitingMessage],
        channel: Option<Arc<dyn Channel>>,
        tasks: &TaskGroup,
    ) -> Self {
        let (end, ended) = oneshot::channel();
        let messages: Vec<(ChatAddress, String)> = rows
            .iter()
            .filter_map(|row| Some((row.envelope.place.clone(), row.envelope.message_id.clone()?)))
            .collect();
        if let Some(channel) = channel {
            drop(tasks.spawn("marks", async move {
                for (place, message) in &messages {
                    channel.show_message_status(place, message, MessageStatus::Processing).await;
                }
                let mark = ended.await.unwrap_or(MessageStatus::Failed);
                for (place, message) in &messages {
                    channel.show_message_status(place, message, mark).await;
                }
            }));
        }
        Self(end)
    }

    pub(super) fn replace_with(self, mark: MessageStatus) {
        // The receiver is gone when the gateway has ended.
        let _ = self.0.send(mark);
    }
}
