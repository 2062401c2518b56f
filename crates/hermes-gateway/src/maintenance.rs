//! Periodic maintenance: saves memories of expired conversations, deletes old files, and updates the directory of
//! chats from what the platforms report.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_store::Store;
use hermes_task::TaskGroup;
use hermes_types::{Clock, Timestamp};

use crate::active_conversations::ActiveConversations;
use crate::chat_sessions::ChatSessions;
use crate::deliver::ChatDirectory;
use crate::resources::GatewayResources;
use crate::session::SessionIndex;
use crate::settings::LiveSettings;

const FIRST_RUN_DELAY: Duration = Duration::from_mins(1);
const MAINTENANCE_INTERVAL: Duration = Duration::from_mins(5);
/// The time files of messages are kept.
const FILE_RETENTION: Duration = Duration::from_hours(24);
const PRUNED_AT_ONCE: usize = 200;

/// Work that is due from time to time.
pub(crate) struct Maintenance {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    index: Arc<SessionIndex>,
    sessions: Arc<ChatSessions>,
    conversations: Arc<ActiveConversations>,
    directory: ChatDirectory,
    tasks: Arc<TaskGroup>,
}

impl Maintenance {
    pub(crate) fn new(
        resources: &GatewayResources,
        index: Arc<SessionIndex>,
        sessions: Arc<ChatSessions>,
        conversations: Arc<ActiveConversations>,
        directory: ChatDirectory,
    ) -> Self {
        Self {
            store: resources.store.clone(),
            clock: resources.clock.clone(),
            settings: resources.settings.clone(),
            index,
            sessions,
            conversations,
            directory,
            tasks: resources.tasks.clone(),
        }
    }

    /// Starts maintenance; it ends with the gateway.
    pub(crate) fn start(self: &Arc<Self>) {
        let maintenance = Arc::clone(self);
        drop(self.tasks.spawn("housekeeping", async move {
            maintenance.clock.sleep(FIRST_RUN_DELAY).await;
            loop {
                maintenance.flush_expired_sessions().await;
                maintenance.remove_old_files();
                maintenance.prune_settled().await;
                maintenance.directory.write().await;
                maintenance.clock.sleep(MAINTENANCE_INTERVAL).await;
            }
        }));
    }

    /// Updates the files for other programs.
    pub(crate) async fn export_files(&self) {
        match self.index.export().await {
            Ok(true) => self.directory.write().await,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the list of chats could not be written"),
        }
    }

    /// Saves the memories of each expired conversation once.
    async fn flush_expired_sessions(&self) {
        let entries = match self.index.all().await {
            Ok(entries) => entries,
            Err(error) => return tracing::warn!(%error, "expired conversations could not be looked for"),
        };
        for entry in entries {
            if self.conversations.busy_state(&entry.session_key).is_none() {
                self.sessions.flush_expired(entry).await;
            }
        }
    }

    fn remove_old_files(&self) {
        let home = self.settings.home();
        let oldest = self.clock.now().minus(FILE_RETENTION);
        for folder in [home.images_cache(), home.documents_cache()] {
            remove_files_before(&folder, oldest);
        }
    }

    /// Removes messages and replies that were settled long ago, a few at a time, so that other writes can run in
    /// between.
    async fn prune_settled(&self) {
        let days = self.settings.current().config.int("gateway.queue_retention_days").unwrap_or(30);
        let Some(days) = u64::try_from(days).ok().filter(|days| *days > 0) else { return };
        let kept = Duration::from_hours(24) * u32::try_from(days).unwrap_or(u32::MAX);
        let before = self.clock.now().minus(kept);
        loop {
            match self.store.prune_settled(before, PRUNED_AT_ONCE).await {
                Ok(count) if count < PRUNED_AT_ONCE => return,
                Ok(_) => {}
                Err(error) => return tracing::warn!(%error, "old messages could not be removed"),
            }
        }
    }
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
