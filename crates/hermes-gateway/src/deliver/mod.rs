//! Delivers replies from the outbox to the platform, once and in order.
//!
//! `plan` makes messages of an answer, `outbox` writes them down, `queue` sends them; `destination` and `directory`
//! say where chats are. There is one task per connected platform. Invariants: nothing is sent that is not in the
//! outbox; a delivered reply is marked before the next one of the same conversation is claimed; a failed one is
//! retried until it is too old.

mod chat_names;
mod destination;
mod directory;
mod media;
mod outbox;
mod picture;
mod plan;
mod queue;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_store::Store;
use hermes_task::TaskGroup;
use hermes_types::{Cancel, Channel, ChannelCapabilities, Clock, Timestamp};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::ports::PlatformCatalog;
use crate::settings::LiveSettings;
use queue::QueueRunner;

pub(crate) use destination::{ChatDestination, ChatDestinations};
pub(crate) use directory::ChatDirectory;
pub(crate) use media::attach_tool_files;
pub use media::pictures_of_answer;
pub use outbox::Outbox;
pub(crate) use plan::{ReplyTarget, replace_drafts};

/// The interval at which [`Delivery::flush`] checks.
const FLUSH_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The connected platforms and their queues. Clones refer to the same queues.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Delivery {
    store: Store,
    clock: Arc<dyn Clock>,
    settings: LiveSettings,
    catalog: Arc<dyn PlatformCatalog>,
    queues: Arc<PlatformQueues>,
    tasks: Arc<TaskGroup>,
}

/// The queues by platform.
#[derive(Default)]
struct PlatformQueues {
    by_platform: Mutex<HashMap<String, PlatformQueue>>,
    /// Signals that a send succeeded or failed, or that nothing is being sent any more.
    settled: Notify,
}

struct PlatformQueue {
    channel: Arc<dyn Channel>,
    wake: Arc<Notify>,
    cancel: Cancel,
    /// The number of replies that are being sent or claimed.
    in_flight: Arc<AtomicUsize>,
    problem: Option<DeliveryProblem>,
}

/// The reason why replies for a platform are not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeliveryProblem {
    Temporary(String),
    /// A problem that lasts until somebody fixes it.
    Permanent(String),
}

impl DeliveryProblem {
    pub(crate) fn message(&self) -> &str {
        let (Self::Temporary(reason) | Self::Permanent(reason)) = self;
        reason
    }
}

impl Delivery {
    pub(crate) fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        settings: LiveSettings,
        catalog: Arc<dyn PlatformCatalog>,
        cancel: &Cancel,
    ) -> Self {
        let tasks = Arc::new(TaskGroup::new(cancel));
        Self { store, clock, settings, catalog, queues: Arc::default(), tasks }
    }

    /// Connects a platform: replies queued for it are sent from now on.
    pub fn connect(&self, channel: Arc<dyn Channel>) {
        let platform = channel.platform().to_owned();
        let (wake, cancel) = (Arc::new(Notify::new()), self.tasks.cancel_token().child_token());
        let in_flight = Arc::new(AtomicUsize::new(1));
        let queue = PlatformQueue {
            channel: channel.clone(),
            wake: wake.clone(),
            cancel: cancel.clone(),
            in_flight: in_flight.clone(),
            problem: None,
        };
        if let Some(old) = self.queues.lock().insert(platform.clone(), queue) {
            old.cancel.cancel();
        }
        let runner = QueueRunner {
            store: self.store.clone(),
            clock: self.clock.clone(),
            settings: self.settings.clone(),
            queues: self.queues.clone(),
            channel,
            wake,
            in_flight,
        };
        drop(self.tasks.spawn(format!("delivery to {platform}"), async move {
            tokio::select! {
                () = runner.run() => {}
                () = cancel.cancelled() => {}
            }
        }));
    }

    /// Disconnects a platform; replies queued for it wait.
    pub fn disconnect(&self, platform: &str) {
        if let Some(queue) = self.queues.lock().remove(platform) {
            queue.cancel.cancel();
        }
    }

    /// Returns the connected platforms.
    pub fn platforms(&self) -> Vec<String> {
        let mut names: Vec<String> = self.queues.lock().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Tells whether the user has set up a platform, connected or not.
    pub(crate) fn is_set_up(&self, platform: &str) -> bool {
        self.channel(platform).is_some() || self.catalog.is_set_up(platform)
    }

    pub(crate) fn channel(&self, platform: &str) -> Option<Arc<dyn Channel>> {
        self.queues.lock().get(platform).map(|queue| queue.channel.clone())
    }

    /// Returns the capabilities of a platform: from its channel or, where it is not connected, from the program.
    pub(crate) fn abilities(&self, platform: &str) -> ChannelCapabilities {
        let own = self.channel(platform).map(|channel| channel.capabilities());
        own.or_else(|| self.catalog.abilities(platform)).unwrap_or_default()
    }

    /// Returns the problem that kept the last reply from a platform.
    pub(crate) fn problem(&self, platform: &str) -> Option<DeliveryProblem> {
        self.queues.lock().get(platform).and_then(|queue| queue.problem.clone())
    }

    pub(crate) fn record_problem(&self, platform: &str, problem: Option<DeliveryProblem>) {
        self.queues.record_problem(platform, problem);
    }

    /// Waits for the next change in what is being sent. The future counts from when it is made.
    pub(crate) fn settled(&self) -> Notified<'_> {
        self.queues.settled.notified()
    }

    /// Wakes a platform's queue because the outbox has new replies.
    pub(crate) fn wake(&self, platform: &str) {
        if let Some(queue) = self.queues.lock().get(platform) {
            queue.wake.notify_one();
        }
    }

    /// Makes the postponed replies of connected platforms due.
    pub async fn make_all_due(&self) {
        for platform in self.platforms() {
            self.make_due(&platform).await;
        }
    }

    /// Makes postponed replies due because the platform is reachable again.
    pub(crate) async fn make_due(&self, platform: &str) {
        if let Err(error) = self.store.make_due(platform, self.clock.now()).await {
            tracing::warn!(%error, platform, "what was put off stays put off");
        }
        self.wake(platform);
    }

    /// Waits until everything that becomes due within `patience` has been sent, at most that long.
    pub async fn flush(&self, patience: Duration) {
        let end = self.clock.now().plus(patience);
        loop {
            let mut settled = std::pin::pin!(self.settled());
            // Enabled before the check, so that no wake-up is missed between the check and the wait.
            settled.as_mut().enable();
            if self.is_flushed(end).await || self.clock.now() >= end {
                return;
            }
            tokio::select! {
                () = settled => {}
                () = self.clock.sleep(FLUSH_POLL_INTERVAL) => {}
            }
        }
    }

    /// Tells whether nothing is being sent and nothing is due before that time.
    async fn is_flushed(&self, end: Timestamp) -> bool {
        for platform in self.platforms() {
            let busy = self
                .queues
                .lock()
                .get(&platform)
                .is_some_and(|queue| queue.in_flight.load(Ordering::SeqCst) > 0);
            let next = self.store.next_due(&platform).await;
            if busy || matches!(next, Ok(Some(at)) if at < end) {
                return false;
            }
        }
        true
    }

    /// Stops sending and waits until every queue has ended.
    pub(crate) async fn stop(&self) {
        self.tasks.shut_down().await;
    }
}

impl PlatformQueues {
    fn record_problem(&self, platform: &str, problem: Option<DeliveryProblem>) {
        if let Some(queue) = self.lock().get_mut(platform) {
            queue.problem = problem;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PlatformQueue>> {
        self.by_platform.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
