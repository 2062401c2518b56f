//! Periodic maintenance: saves memories of expired conversations, deletes old files, and updates the directory of
//! chats from what the platforms report.

use std::path::Path;
use std::time::Duration;

use hermes_types::{ChatPart, Envelope, Sender, SessionId, Timestamp};
use serde_json::Value;

use crate::gateway::Gateway;
use crate::session::SessionEntry;

const FIRST_RUN_DELAY: Duration = Duration::from_mins(1);
const MAINTENANCE_INTERVAL: Duration = Duration::from_mins(5);
/// The time files of messages are kept.
const FILE_RETENTION: Duration = Duration::from_hours(24);
/// The number of messages below which a conversation has nothing worth keeping.
const MIN_MESSAGES: usize = 4;
const PRUNED_AT_ONCE: usize = 200;
/// The key of an entry that says that its memories were saved.
const FLUSHED: &str = "memory_flushed";

impl Gateway {
    /// Starts maintenance; it ends with the gateway.
    pub fn start_maintenance(&self) {
        let gateway = self.clone();
        drop(self.tasks.spawn("housekeeping", async move {
            gateway.clock.sleep(FIRST_RUN_DELAY).await;
            loop {
                gateway.flush_expired_sessions().await;
                gateway.remove_old_files();
                prune_settled(&gateway).await;
                gateway.write_directory().await;
                gateway.clock.sleep(MAINTENANCE_INTERVAL).await;
            }
        }));
    }

    /// Saves the memories of each expired conversation once.
    async fn flush_expired_sessions(&self) {
        let entries = match self.index.all().await {
            Ok(entries) => entries,
            Err(error) => return tracing::warn!(%error, "expired conversations could not be looked for"),
        };
        let settings = self.settings.current();
        for entry in entries.into_iter().filter(|entry| !is_flushed(entry)) {
            let Some(envelope) = envelope_of(&entry) else { continue };
            let policy = settings.reset_policy(&envelope.platform, envelope.place.kind);
            let over = self.is_over(&entry.session_key, &entry, &policy).is_some();
            if over && self.conversations.busy_state(&entry.session_key).is_none() {
                self.flush_expired_session(&envelope, entry).await;
            }
        }
    }

    async fn flush_expired_session(&self, envelope: &Envelope, mut entry: SessionEntry) {
        self.flush_memories(envelope, &entry).await;
        entry.more.insert(FLUSHED.to_owned(), Value::Bool(true));
        if let Err(error) = self.index.persist(&entry, self.clock.now()).await {
            tracing::warn!(%error, "that notes were taken could not be written down");
        }
    }

    /// Saves what is worth keeping before a conversation is replaced, in the background.
    pub(crate) fn flush_in_background(&self, envelope: &Envelope, entry: &SessionEntry) {
        if is_flushed(entry) {
            return;
        }
        let (gateway, envelope, entry) = (self.clone(), envelope.clone(), entry.clone());
        drop(self.tasks.spawn("noting what was learnt", async move {
            gateway.flush_memories(&envelope, &entry).await;
        }));
    }

    async fn flush_memories(&self, envelope: &Envelope, entry: &SessionEntry) {
        if entry.session_id.starts_with("cron_") {
            return;
        }
        let Ok(agent) = self.agent_for(envelope) else { return };
        let session = SessionId::new(entry.session_id.clone());
        let Ok(taken) = agent.load_conversation(&session).await else { return };
        if taken.conversation.messages().len() >= MIN_MESSAGES && agent.flush_due(&taken.conversation) {
            agent.flush_memories(&taken.conversation, self.tasks.cancel_token()).await;
        }
    }

    fn remove_old_files(&self) {
        let home = self.settings.home();
        let oldest = self.clock.now().minus(FILE_RETENTION);
        for folder in [home.images_cache(), home.documents_cache()] {
            remove_files_before(&folder, oldest);
        }
    }
}

/// Removes messages and replies that were settled long ago, a few at a time, so that other writes can run in
/// between.
async fn prune_settled(gateway: &Gateway) {
    let days = gateway.settings.current().config.int("gateway.queue_retention_days").unwrap_or(30);
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

fn is_flushed(entry: &SessionEntry) -> bool {
    entry.more.get(FLUSHED).and_then(Value::as_bool).unwrap_or(false)
}

/// Creates a message as it would come from the chat of an entry.
fn envelope_of(entry: &SessionEntry) -> Option<Envelope> {
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
        parts: vec![ChatPart::Text { text: String::new() }],
        message_id: None,
        reply_to: None,
        reply_to_text: None,
        skill: None,
        quiet_ms: 0,
        received_at: Timestamp(0.0),
    })
}

fn remove_files_before(folder: &Path, oldest: Timestamp) {
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
