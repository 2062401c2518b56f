//! The pending result of a call to the store's threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::sync::oneshot;

use crate::error::{Error, Result};

/// The result of a call to the store: await it, or call `wait` on a thread that may block.
#[derive(Debug)]
#[must_use = "the result says whether it was written"]
pub struct PendingResult<T>(oneshot::Receiver<Result<T>>);

impl<T> PendingResult<T> {
    pub(crate) fn new() -> (oneshot::Sender<Result<T>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// Blocks this thread until the result is available. It is for synchronous callers; asynchronous ones await
    /// instead.
    pub fn wait(mut self) -> Result<T> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl<T> Future for PendingResult<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or(Err(Error::Closed)))
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
