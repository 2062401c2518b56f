//! Connects a turn with the client that follows it.
//!
//! A turn never waits for its client. Events that a slow client has not read yet are queued, with adjacent text
//! merged, up to a limit; a client that falls behind further than that is treated as one that has left.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_types::{BoxFuture, Cancel, Delta, Frontend, TurnEvent, UserAnswer, UserQuestion};
use tokio::sync::Notify;

use crate::app::App;
use crate::error::ApiError;
use crate::run::CompletedTurn;
use crate::sse::{ClientGone, SseSender};

const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The size of queued text above which it is merged; the client then gets larger steps.
const MERGE_THRESHOLD: usize = 16 * 1024;
/// The most bytes that may be queued for one client.
const MAX_QUEUED_BYTES: usize = 1024 * 1024;
/// The bytes counted for an event beside its text.
const EVENT_COST: usize = 64;

/// The queue of events from a turn to its client.
#[derive(Default)]
pub(crate) struct EventQueue {
    queued: Mutex<QueuedEvents>,
    changed: Notify,
}

#[derive(Default)]
struct QueuedEvents {
    events: VecDeque<TurnEvent>,
    bytes: usize,
    /// Set when the client is too far behind.
    overrun: bool,
    /// Set when the turn sends no more events.
    closed: bool,
}

/// The next thing a follower reads from the queue.
enum NextEvent {
    Event(TurnEvent),
    TooFarBehind,
    Closed,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedEvents> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: TurnEvent) {
        let mut waiting = self.lock();
        if waiting.overrun {
            return;
        }
        waiting.bytes += size(&event);
        if waiting.bytes > MAX_QUEUED_BYTES {
            waiting.events.clear();
            waiting.overrun = true;
        } else {
            let merges = waiting.bytes > MERGE_THRESHOLD;
            match (waiting.events.back_mut(), event) {
                (Some(TurnEvent::Delta(Delta::Text(last))), TurnEvent::Delta(Delta::Text(more)))
                    if merges =>
                {
                    last.push_str(&more);
                }
                (
                    Some(TurnEvent::Delta(Delta::Reasoning(last))),
                    TurnEvent::Delta(Delta::Reasoning(more)),
                ) if merges => {
                    last.push_str(&more);
                }
                (_, event) => waiting.events.push_back(event),
            }
        }
        drop(waiting);
        self.changed.notify_one();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    fn is_empty(&self) -> bool {
        self.lock().events.is_empty()
    }

    async fn next(&self) -> NextEvent {
        loop {
            {
                let mut waiting = self.lock();
                if waiting.overrun {
                    return NextEvent::TooFarBehind;
                }
                if let Some(event) = waiting.events.pop_front() {
                    waiting.bytes = waiting.bytes.saturating_sub(size(&event));
                    return NextEvent::Event(event);
                }
                if waiting.closed {
                    return NextEvent::Closed;
                }
            }
            self.changed.notified().await;
        }
    }
}

fn size(event: &TurnEvent) -> usize {
    let text = match event {
        TurnEvent::Delta(Delta::Text(text) | Delta::Reasoning(text)) => text.len(),
        TurnEvent::ToolStarted { arguments, .. } => arguments.len(),
        TurnEvent::ToolEnded { result, .. } => result.len(),
        TurnEvent::Delta(Delta::Restart | Delta::ToolStarted { .. } | Delta::Status(_))
        | TurnEvent::TurnStarted { .. }
        | TurnEvent::Step { .. }
        | TurnEvent::SegmentEnded
        | TurnEvent::Notice { .. }
        | TurnEvent::Spent { .. }
        | TurnEvent::TurnEnded { .. }
        | TurnEvent::Child { .. } => 0,
    };
    // Merged text costs only its bytes; counting the event's cost as well errs on the safe side.
    text + EVENT_COST
}

/// Forwards events to a client; questions are unavailable.
pub(crate) struct ApiFrontend(Option<Arc<EventQueue>>);

impl ApiFrontend {
    /// Creates a frontend for a client that only wants the answer.
    pub(crate) fn discarding() -> Self {
        Self(None)
    }

    pub(crate) fn forwarding(queue: &Arc<EventQueue>) -> Self {
        Self(Some(queue.clone()))
    }
}

impl Drop for ApiFrontend {
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.close();
        }
    }
}

impl Frontend for ApiFrontend {
    fn show(&self, event: TurnEvent) {
        if let Some(queue) = &self.0 {
            queue.push(event);
        }
    }

    fn ask<'a>(&'a self, _: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        Box::pin(std::future::ready(UserAnswer::Unavailable))
    }
}

/// An update for a client that waits.
pub(crate) enum ClientUpdate {
    Event(TurnEvent),
    /// No event for a while: a sign that the server is still there.
    KeepAlive,
}

/// Forwards events to a client until the turn has ended, as fast as the client reads. A client that has left
/// gives up the turn; one that is still connected when the server stops is told so.
pub(crate) async fn follow(
    app: &App,
    turn: impl Future<Output = Result<Arc<CompletedTurn>, ApiError>>,
    events: &EventQueue,
    frames: &SseSender,
    left: &Cancel,
    mut tell: impl FnMut(ClientUpdate) -> Result<(), ClientGone>,
) -> Result<Result<Arc<CompletedTurn>, ApiError>, ClientGone> {
    tokio::pin!(turn);
    let mut ran = None;
    let mut more = true;
    loop {
        if ran.is_some() && (!more || events.is_empty()) {
            return ran.ok_or(ClientGone);
        }
        let next = async {
            frames.wait_until_read().await;
            events.next().await
        };
        tokio::select! {
            biased;
            ended = &mut turn, if ran.is_none() => ran = Some(ended),
            next = next, if more => match next {
                NextEvent::Event(event) => tell(ClientUpdate::Event(event))?,
                NextEvent::TooFarBehind => {
                    tracing::warn!("a client did not read its stream; it is closed");
                    return Err(ClientGone);
                }
                NextEvent::Closed => more = false,
            },
            () = left.cancelled() => {
                return if app.tasks.cancel_token().is_cancelled() { Ok(Err(ApiError::shutting_down())) } else { Err(ClientGone) };
            }
            () = app.clock.sleep(KEEP_ALIVE) => tell(ClientUpdate::KeepAlive)?,
        }
    }
}
