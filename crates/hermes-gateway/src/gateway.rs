//! The gateway: what its parts share, and how it starts and stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermes_agent::Calendar;
use hermes_store::{Error, Store};
use hermes_task::TaskGroup;
use hermes_types::{Cancel, Channel, ChatPart, Clock, HolderId, OutgoingMessage};

use crate::active_conversations::ActiveConversations;
use crate::channel_supervisor::SupervisedChannels;
use crate::cron::JobSlots;
use crate::deliver::{self, Delivery};
use crate::pairing::PairingStore;
use crate::ports::GatewayPorts;
use crate::session::SessionIndex;
use crate::settings::LiveSettings;

/// A handle to the gateway. Clones refer to the same gateway.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Gateway {
    inner: Arc<GatewayParts>,
}

/// The parts of a gateway.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct GatewayParts {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub calendar: Calendar,
    pub settings: LiveSettings,
    pub ports: GatewayPorts,
    pub(crate) holder: HolderId,
    pub(crate) pairing: PairingStore,
    pub(crate) index: SessionIndex,
    pub(crate) conversations: ActiveConversations,
    pub(crate) delivery: Delivery,
    pub(crate) supervised: SupervisedChannels,
    /// The slots of the running scheduled jobs.
    pub(crate) job_slots: Arc<JobSlots>,
    pub(crate) tasks: TaskGroup,
    /// The tasks of turns; they end first: turns stop where they are and are resumed at the next start.
    pub(crate) turns: TaskGroup,
    /// Set when new messages are kept for the next process.
    draining: AtomicBool,
    /// Set when there has been more than one conversation.
    pub(crate) has_other_sessions: AtomicBool,
}

impl std::ops::Deref for Gateway {
    type Target = GatewayParts;

    fn deref(&self) -> &GatewayParts {
        &self.inner
    }
}

impl Gateway {
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        calendar: Calendar,
        live: LiveSettings,
        ports: GatewayPorts,
        cancel: &Cancel,
    ) -> Self {
        let home = live.home().clone();
        Self {
            inner: Arc::new(GatewayParts {
                index: SessionIndex::new(&home, store.clone(), calendar.clone()),
                pairing: PairingStore::new(&home),
                delivery: Delivery::new(store.clone(), clock.clone(), ports.services.clone(), live.clone()),
                supervised: SupervisedChannels::default(),
                conversations: ActiveConversations::default(),
                job_slots: Arc::default(),
                holder: HolderId::generate(),
                tasks: TaskGroup::new(cancel),
                turns: TaskGroup::new(cancel),
                draining: AtomicBool::new(false),
                has_other_sessions: AtomicBool::new(false),
                store,
                clock,
                calendar,
                settings: live,
                ports,
            }),
        }
    }

    /// Recovers what an earlier process left, before any platform is connected, so that a reply it was sending is
    /// not confused with one that is being sent now.
    pub async fn recover(&self) -> Result<(), Error> {
        self.index.import(self.clock.now()).await?;
        self.index.import_transcripts(self.clock.now()).await?;
        let unsure = self.store.recover_outbox().await?;
        if unsure > 0 {
            tracing::info!(
                count = unsure,
                "replies were being sent when the last process ended; they are sent again"
            );
        }
        Ok(())
    }

    /// Continues with waiting messages and cut-off turns, after the platforms are connected.
    pub async fn resume_work(&self) -> Result<(), Error> {
        for key in self.store.waiting_conversations().await? {
            if self.conversations.record_arrival(&key)
                == crate::active_conversations::ArrivalAction::StartWorker
            {
                self.start_worker(key);
            }
        }
        Ok(())
    }

    /// Connects a platform: replies queued for it are sent from now on.
    pub fn connect(&self, channel: Arc<dyn Channel>) {
        self.delivery.connect(channel, &self.tasks);
    }

    /// Disconnects a platform; replies queued for it wait.
    pub fn disconnect(&self, platform: &str) {
        self.delivery.disconnect(platform);
    }

    /// Makes the postponed replies of connected platforms due.
    pub async fn make_due(&self) {
        for platform in self.platforms() {
            self.delivery.make_due(&platform).await;
        }
    }

    /// Waits at most `patience` until the replies queued for connected platforms have been sent.
    pub async fn flush_outbox(&self, patience: Duration) {
        self.delivery.flush(patience).await;
    }

    /// Queues a message for a chat of a platform.
    pub async fn enqueue(&self, reply: OutgoingMessage) -> Result<(), Error> {
        let platform = reply.platform.clone();
        let conversation = format!("{platform}:{}", reply.place.chat_id);
        for part in deliver::split_reply(reply, self.delivery.abilities(&platform)) {
            self.store.enqueue(&conversation, part, self.clock.now()).await?;
        }
        self.delivery.wake(&platform);
        Ok(())
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
        let reply = OutgoingMessage {
            platform,
            place,
            pieces: vec![ChatPart::Text { text }],
            reply_to: None,
            choices: Vec::new(),
            draft: None,
            idempotency_key,
        };
        self.queue_reply(key, reply).await;
    }

    /// Returns the connected platforms.
    pub fn platforms(&self) -> Vec<String> {
        self.delivery.platforms()
    }

    /// Returns the number of turns that are running or about to.
    pub fn active_turns(&self) -> usize {
        self.conversations.len()
    }

    /// Stops new turns from starting: incoming messages are stored and wait for the next process.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Stops everything cleanly. Turns that still run are left to the next process, which resumes them; that does
    /// not count as a cut-off.
    pub async fn stop(&self) {
        self.abort().await;
        match self.store.release_turns().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "turns are left to the next start"),
            Err(error) => tracing::warn!(%error, "turns that run count as cut off at the next start"),
        }
        self.export_files().await;
    }

    /// Stops everything immediately, as the death of the process would.
    pub async fn abort(&self) {
        self.turns.shut_down().await;
        self.tasks.shut_down().await;
    }

    /// Updates the files for other programs; called periodically.
    pub async fn export_files(&self) {
        match self.index.export().await {
            Ok(true) => self.write_directory().await,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the list of chats was not brought up to date"),
        }
    }
}
