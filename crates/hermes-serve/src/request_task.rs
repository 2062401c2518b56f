//! Runs the turn of a request in a task of its own, once if the request has a key.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::error::ApiError;
use crate::follow::ApiFrontend;
use crate::idempotency::{self, RequestTicket};
use crate::run::{self, ApiTurnRequest, CompletedTurn, StopOnDrop};

/// Runs the turn in its own task and waits for it. Dropping this future stops the turn cleanly, unless it has a
/// key: then it continues, and the same key retrieves its answer.
pub(crate) async fn run_in_task(
    app: &App,
    ticket: RequestTicket,
    asked: ApiTurnRequest,
    listener: ApiFrontend,
    room: OwnedSemaphorePermit,
) -> Result<Arc<CompletedTurn>, ApiError> {
    let (turn_id, fingerprint) = match ticket {
        RequestTicket::Keyed(ticket) => {
            return idempotency::run_once(app, ticket, asked, listener, room).await;
        }
        RequestTicket::Plain { turn, fingerprint } => (turn, fingerprint),
    };
    let stop = app.tasks.cancel_token().child_token();
    let _guard = StopOnDrop(stop.clone());
    let mut watched = app.repeats.track(fingerprint, turn_id.clone(), app.clock.clone());
    let owner = app.clone();
    let task = app.tasks.spawn_cooperative("an API turn", move |_| async move {
        let _room = room;
        run::run_turn(&owner, turn_id, asked, &listener, &stop).await
    });
    let ran = task.await;
    watched.record_end(matches!(&ran, Ok(Err(error)) if error.has_acted()));
    match ran {
        Ok(ran) => ran.map(Arc::new),
        Err(ended) => Err(ApiError::internal(format!("The turn ended unexpectedly: {ended}"))),
    }
}
