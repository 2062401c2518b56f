//! Closes messages of the inbox together with their replies.
//!
//! Invariant: a message is closed in the same step in which its reply is queued.

use std::sync::Arc;

use hermes_store::{
    Error, FollowUpWork, InboxCloseReason, InboxInsertion, InboxSettlement, Store, WaitingMessage,
};
use hermes_types::{Clock, InboxId, OutgoingMessage};

use crate::deliver::{Outbox, ReplyTarget};

/// The messages that were accepted and wait for their end.
#[derive(Clone)]
pub(crate) struct Inbox {
    store: Store,
    clock: Arc<dyn Clock>,
    outbox: Outbox,
}

impl Inbox {
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>, outbox: Outbox) -> Self {
        Self { store, clock, outbox }
    }

    /// Returns the messages of a conversation that wait, the oldest first.
    pub(crate) async fn waiting(&self, key: &str) -> Result<Vec<WaitingMessage>, Error> {
        self.store.waiting(key).await
    }

    /// Closes a message with an answer, or without one.
    pub(crate) async fn answer(&self, row: &WaitingMessage, text: Option<String>) {
        let rows = std::slice::from_ref(row);
        let replies = text.map(|text| self.reply(row, text, format!("in:{}", row.id))).unwrap_or_default();
        if let Err(error) = self.close(rows, InboxCloseReason::Done, replies).await {
            tracing::error!(%error, "an answer could not be written down; it will be made again");
        }
    }

    /// Closes a message with an answer and stores the work it requested, in one step. Returns the work as the
    /// message that has to be dispatched now.
    pub(crate) async fn answer_with_work(
        &self,
        row: &WaitingMessage,
        text: String,
        work: FollowUpWork,
    ) -> Option<WaitingMessage> {
        let FollowUpWork { conversation, envelope } = work.clone();
        let reply = ReplyTarget::of(&row.envelope).reply(text, format!("in:{}", row.id));
        let settled = self.settlement(std::slice::from_ref(row), InboxCloseReason::Done, vec![reply]);
        let stored = self.store.settle_with_follow_up(settled, work).await;
        self.outbox.wake(&row.envelope.platform);
        match stored {
            Ok(InboxInsertion::New(id)) => Some(WaitingMessage { id, conversation, envelope, turn: None }),
            Ok(InboxInsertion::Duplicate(_)) => None,
            Err(error) => {
                tracing::error!(%error, "work in the background could not be written down");
                None
            }
        }
    }

    /// Closes messages with a text that says why they are not answered, or with none.
    pub(crate) async fn report(
        &self,
        rows: &[WaitingMessage],
        closing: InboxCloseReason,
        text: Option<String>,
    ) {
        let Some(last) = rows.last() else { return };
        let replies =
            text.map(|text| self.reply(last, text, format!("told:{}:0", last.id))).unwrap_or_default();
        if let Err(error) = self.close(rows, closing, replies).await {
            let key = &last.conversation;
            tracing::error!(%error, key, "an answer could not be written down; it will be made again");
        }
    }

    /// Closes messages of one conversation together with planned replies.
    pub(crate) async fn close(
        &self,
        rows: &[WaitingMessage],
        closing: InboxCloseReason,
        replies: Vec<OutgoingMessage>,
    ) -> Result<(), Error> {
        let Some(last) = rows.last() else { return Ok(()) };
        self.store.settle_inbox(self.settlement(rows, closing, replies)).await?;
        self.outbox.wake(&last.envelope.platform);
        Ok(())
    }

    /// Closes messages of one conversation together with planned replies, and stores the work that follows, in one step.
    pub(crate) async fn close_with_work(
        &self,
        rows: &[WaitingMessage],
        replies: Vec<OutgoingMessage>,
        work: FollowUpWork,
    ) -> Result<(), Error> {
        let Some(last) = rows.last() else { return Ok(()) };
        let settled = self.settlement(rows, InboxCloseReason::Done, replies);
        self.store.settle_with_follow_up(settled, work).await?;
        self.outbox.wake(&last.envelope.platform);
        Ok(())
    }

    /// Closes a message that nothing is done about.
    pub(crate) async fn drop_message(&self, row: InboxId, note: &str) -> Result<(), Error> {
        self.store.close_inbox(row, InboxCloseReason::Done, Some(note.to_owned()), self.clock.now()).await
    }

    /// Drops the messages that wait behind a stopped turn and came before `command`.
    pub(crate) async fn drop_before(&self, command: &WaitingMessage) {
        let waiting = match self.waiting(&command.conversation).await {
            Ok(waiting) => waiting,
            Err(error) => return tracing::warn!(%error, "waiting messages could not be dropped"),
        };
        for row in waiting.into_iter().filter(|row| row.id < command.id && row.turn.is_none()) {
            if let Err(error) = self.drop_message(row.id, "stopped by the user").await {
                tracing::warn!(%error, "a waiting message could not be dropped");
            }
        }
    }

    fn reply(&self, row: &WaitingMessage, text: String, key: String) -> Vec<OutgoingMessage> {
        self.outbox.split(ReplyTarget::of(&row.envelope).reply(text, key))
    }

    fn settlement(
        &self,
        rows: &[WaitingMessage],
        closing: InboxCloseReason,
        replies: Vec<OutgoingMessage>,
    ) -> InboxSettlement {
        InboxSettlement {
            inbox: rows.iter().map(|row| row.id).collect(),
            closing,
            note: None,
            conversation: rows.last().map(|row| row.conversation.clone()).unwrap_or_default(),
            replies,
            at: self.clock.now(),
        }
    }
}
