//! Getting answers out: from the outbox to the platform, once, in order.
//!
//! One task per connected platform. Invariants: nothing is sent that is not in the outbox; what the platform took is
//! marked before the next of the same conversation is claimed; what it did not take is tried again until it is too old.

mod media;
mod picture;
mod plan;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hermes_store::{Due, EarlierSend, Error, Store};
use hermes_task::Tasks;
use hermes_types::{Abilities, Cancel, Certainty, Channel, ChannelError, Clock, Piece, Receipt, Timestamp};
use tokio::sync::Notify;

use crate::ports::Services;
use crate::settings::Live;

pub(crate) use media::add_tools_files;
pub use media::refuse_files_by;
pub(crate) use plan::{Spoken, in_parts, plan, plan_at};

/// How many conversations of one platform are sent to at a time.
const AT_ONCE: usize = 32;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Somebody waits for it: it is tried this often at first, and later at least each minute.
const SHORT_PAUSE: Duration = Duration::from_secs(15);
const SOON: u32 = 20;
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Before a platform that wants another token is tried again.
const UNTIL_SIGNED_IN: Duration = Duration::from_mins(5);
/// How often the outbox is looked at for what another process put there.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often somebody who waits for the end looks.
const LOOK_BRIEFLY: Duration = Duration::from_millis(200);
/// Longer is not tried: whoever waits has given up.
const TOO_OLD: Duration = Duration::from_hours(24);
const LONGEST_PLAIN: usize = 3500;
const PLAIN_MARK: &str = "(Response formatting failed, plain text:)";

/// The platforms and their queues.
#[derive(Clone)]
pub(crate) struct Delivery {
    store: Store,
    clock: Arc<dyn Clock>,
    services: Arc<dyn Services>,
    live: Live,
    lines: Arc<Mutex<HashMap<String, Line>>>,
    /// Something was sent, or was not; or nothing is under way any more.
    pub(crate) settled: Arc<Notify>,
}

struct Line {
    channel: Arc<dyn Channel>,
    wake: Arc<Notify>,
    cancel: Cancel,
    /// How many are being sent, or are about to be.
    under_way: Arc<AtomicUsize>,
    trouble: Option<Trouble>,
}

/// Why what waits for a platform does not leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    Passing(String),
    /// Until somebody does something about it.
    Lasting(String),
}

impl Trouble {
    pub(crate) fn words(&self) -> &str {
        let (Self::Passing(reason) | Self::Lasting(reason)) = self;
        reason
    }
}

impl Delivery {
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>, services: Arc<dyn Services>, live: Live) -> Self {
        Self { store, clock, services, live, lines: Arc::default(), settled: Arc::default() }
    }

    pub(crate) fn connect(&self, channel: Arc<dyn Channel>, tasks: &Tasks) {
        let platform = channel.platform().to_owned();
        let (wake, cancel) = (Arc::new(Notify::new()), tasks.cancel_token().child_token());
        let count = Arc::new(AtomicUsize::new(1));
        let line = Line {
            channel: channel.clone(),
            wake: wake.clone(),
            cancel: cancel.clone(),
            under_way: count.clone(),
            trouble: None,
        };
        if let Some(old) = self.lock().insert(platform.clone(), line) {
            old.cancel.cancel();
        }
        let delivery = self.clone();
        drop(tasks.spawn(format!("delivery to {platform}"), async move {
            tokio::select! {
                () = delivery.work(&platform, channel, &wake, &count) => {}
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

    /// What a platform can do, by its own word or, where it is not connected, by the program's.
    pub(crate) fn abilities(&self, platform: &str) -> Abilities {
        let own = self.channel(platform).map(|channel| channel.abilities());
        own.or_else(|| self.services.abilities(platform)).unwrap_or_default()
    }

    /// What kept the last reply from a platform.
    pub(crate) fn trouble(&self, platform: &str) -> Option<Trouble> {
        self.lock().get(platform).and_then(|line| line.trouble.clone())
    }

    pub(crate) fn note_trouble(&self, platform: &str, trouble: Option<Trouble>) {
        if let Some(line) = self.lock().get_mut(platform) {
            line.trouble = trouble;
        }
    }

    /// Something new is in the outbox.
    pub(crate) fn wake(&self, platform: &str) {
        if let Some(line) = self.lock().get(platform) {
            line.wake.notify_one();
        }
    }

    /// The platform is back: what was put off because of it is due now.
    pub(crate) async fn hurry(&self, platform: &str) {
        if let Err(error) = self.store.hurry(platform, self.clock.now()).await {
            tracing::warn!(%error, platform, "what was put off stays put off");
        }
        self.wake(platform);
    }

    /// Waits until everything has left that is due before `patience` is over, or until it is.
    pub(crate) async fn send_off(&self, patience: Duration) {
        let end = self.clock.now().plus(patience);
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            // Before looking, so that nothing is missed between the look and the wait.
            settled.as_mut().enable();
            if self.has_left(end).await || self.clock.now() >= end {
                return;
            }
            tokio::select! {
                () = settled => {}
                () = self.clock.sleep(LOOK_BRIEFLY) => {}
            }
        }
    }

    /// Whether nothing is under way, nor due before that time.
    async fn has_left(&self, end: Timestamp) -> bool {
        for platform in self.platforms() {
            let busy =
                self.lock().get(&platform).is_some_and(|line| line.under_way.load(Ordering::SeqCst) > 0);
            let next = self.store.next_due(&platform).await;
            if busy || matches!(next, Ok(Some(at)) if at < end) {
                return false;
            }
        }
        true
    }

    async fn work(&self, platform: &str, channel: Arc<dyn Channel>, wake: &Notify, count: &AtomicUsize) {
        let mut under_way = FuturesUnordered::new();
        loop {
            // Counted before they are claimed: whoever waits for the end must not look in between.
            count.store(under_way.len() + 1, Ordering::SeqCst);
            match self.store.claim_due(platform, self.clock.now(), AT_ONCE - under_way.len()).await {
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
                () = wake.notified(), if under_way.len() < AT_ONCE => {}
                () = self.clock.sleep(next), if under_way.len() < AT_ONCE => {}
            }
        }
    }

    /// How long until something postponed is due.
    async fn until_next(&self, platform: &str) -> Duration {
        match self.store.next_due(platform).await {
            Ok(Some(at)) => at.since(self.clock.now()).clamp(Duration::from_millis(50), LOOK_EVERY),
            Ok(None) => LOOK_EVERY,
            Err(_) => FIRST_PAUSE,
        }
    }

    async fn send(&self, channel: &dyn Channel, due: Due) {
        let (id, platform) = (due.id, channel.platform());
        if due.reply.pieces.iter().any(|piece| !matches!(piece, Piece::Text { .. }))
            && let Some((least, most)) = self.live.now().human_delay
        {
            self.clock.sleep(between(least, most)).await;
        }
        let sent = match (&due.reply.draft, due.reply.pieces.first()) {
            (Some(draft), Some(Piece::Text { text })) => {
                match channel.edit(&due.reply.place, draft, text).await {
                    Ok(()) => Ok(Receipt { message_ids: vec![draft.clone()], certainty: Certainty::Once }),
                    // The message may be gone, or too old to be changed; then it is said anew.
                    Err(ChannelError::Refused(_)) => channel.send(&due.reply).await,
                    Err(error) => Err(error),
                }
            }
            _ => match due.earlier {
                EarlierSend::Unknown => channel.send_again(&due.reply, due.created_at).await,
                EarlierSend::None => channel.send(&due.reply).await,
            },
        };
        self.note_trouble(platform, sent.as_ref().err().and_then(trouble_of));
        let noted = match sent {
            Ok(receipt) => self.store.mark_sent(id, receipt, self.clock.now()).await,
            Err(error) => self.not_sent(due, error, channel.abilities().limit).await,
        };
        if let Err(error) = noted {
            tracing::error!(%error, "what became of a reply could not be written down");
        }
        self.settled.notify_waiters();
    }

    async fn not_sent(&self, due: Due, error: ChannelError, limit: usize) -> Result<(), Error> {
        let now = self.clock.now();
        let unsure = matches!(error, ChannelError::Unsure(_)) || due.earlier == EarlierSend::Unknown;
        match error {
            ChannelError::Retry { reason, .. } | ChannelError::Unsure(reason)
                if now.since(due.created_at) > TOO_OLD =>
            {
                self.store.mark_undeliverable(due.id, reason, now).await
            }
            ChannelError::Retry { after, reason } => {
                let pause = after.unwrap_or_else(|| pause(due.attempts)).max(Duration::from_millis(50));
                self.store.postpone(due.id, now.plus(pause), reason, certainty(unsure)).await
            }
            ChannelError::Unsure(reason) => {
                self.store.postpone(due.id, now.plus(pause(due.attempts)), reason, certainty(unsure)).await
            }
            ChannelError::Reauthorise(reason) | ChannelError::Conflict(reason) => {
                self.store.postpone(due.id, now.plus(UNTIL_SIGNED_IN), reason, certainty(unsure)).await
            }
            ChannelError::Refused(reason) => self.say_plainly(due, reason, limit, now).await,
        }
    }

    /// A text the platform refused is tried once more without its dress.
    async fn say_plainly(&self, due: Due, reason: String, limit: usize, now: Timestamp) -> Result<(), Error> {
        let plain = due.reply.pieces.iter().find_map(|piece| match piece {
            Piece::Text { text } if !text.starts_with(PLAIN_MARK) => Some(text.clone()),
            Piece::Picture(picture) => Some(picture.in_words()),
            Piece::Text { .. } | Piece::File(_) => None,
        });
        tracing::warn!(platform = due.reply.platform, %reason, "a reply was refused");
        self.store.mark_undeliverable(due.id, reason, now).await?;
        let Some(text) = plain else { return Ok(()) };
        let mut reply = due.reply;
        let room = LONGEST_PLAIN.min(limit.saturating_sub(PLAIN_MARK.len() + 1));
        reply.pieces =
            vec![Piece::Text { text: format!("{PLAIN_MARK}\n{}", hermes_text::head(&text, room)) }];
        reply.draft = None;
        reply.idempotency_key.push_str(":plain");
        self.store.enqueue(&due.conversation, reply, now).await?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a random time between two others.
fn between(least: Duration, most: Duration) -> Duration {
    let part = u32::from_str_radix(&hermes_types::random_hex(4), 16).unwrap_or_default();
    least + most.saturating_sub(least) * part / 0xffff
}

fn pause(attempts: u32) -> Duration {
    let longest = if attempts < SOON { SHORT_PAUSE } else { LONGEST_PAUSE };
    FIRST_PAUSE.saturating_mul(1 << attempts.min(8)).min(longest)
}

/// What an error says about those that follow; one that was refused says nothing.
fn trouble_of(error: &ChannelError) -> Option<Trouble> {
    match error {
        ChannelError::Retry { reason, .. } | ChannelError::Unsure(reason) => {
            Some(Trouble::Passing(reason.clone()))
        }
        ChannelError::Reauthorise(reason) | ChannelError::Conflict(reason) => {
            Some(Trouble::Lasting(reason.clone()))
        }
        ChannelError::Refused(_) => None,
    }
}

/// What the next attempt has to know of those before it.
fn certainty(unsure: bool) -> EarlierSend {
    if unsure { EarlierSend::Unknown } else { EarlierSend::None }
}
