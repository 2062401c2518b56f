//! The queue of one platform: claims due replies, sends them and records what became of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hermes_store::{DueReply, EarlierSend, Error, Store};
use hermes_types::{Channel, ChannelError, ChatPart, Clock, DeliveryCertainty, DeliveryReceipt, Timestamp};
use tokio::sync::Notify;

use super::{DeliveryProblem, PlatformQueues};
use crate::settings::LiveSettings;

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
/// The age after which a reply is no longer sent.
const MAX_REPLY_AGE: Duration = Duration::from_hours(24);
const LONGEST_PLAIN: usize = 3500;
const PLAIN_MARK: &str = "(Response formatting failed, plain text:)";

/// Sends the queued replies of one platform while it is connected.
pub(super) struct QueueRunner {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: LiveSettings,
    pub(super) queues: Arc<PlatformQueues>,
    pub(super) channel: Arc<dyn Channel>,
    pub(super) wake: Arc<Notify>,
    /// The number of replies that are being sent or claimed.
    pub(super) in_flight: Arc<AtomicUsize>,
}

impl QueueRunner {
    /// Runs until it is dropped.
    pub(super) async fn run(&self) {
        let platform = self.channel.platform();
        let mut under_way = FuturesUnordered::new();
        loop {
            // Counted before they are claimed: a flush must not check in between.
            self.in_flight.store(under_way.len() + 1, Ordering::SeqCst);
            let room = MAX_CONCURRENT_SENDS - under_way.len();
            match self.store.claim_due(platform, self.clock.now(), room).await {
                Ok(due) => under_way.extend(due.into_iter().map(|due| self.send(due))),
                Err(error) => tracing::error!(%error, platform, "the outbox cannot be read; trying again"),
            }
            self.in_flight.store(under_way.len(), Ordering::SeqCst);
            if under_way.is_empty() {
                self.queues.settled.notify_waiters();
            }
            let next = self.until_next(platform).await;
            tokio::select! {
                Some(()) = under_way.next() => {}
                () = self.wake.notified(), if under_way.len() < MAX_CONCURRENT_SENDS => {}
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

    async fn send(&self, due: DueReply) {
        let channel = &*self.channel;
        let (id, platform) = (due.id, channel.platform());
        if due.reply.pieces.iter().any(|piece| !matches!(piece, ChatPart::Text { .. }))
            && let Some((least, most)) = self.settings.current().human_delay
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
        self.queues.record_problem(platform, sent.as_ref().err().and_then(problem_from));
        let noted = match sent {
            Ok(receipt) => self.store.mark_sent(id, receipt, self.clock.now()).await,
            Err(error) => self.handle_send_failure(due, error, channel.capabilities().max_length).await,
        };
        if let Err(error) = noted {
            tracing::error!(%error, "what became of a reply could not be written down");
        }
        self.queues.settled.notify_waiters();
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
