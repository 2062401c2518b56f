//! The common part of device flows: show a code, wait for the user, time out.

use std::future::Future as _;
use std::task::Poll;
use std::time::Duration;

use hermes_types::{Cancel, Clock, Deadline};

use super::error::SignInError;
use super::http::TokenResponse;

/// The progress that a sign-in reports to its listener. No browser is opened: the user does that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignInProgress {
    /// The user must open the URL and enter the code.
    Code {
        url: String,
        /// The URL with the code filled in, where the server offers one.
        complete_url: Option<String>,
        user_code: String,
        expires_in: Duration,
    },
    /// The user confirmed the code; the last steps follow.
    Confirmed,
    /// A notice that does not stop the sign-in.
    Note(String),
}

/// Receives the progress of a sign-in.
pub type SignInListener<'a> = &'a (dyn Fn(SignInProgress) + Send + Sync);

/// The format of a server's response to the start of a sign-in.
pub(super) struct DeviceCodeFormat {
    /// The field with the device code, which the user does not see.
    pub(super) device: &'static str,
    /// The page to open, where the response does not name it.
    pub(super) page: Option<String>,
    /// The lifetime of the code, where the response does not state it.
    pub(super) lifetime: Option<Duration>,
    /// The shortest and the longest pause between two polls.
    pub(super) poll_interval_bounds: (Duration, Duration),
}

/// A code that waits for the user's confirmation.
pub(super) struct DeviceCode {
    pub(super) device: String,
    pub(super) user: String,
    lifetime: Duration,
    poll_interval: Duration,
}

impl DeviceCode {
    /// Reads the response and shows the code.
    pub(super) fn show(
        reply: &TokenResponse,
        shape: &DeviceCodeFormat,
        listener: SignInListener<'_>,
    ) -> Result<Self, SignInError> {
        if !reply.is_success() {
            return Err(reply.failure("Starting the sign-in"));
        }
        let needed =
            |name: &str| reply.text(name).map(str::to_owned).ok_or_else(|| missing_field_error(name));
        let device = needed(shape.device)?;
        let user = needed("user_code").or_else(|_| needed("usercode"))?;
        let lifetime = shape.lifetime.unwrap_or_else(|| seconds(reply.number("expires_in"), 900, 3_600));
        listener(SignInProgress::Code {
            url: shape.page.clone().map_or_else(|| needed("verification_uri"), Ok)?,
            complete_url: reply.text("verification_uri_complete").map(str::to_owned),
            user_code: user.clone(),
            expires_in: lifetime,
        });
        let (least, most) = shape.poll_interval_bounds;
        let pause = seconds(reply.number("interval"), 5, 60).clamp(least, most);
        Ok(Self { device, user, lifetime, poll_interval: pause })
    }

    /// Creates the poller; `step` is added to the interval when the server asks to slow down.
    pub(super) fn poller<'a>(&self, clock: &'a dyn Clock, step: Duration) -> DeviceCodePoller<'a> {
        DeviceCodePoller {
            clock,
            poll_interval: self.poll_interval,
            step,
            deadline: Deadline::after(clock, self.lifetime),
        }
    }
}

pub(super) fn missing_field_error(name: &str) -> SignInError {
    SignInError::TryLater(format!("The sign-in server's answer lacks `{name}`. Try again shortly."))
}

/// Interprets the standard error codes of a server that has no token yet.
pub(super) fn check_pending(
    reply: &TokenResponse,
    rhythm: &mut DeviceCodePoller<'_>,
) -> Result<(), SignInError> {
    match reply.refusal().as_str() {
        "authorization_pending" => Ok(()),
        "slow_down" => {
            rhythm.slow_down();
            Ok(())
        }
        "expired_token" => Err(SignInError::Expired),
        "access_denied" => Err(SignInError::Denied),
        _ => Err(reply.failure("The sign-in")),
    }
}

/// Times the polls for the confirmation of a code.
pub(super) struct DeviceCodePoller<'a> {
    clock: &'a dyn Clock,
    poll_interval: Duration,
    /// The amount added to the interval when the server asks to slow down.
    step: Duration,
    deadline: Deadline,
}

const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);

impl DeviceCodePoller<'_> {
    fn slow_down(&mut self) {
        self.poll_interval = (self.poll_interval + self.step).min(MAX_POLL_INTERVAL.max(self.poll_interval));
    }

    /// Waits for the next poll; returns an error when the code has expired or the sign-in was cancelled.
    pub(super) async fn wait(&self, cancel: &Cancel) -> Result<(), SignInError> {
        if self.deadline.remaining(self.clock) < self.poll_interval {
            return Err(SignInError::Expired);
        }
        sleep(self.clock, self.poll_interval, cancel).await
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

/// Converts a server's number of seconds to a span, with a default and an upper bound.
fn seconds(value: Option<f64>, usual: u64, most: u64) -> Duration {
    let value = value.filter(|value| *value >= 0.0).map(|value| Duration::from_secs_f64(value.min(1e9)));
    value.unwrap_or(Duration::from_secs(usual)).min(Duration::from_secs(most))
}
