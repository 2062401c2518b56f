//! What is done now and then beside the messages: conversations that have run out leave their notes, old files go, and the
//! directory of chats follows what the platforms know.

use std::path::Path;
use std::time::Duration;

use hermes_types::{Envelope, Piece, Sender, SessionId, Timestamp};
use serde_json::Value;

use crate::gateway::Gateway;
use crate::session::Entry;

const FIRST: Duration = Duration::from_mins(1);
const EVERY: Duration = Duration::from_mins(5);
/// Files that came with messages are kept for a day.
const FILES_FOR: Duration = Duration::from_hours(24);
/// A conversation shorter than this holds nothing to keep.
const LEAST_MESSAGES: usize = 4;
const PRUNED_AT_ONCE: usize = 200;
/// In an entry: its notes were taken.
const FLUSHED: &str = "memory_flushed";

impl Gateway {
    /// Starts it; it ends with the gateway.
    pub fn keep_house(&self) {
        let gateway = self.clone();
        drop(self.tasks.spawn("housekeeping", async move {
            gateway.clock.sleep(FIRST).await;
            loop {
                gateway.take_notes_of_expired().await;
                gateway.remove_old_files();
                prune_settled(&gateway).await;
                gateway.write_directory().await;
                gateway.clock.sleep(EVERY).await;
            }
        }));
    }

    /// Conversations whose time is over, each once.
    async fn take_notes_of_expired(&self) {
        let entries = match self.index.all().await {
            Ok(entries) => entries,
            Err(error) => return tracing::warn!(%error, "expired conversations could not be looked for"),
        };
        let settings = self.live.now();
        for entry in entries.into_iter().filter(|entry| !is_flushed(entry)) {
            let Some(envelope) = envelope_of(&entry) else { continue };
            let policy = settings.reset_policy(&envelope.platform, envelope.place.kind);
            let over = self.is_over(&entry.session_key, &entry, &policy).is_some();
            if over && self.desk.busy(&entry.session_key).is_none() {
                self.take_notes(&envelope, entry).await;
            }
        }
    }

    async fn take_notes(&self, envelope: &Envelope, mut entry: Entry) {
        self.flush(envelope, &entry).await;
        entry.more.insert(FLUSHED.to_owned(), Value::Bool(true));
        if let Err(error) = self.index.note(&entry, self.clock.now()).await {
            tracing::warn!(%error, "that notes were taken could not be written down");
        }
    }

    /// Notes worth keeping are kept before a conversation is left behind; beside everything else.
    pub(crate) fn flush_in_the_background(&self, envelope: &Envelope, entry: &Entry) {
        if is_flushed(entry) {
            return;
        }
        let (gateway, envelope, entry) = (self.clone(), envelope.clone(), entry.clone());
        drop(
            self.tasks.spawn("noting what was learnt", async move { gateway.flush(&envelope, &entry).await }),
        );
    }

    async fn flush(&self, envelope: &Envelope, entry: &Entry) {
        if entry.session_id.starts_with("cron_") {
            return;
        }
        let Ok(agent) = self.agent_for(envelope) else { return };
        let session = SessionId::new(entry.session_id.clone());
        let Ok(taken) = agent.take_up(&session).await else { return };
        if taken.conversation.messages().len() >= LEAST_MESSAGES && agent.flush_due(&taken.conversation) {
            agent.flush_memories(&taken.conversation, self.tasks.cancel_token()).await;
        }
    }

    fn remove_old_files(&self) {
        let home = self.live.home();
        let oldest = self.clock.now().minus(FILES_FOR);
        for folder in [home.images_cache(), home.documents_cache()] {
            remove_older(&folder, oldest);
        }
    }
}

/// Removes messages and replies that were settled long ago, a few at a time, so that others get their turn in between.
async fn prune_settled(gateway: &Gateway) {
    let days = gateway.live.now().config.int("gateway.queue_retention_days").unwrap_or(30);
    let Some(days) = u64::try_from(days).ok().filter(|days| *days > 0) else { return };
    let before =
        gateway.clock.now().minus(Duration::from_hours(24) * u32::try_from(days).unwrap_or(u32::MAX));
    loop {
        match gateway.store.prune_settled(before, PRUNED_AT_ONCE).await {
            Ok(count) if count < PRUNED_AT_ONCE => return,
            Ok(_) => {}
            Err(error) => return tracing::warn!(%error, "old messages could not be removed"),
        }
    }
}

fn is_flushed(entry: &Entry) -> bool {
    entry.more.get(FLUSHED).and_then(Value::as_bool).unwrap_or(false)
}

/// A message as it would come from the chat of an entry.
fn envelope_of(entry: &Entry) -> Option<Envelope> {
    let origin = entry.origin.as_ref()?;
    Some(Envelope {
        platform: origin.platform.clone(),
        platform_key: String::new(),
        place: origin.place(),
        sender: Sender {
            user_id: origin.user_id.clone(),
            user_name: origin.user_name.clone(),
            ..Sender::default()
        },
        parts: vec![Piece::Text { text: String::new() }],
        message_id: None,
        reply_to: None,
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at: Timestamp(0.0),
    })
}

fn remove_older(folder: &Path, oldest: Timestamp) {
    let Ok(files) = std::fs::read_dir(folder) else { return };
    for file in files.flatten() {
        let changed =
            file.metadata().ok().filter(std::fs::Metadata::is_file).and_then(|found| found.modified().ok());
        let since = changed.and_then(|changed| changed.duration_since(std::time::UNIX_EPOCH).ok());
        if since.is_some_and(|since| Timestamp(since.as_secs_f64()) < oldest)
            && let Err(error) = std::fs::remove_file(file.path())
        {
            tracing::debug!(%error, "an old file could not be removed");
        }
    }
}
