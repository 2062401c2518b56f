//! A turn and the client that watches it.
//!
//! A turn never waits for its client. What a slow one has not read yet waits here, with its text put together, up to a
//! bound; a client that falls further behind than that is treated as one that has left.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_types::{Answer, BoxFuture, Cancel, Delta, Event, Frontend, Question};
use tokio::sync::Notify;

use crate::app::App;
use crate::error::ApiError;
use crate::run::Ran;
use crate::sse::{Frames, Gone};

const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Waiting text beyond this is put together, which costs a client only the size of its steps.
const MERGED_FROM: usize = 16 * 1024;
/// The most that may wait for one client.
const MOST_WAITING: usize = 1024 * 1024;
/// What an event without text costs.
const SMALL: usize = 64;

/// Events on their way from a turn to its client.
#[derive(Default)]
pub(crate) struct EventQueue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    bytes: usize,
    /// The client is too far behind.
    overrun: bool,
    /// The turn has nothing more to say.
    closed: bool,
}

/// What a follower finds.
enum Next {
    Event(Event),
    Overrun,
    Closed,
}

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: Event) {
        let mut waiting = self.lock();
        if waiting.overrun {
            return;
        }
        waiting.bytes += size(&event);
        if waiting.bytes > MOST_WAITING {
            waiting.events.clear();
            waiting.overrun = true;
        } else {
            let merges = waiting.bytes > MERGED_FROM;
            match (waiting.events.back_mut(), event) {
                (Some(Event::Delta(Delta::Text(last))), Event::Delta(Delta::Text(more))) if merges => {
                    last.push_str(&more);
                }
                (Some(Event::Delta(Delta::Reasoning(last))), Event::Delta(Delta::Reasoning(more)))
                    if merges =>
                {
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

    async fn next(&self) -> Next {
        loop {
            {
                let mut waiting = self.lock();
                if waiting.overrun {
                    return Next::Overrun;
                }
                if let Some(event) = waiting.events.pop_front() {
                    waiting.bytes = waiting.bytes.saturating_sub(size(&event));
                    return Next::Event(event);
                }
                if waiting.closed {
                    return Next::Closed;
                }
            }
            self.changed.notified().await;
        }
    }
}

fn size(event: &Event) -> usize {
    let text = match event {
        Event::Delta(Delta::Text(text) | Delta::Reasoning(text)) => text.len(),
        Event::ToolStarted { arguments, .. } => arguments.len(),
        Event::ToolEnded { result, .. } => result.len(),
        _ => 0,
    };
    // Text that is put together costs its bytes alone; counting a little more errs on the safe side.
    text + SMALL
}

/// Passes events on; nobody is there to be asked.
pub(crate) struct Listener(Option<Arc<EventQueue>>);

impl Listener {
    /// For a client that only wants the answer.
    pub(crate) fn nobody() -> Self {
        Self(None)
    }

    pub(crate) fn to(queue: &Arc<EventQueue>) -> Self {
        Self(Some(queue.clone()))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.close();
        }
    }
}

impl Frontend for Listener {
    fn show(&self, event: Event) {
        if let Some(queue) = &self.0 {
            queue.push(event);
        }
    }

    fn ask<'a>(&'a self, _: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Unavailable))
    }
}

/// What a client is told while it waits.
pub(crate) enum Heard {
    Event(Event),
    /// Nothing, for a while: it is told that somebody is there.
    Silence,
}

/// Tells a client what happens until the turn has ended, as fast as it reads. A client that has left lets go of the turn; one
/// that is still there when the server ends is told so.
pub(crate) async fn follow(
    app: &App,
    turn: impl Future<Output = Result<Arc<Ran>, ApiError>>,
    events: &EventQueue,
    frames: &Frames,
    left: &Cancel,
    mut tell: impl FnMut(Heard) -> Result<(), Gone>,
) -> Result<Result<Arc<Ran>, ApiError>, Gone> {
    tokio::pin!(turn);
    let mut ran = None;
    let mut more = true;
    loop {
        if ran.is_some() && (!more || events.is_empty()) {
            return ran.ok_or(Gone);
        }
        let next = async {
            frames.until_read().await;
            events.next().await
        };
        tokio::select! {
            biased;
            ended = &mut turn, if ran.is_none() => ran = Some(ended),
            next = next, if more => match next {
                Next::Event(event) => tell(Heard::Event(event))?,
                Next::Overrun => {
                    tracing::warn!("a client did not read its stream; it is closed");
                    return Err(Gone);
                }
                Next::Closed => more = false,
            },
            () = left.cancelled() => {
                return if app.tasks.cancel_token().is_cancelled() { Ok(Err(ApiError::ending())) } else { Err(Gone) };
            }
            () = app.gateway.clock.sleep(KEEP_ALIVE) => tell(Heard::Silence)?,
        }
    }
}
