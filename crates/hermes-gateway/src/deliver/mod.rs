//! Delivers replies from the outbox to the platform, once and in order.
//!
//! There is one task per connected platform. Invariants: nothing is sent that is not in the outbox; a delivered
//! reply is marked before the next one of the same conversation is claimed; a failed one is retried until it is
//! too old.

mod media;
mod picture;
mod plan;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hermes_store::{DueReply, EarlierSend, Error, Store};
use hermes_task::TaskGroup;
use hermes_types::{
    Cancel, Channel, ChannelCapabilities, ChannelError, ChatPart, Clock, DeliveryCertainty, DeliveryReceipt,
    Timestamp,
};
use tokio::sync::Notify;

use crate::ports::Services;
use crate::settings::LiveSettings;

pub(crate) use media::attach_tool_files;
pub use media::refuse_files_by;
pub(crate) use plan::{OutgoingAnswer, plan_replies, plan_replies_at, split_reply};

/// The most conversations of one platform that are sent to at a time.
const MAX_CONCURRENT_SENDS: usize = 32;
const INITIAL_DELAY: Duration = Duration::from_secs(1);
/// The longest delay between the first attempts, because a user is waiting; later delays go up to [`MAX_DELAY`].
const MAX_QUICK_DELAY: Duration = Duration::from_secs(15);
const QUICK_ATTEMPTS: u32 = 20;
const MAX_DELAY: Duration = Duration::from_mins(1);
/// The delay before a platform that needs a new token is tried again.
const REAUTHORIZATION_DELAY: Duration = Duration::from_mins(5);
/// The interval at which the outbox is checked for replies of other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The interval at which [`Delivery::flush`] checks.
const FLUSH_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The age after which a reply is no longer sent.
const MAX_REPLY_AGE: Duration = Duration::from_hours(24);
const LONGEST_PLAIN: usize = 3500;
const PLAIN_MARK: &str = "(Response formatting failed, plain text:)";

/// The platforms and their queues.
#[derive(Clone)]
pub(crate) struct Delivery {
    store: Store,
    clock: Arc<dyn Clock>,
    services: Arc<dyn Services>,
    live: LiveSettings,
    queues: Arc<Mutex<HashMap<String, PlatformQueue>>>,
    /// Signals that a send succeeded or failed, or that nothing is being sent any more.
    pub(crate) settled: Arc<Notify>,
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
        services: Arc<dyn Services>,
        live: LiveSettings,
    ) -> Self {
        Self { store, clock, services, live, queues: Arc::default(), settled: Arc::default() }
    }

    pub(crate) fn connect(&self, channel: Arc<dyn Channel>, tasks: &TaskGroup) {
        let platform = channel.platform().to_owned();
        let (wake, cancel) = (Arc::new(Notify::new()), tasks.cancel_token().child_token());
        let count = Arc::new(AtomicUsize::new(1));
        let line = PlatformQueue {
            channel: channel.clone(),
            wake: wake.clone(),
            cancel: cancel.clone(),
            in_flight: count.clone(),
            problem: None,
        };
        if let Some(old) = self.lock().insert(platform.clone(), line) {
            old.cancel.cancel();
        }
        let delivery = self.clone();
        drop(tasks.spawn(format!("delivery to {platform}"), async move {
            tokio::select! {
                () = delivery.run_queue(&platform, channel, &wake, &count) => {}
                () = cancel.cancelled() => {}
            }
        }));
    }

    pub(crate) fn disconnect(&self, platform: &str) {
        if let Some(line) = self.lock().remove(platform) {
            line.cancel.cancel();
        }
    }

    pub(crate) fn platforms(&self) -> Vec<String> {
        let mut names: Vec<String> = self.lock().keys().cloned().collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn channel(&self, platform: &str) -> Option<Arc<dyn Channel>> {
        self.lock().get(platform).map(|line| line.channel.clone())
    }

    /// Returns the capabilities of a platform: from its channel or, where it is not connected, from the program.
    pub(crate) fn abilities(&self, platform: &str) -> ChannelCapabilities {
        let own = self.channel(platform).map(|channel| channel.capabilities());
        own.or_else(|| self.services.abilities(platform)).unwrap_or_default()
    }

    /// Returns the problem that kept the last reply from a platform.
    pub(crate) fn problem(&self, platform: &str) -> Option<DeliveryProblem> {
        self.lock().get(platform).and_then(|line| line.problem.clone())
    }

    pub(crate) fn record_problem(&self, platform: &str, trouble: Option<DeliveryProblem>) {
        if let Some(line) = self.lock().get_mut(platform) {
            line.problem = trouble;
        }
    }

    /// Wakes a platform's queue because the outbox has new replies.
    pub(crate) fn wake(&self, platform: &str) {
        if let Some(line) = self.lock().get(platform) {
            line.wake.notify_one();
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
    pub(crate) async fn flush(&self, patience: Duration) {
        let end = self.clock.now().plus(patience);
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
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
            let busy =
                self.lock().get(&platform).is_some_and(|line| line.in_flight.load(Ordering::SeqCst) > 0);
            let next = self.store.next_due(&platform).await;
            if busy || matches!(next, Ok(Some(at)) if at < end) {
                return false;
            }
        }
        true
    }

    async fn run_queue(&self, platform: &str, channel: Arc<dyn Channel>, wake: &Notify, count: &AtomicUsize) {
        let mut under_way = FuturesUnordered::new();
        loop {
            // Counted before they are claimed: a flush must not check in between.
            count.store(under_way.len() + 1, Ordering::SeqCst);
            match self
                .store
                .claim_due(platform, self.clock.now(), MAX_CONCURRENT_SENDS - under_way.len())
                .await
            {
                Ok(due) => under_way.extend(due.into_iter().map(|due| self.send(&*channel, due))),
                Err(error) => tracing::error!(%error, platform, "the outbox cannot be read; trying again"),
            }
            count.store(under_way.len(), Ordering::SeqCst);
            if under_way.is_empty() {
                self.settled.notify_waiters();
            }
            let next = self.until_next(platform).await;
            tokio::select! {
                Some(()) = under_way.next() => {}
                () = wake.notified(), if under_way.len() < MAX_CONCURRENT_SENDS => {}
                () = self.clock.sleep(next), if under_way.len() < MAX_CONCURRENT_SENDS => {}
            }
        }
    }

    /// Returns the time until the next postponed reply is due.
    async fn until_next(&self, platform: &str) -> Duration {
        match self.store.next_due(platform).await {
            Ok(Some(at)) => at.since(self.clock.now()).clamp(Duration::from_millis(50), POLL_INTERVAL),
            Ok(None) => POLL_INTERVAL,
            Err(_) => INITIAL_DELAY,
        }
    }

    async fn send(&self, channel: &dyn Channel, due: DueReply) {
        let (id, platform) = (due.id, channel.platform());
        if due.reply.pieces.iter().any(|piece| !matches!(piece, ChatPart::Text { .. }))
            && let Some((least, most)) = self.live.current().human_delay
        {
            self.clock.sleep(between(least, most)).await;
        }
        let sent = match (&due.reply.draft, due.reply.pieces.first()) {
            (Some(draft), Some(ChatPart::Text { text })) => {
                match channel.edit(&due.reply.place, draft, text).await {
                    Ok(()) => Ok(DeliveryReceipt {
                        message_ids: vec![draft.clone()],
                        certainty: DeliveryCertainty::Once,
                    }),
                    // The message may be deleted or too old to be edited; then a new one is sent.
                    Err(ChannelError::Refused(_)) => channel.send(&due.reply).await,
                    Err(error) => Err(error),
                }
            }
            _ => match due.earlier {
                EarlierSend::Unknown => channel.send_again(&due.reply, due.created_at).await,
                EarlierSend::None => channel.send(&due.reply).await,
            },
        };
        self.record_problem(platform, sent.as_ref().err().and_then(problem_from));
        let noted = match sent {
            Ok(receipt) => self.store.mark_sent(id, receipt, self.clock.now()).await,
            Err(error) => self.handle_send_failure(due, error, channel.capabilities().max_length).await,
        };
        if let Err(error) = noted {
            tracing::error!(%error, "what became of a reply could not be written down");
        }
        self.settled.notify_waiters();
    }

    async fn handle_send_failure(
        &self,
        due: DueReply,
        error: ChannelError,
        limit: usize,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let unsure = matches!(error, ChannelError::DeliveryUnknown(_)) || due.earlier == EarlierSend::Unknown;
        match error {
            ChannelError::Retry { reason, .. } | ChannelError::DeliveryUnknown(reason)
                if now.since(due.created_at) > MAX_REPLY_AGE =>
            {
                self.store.mark_undeliverable(due.id, reason, now).await
            }
            ChannelError::Retry { after, reason } => {
                let pause = after.unwrap_or_else(|| pause(due.attempts)).max(Duration::from_millis(50));
                self.store.postpone(due.id, now.plus(pause), reason, earlier_send(unsure)).await
            }
            ChannelError::DeliveryUnknown(reason) => {
                self.store.postpone(due.id, now.plus(pause(due.attempts)), reason, earlier_send(unsure)).await
            }
            ChannelError::Reauthorise(reason) | ChannelError::Conflict(reason) => {
                self.store
                    .postpone(due.id, now.plus(REAUTHORIZATION_DELAY), reason, earlier_send(unsure))
                    .await
            }
            ChannelError::Refused(reason) => self.retry_as_plain_text(due, reason, limit, now).await,
        }
    }

    /// Retries a text the platform refused once, without formatting.
    async fn retry_as_plain_text(
        &self,
        due: DueReply,
        reason: String,
        limit: usize,
        now: Timestamp,
    ) -> Result<(), Error> {
        let plain = due.reply.pieces.iter().find_map(|piece| match piece {
            ChatPart::Text { text } if !text.starts_with(PLAIN_MARK) => Some(text.clone()),
            ChatPart::Picture(picture) => Some(picture.fallback_text()),
            ChatPart::Text { .. } | ChatPart::File(_) => None,
        });
        tracing::warn!(platform = due.reply.platform, %reason, "a reply was refused");
        self.store.mark_undeliverable(due.id, reason, now).await?;
        let Some(text) = plain else { return Ok(()) };
        let mut reply = due.reply;
        let room = LONGEST_PLAIN.min(limit.saturating_sub(PLAIN_MARK.len() + 1));
        reply.pieces =
            vec![ChatPart::Text { text: format!("{PLAIN_MARK}\n{}", hermes_text::head(&text, room)) }];
        reply.draft = None;
        reply.idempotency_key.push_str(":plain");
        self.store.enqueue(&due.conversation, reply, now).await?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PlatformQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a random time between two others.
fn between(least: Duration, most: Duration) -> Duration {
    let part = u32::from_str_radix(&hermes_types::random_hex(4), 16).unwrap_or_default();
    least + most.saturating_sub(least) * part / 0xffff
}

fn pause(attempts: u32) -> Duration {
    let longest = if attempts < QUICK_ATTEMPTS { MAX_QUICK_DELAY } else { MAX_DELAY };
    INITIAL_DELAY.saturating_mul(1 << attempts.min(8)).min(longest)
}

/// Returns the problem an error means for later replies; a refusal concerns only its own reply.
fn problem_from(error: &ChannelError) -> Option<DeliveryProblem> {
    match error {
        ChannelError::Retry { reason, .. } | ChannelError::DeliveryUnknown(reason) => {
            Some(DeliveryProblem::Temporary(reason.clone()))
        }
        ChannelError::Reauthorise(reason) | ChannelError::Conflict(reason) => {
            Some(DeliveryProblem::Permanent(reason.clone()))
        }
        ChannelError::Refused(_) => None,
    }
}

/// Tells the next attempt whether an earlier one may have succeeded.
fn earlier_send(unsure: bool) -> EarlierSend {
    if unsure { EarlierSend::Unknown } else { EarlierSend::None }
}
