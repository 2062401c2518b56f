//! A turn and the client that watches it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Answer, BoxFuture, Cancel, Event, Frontend, Question};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::app::App;
use crate::error::ApiError;
use crate::run::Ran;
use crate::sse::Gone;

const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Passes events on; nobody is there to be asked.
pub(crate) struct Listener(pub(crate) Option<UnboundedSender<Event>>);

impl Frontend for Listener {
    fn show(&self, event: Event) {
        if let Some(events) = &self.0 {
            // A client that has left hears nothing.
            let _ = events.send(event);
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

/// Tells a client what happens until the turn has ended. A client that has left lets go of it; one that is still there
/// when the server ends is told so.
pub(crate) async fn follow(
    app: &App,
    turn: impl Future<Output = Result<Arc<Ran>, ApiError>>,
    mut events: UnboundedReceiver<Event>,
    left: &Cancel,
    mut tell: impl FnMut(Heard) -> Result<(), Gone>,
) -> Result<Result<Arc<Ran>, ApiError>, Gone> {
    tokio::pin!(turn);
    let mut more = true;
    loop {
        tokio::select! {
            biased;
            event = events.recv(), if more => match event {
                Some(event) => tell(Heard::Event(event))?,
                None => more = false,
            },
            ran = &mut turn => {
                while let Ok(event) = events.try_recv() {
                    tell(Heard::Event(event))?;
                }
                return Ok(ran);
            }
            () = left.cancelled() => {
                return if app.tasks.cancel_token().is_cancelled() { Ok(Err(ApiError::ending())) } else { Err(Gone) };
            }
            () = app.gateway.clock.sleep(KEEP_ALIVE) => tell(Heard::Silence)?,
        }
    }
}
