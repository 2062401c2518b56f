//! The limits on one request: cancel token, deadline, and the timeout of the current step.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, Clock, Deadline};

use crate::error::Error;

#[derive(Clone)]
pub(crate) struct RequestBounds {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) deadline: Deadline,
    pub(crate) cancel: Cancel,
}

impl RequestBounds {
    /// Runs the work unless it is cancelled or exceeds `patience` or the deadline. Completed work counts even if
    /// its time has just run out.
    pub(crate) async fn run<T>(
        &self,
        patience: Duration,
        impatient: impl FnOnce() -> Error,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let remaining = self.deadline.remaining(&*self.clock);
        if remaining.is_zero() {
            return Err(Error::DeadlinePassed);
        }
        let (limit, late) =
            if remaining <= patience { (remaining, None) } else { (patience, Some(impatient)) };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Error::Cancelled),
            result = work => result,
            () = self.clock.sleep(limit) => Err(late.map_or(Error::DeadlinePassed, |late| late())),
        }
    }
}
