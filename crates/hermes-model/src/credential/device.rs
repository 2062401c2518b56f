//! The device flow's outer shape: show a code, wait for a person, give up in time.

use std::future::Future as _;
use std::task::Poll;
use std::time::Duration;

use hermes_types::{Cancel, Clock, Deadline};

use super::error::SignInError;

/// What a sign-in tells whoever watches it. No browser is opened: the person does that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Open the address and enter the code.
    Code {
        url: String,
        /// The address with the code filled in, where the server offers it.
        complete_url: Option<String>,
        user_code: String,
        expires_in: Duration,
    },
    /// Confirmed; the last steps follow.
    Confirmed,
    /// Something to know that does not stop the sign-in.
    Note(String),
}

/// Watches a sign-in.
pub type Listener<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// When to ask again whether the code was confirmed.
pub(super) struct Rhythm<'a> {
    clock: &'a dyn Clock,
    pause: Duration,
    /// How much slower when the server asks for it.
    step: Duration,
    end: Deadline,
}

const SLOWEST: Duration = Duration::from_secs(30);

impl<'a> Rhythm<'a> {
    pub(super) fn new(clock: &'a dyn Clock, pause: Duration, step: Duration, lifetime: Duration) -> Self {
        Self { clock, pause, step, end: Deadline::after(clock, lifetime) }
    }

    pub(super) fn slow_down(&mut self) {
        self.pause = (self.pause + self.step).min(SLOWEST.max(self.pause));
    }

    /// Waits for the next question; an error when the code has run out or somebody cancelled.
    pub(super) async fn wait(&self, cancel: &Cancel) -> Result<(), SignInError> {
        if self.end.remaining(self.clock) < self.pause {
            return Err(SignInError::Expired);
        }
        sleep(self.clock, self.pause, cancel).await
    }
}

async fn sleep(clock: &dyn Clock, span: Duration, cancel: &Cancel) -> Result<(), SignInError> {
    let mut sleeping = clock.sleep(span);
    let mut cancelled = std::pin::pin!(cancel.cancelled());
    std::future::poll_fn(|context| {
        if cancelled.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(SignInError::Cancelled));
        }
        sleeping.as_mut().poll(context).map(Ok)
    })
    .await
}

/// A span in seconds from a server, within reason.
pub(super) fn seconds(value: Option<f64>, usual: u64, most: u64) -> Duration {
    let value = value.filter(|value| *value >= 0.0).map(|value| Duration::from_secs_f64(value.min(1e9)));
    value.unwrap_or(Duration::from_secs(usual)).min(Duration::from_secs(most))
}
