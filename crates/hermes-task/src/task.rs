//! One task: started with a name and a cancel token, then awaited or left to run.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use hermes_types::Cancel;
use thiserror::Error;
use tokio::task::JoinHandle;
use tracing::{Instrument, Span};

/// The reason why a task has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TaskError {
    #[error("it was cancelled")]
    Cancelled,
    /// The task panicked, which is a bug; the panic has been logged already.
    #[error("it failed unexpectedly: {0}")]
    Panicked(String),
}

/// A running task. Await it for its result; dropping it leaves the task to run until its token is cancelled.
pub struct Task<T> {
    handle: JoinHandle<Result<T, TaskError>>,
}

impl<T> Task<T> {
    /// Ends the task at its next await, even if its token is not cancelled.
    pub fn abort(&self) {
        self.handle.abort();
    }

    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.handle).poll(context)) {
            Ok(result) => result,
            Err(error) if error.is_panic() => Err(TaskError::Panicked(panic_text(&*error.into_panic()))),
            Err(_) => Err(TaskError::Cancelled),
        })
    }
}

/// Starts work that is dropped at its current await when `cancel` is cancelled.
pub fn spawn_named<T: Send + 'static>(
    name: impl Into<Cow<'static, str>>,
    cancel: &Cancel,
    work: impl Future<Output = T> + Send + 'static,
) -> Task<T> {
    let name = name.into();
    let span = span(&name);
    start(span, until_cancelled(name, cancel.clone(), work))
}

/// Starts work that must clean up before it ends: it gets its own child token of `cancel`, is never dropped, and
/// must return soon after that token is cancelled.
pub fn spawn_cooperative<T, F>(
    name: impl Into<Cow<'static, str>>,
    cancel: &Cancel,
    work: impl FnOnce(Cancel) -> F,
) -> Task<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let name = name.into();
    let work = work(cancel.child_token());
    start(span(&name), catch_panic(name, work))
}

#[expect(clippy::disallowed_methods, reason = "this is the helper that names tasks and ties them to a token")]
fn start<T: Send + 'static>(
    span: Span,
    work: impl Future<Output = Result<T, TaskError>> + Send + 'static,
) -> Task<T> {
    Task { handle: tokio::spawn(work.instrument(span)) }
}

fn span(name: &str) -> Span {
    tracing::info_span!("task", name)
}

async fn until_cancelled<T>(
    name: Cow<'static, str>,
    cancel: Cancel,
    work: impl Future<Output = T>,
) -> Result<T, TaskError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(TaskError::Cancelled),
        result = catch_panic(name, work) => result,
    }
}

/// Runs the work and turns a panic into an error. What the work owned is dropped with it, so a partial change is
/// visible afterwards only through locks, and those report poisoning themselves.
async fn catch_panic<T>(name: Cow<'static, str>, work: impl Future<Output = T>) -> Result<T, TaskError> {
    let mut work = pin!(work);
    let outcome = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(payload) => Poll::Ready(Err(panic_text(&*payload))),
    })
    .await;
    outcome.map_err(|reason| {
        tracing::error!(task = %name, %reason, "a task panicked");
        TaskError::Panicked(reason)
    })
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
