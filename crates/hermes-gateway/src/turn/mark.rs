//! What people see at their own messages: that one was seen, and what became of it.

use hermes_store::Waiting;
use hermes_types::{Mark, Place};
use tokio::sync::oneshot;

use crate::gateway::Gateway;

/// Marks that are set. Dropped without a word, the messages came to nothing.
pub(super) struct Marks(oneshot::Sender<Mark>);

impl Marks {
    pub(super) fn end(self, mark: Mark) {
        // Whoever set them is gone with the gateway.
        let _ = self.0.send(mark);
    }
}

impl Gateway {
    /// Marks messages as seen; beside the turn, which never waits for it.
    pub(super) fn mark_seen(&self, rows: &[Waiting]) -> Marks {
        let (end, ended) = oneshot::channel();
        let channel = rows.first().and_then(|row| self.delivery.channel(&row.envelope.platform));
        let messages: Vec<(Place, String)> = rows
            .iter()
            .filter_map(|row| Some((row.envelope.place.clone(), row.envelope.message_id.clone()?)))
            .collect();
        if let Some(channel) = channel {
            drop(self.tasks.spawn("marks", async move {
                for (place, message) in &messages {
                    channel.mark(place, message, Mark::Seen).await;
                }
                let mark = ended.await.unwrap_or(Mark::Failed);
                for (place, message) in &messages {
                    channel.mark(place, message, mark).await;
                }
            }));
        }
        Marks(end)
    }
}
