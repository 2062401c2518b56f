//! Keeps a platform connected while the gateway runs: it retries temporary failures and reports permanent ones.
//!
//! Invariant: a platform is either connected, waiting for its next attempt, or failed with a reason people can
//! read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_task::TaskGroup;
use hermes_types::{
    BoxFuture, Cancel, Channel, ChannelError, ChatKind, Clock, ConnectionStatus, Envelope, Intake,
    IntakeOutcome, InvitationDecision,
};

use crate::deliver::Delivery;
use crate::intake::MessageIntake;
use crate::process::StateFile;

const INITIAL_DELAY: Duration = Duration::from_secs(2);
const MAX_DELAY: Duration = Duration::from_mins(5);
/// The time a channel gets to shut down.
const GRACE: Duration = Duration::from_secs(3);

/// The health of a platform's channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelHealth {
    /// The channel is connected or will be.
    Active,
    /// The channel cannot work with the current settings.
    Failed(String),
}

/// Keeps channels listening.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct ChannelSupervisor {
    intake: MessageIntake,
    delivery: Delivery,
    clock: Arc<dyn Clock>,
    tasks: Arc<TaskGroup>,
    health: Mutex<BTreeMap<String, ChannelHealth>>,
}

impl ChannelSupervisor {
    pub(crate) fn new(
        intake: MessageIntake,
        delivery: Delivery,
        clock: Arc<dyn Clock>,
        tasks: Arc<TaskGroup>,
    ) -> Self {
        Self { intake, delivery, clock, tasks, health: Mutex::default() }
    }

    /// Connects a platform and listens to it until the gateway ends.
    pub fn supervise(self: &Arc<Self>, channel: Arc<dyn Channel>, state: Arc<StateFile>) {
        let platform = channel.platform().to_owned();
        self.set_health(&platform, ChannelHealth::Active);
        state.platform(&platform, "connecting", None, self.clock.now());
        self.delivery.connect(channel.clone());
        let supervisor = Arc::clone(self);
        drop(self.tasks.spawn_cooperative(format!("listening to {platform}"), move |cancel| async move {
            let door = SupervisedIntake {
                supervisor: supervisor.clone(),
                state,
                failures: AtomicU32::new(0),
                last_connection: Mutex::default(),
            };
            supervisor.listen_with_retries(&*channel, &door, &cancel).await;
        }));
    }

    /// Marks a platform that cannot be opened as failed.
    pub fn mark_failed(&self, platform: &str, code: &str, reason: String, state: &StateFile) {
        tracing::error!(platform, %reason, "a platform is left alone");
        self.set_health(platform, ChannelHealth::Failed(reason.clone()));
        state.platform(platform, "fatal", Some((code, reason)), self.clock.now());
    }

    /// Returns the health of each supervised platform.
    pub fn health(&self) -> BTreeMap<String, ChannelHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_health(&self, platform: &str, health: ChannelHealth) {
        self.health.lock().unwrap_or_else(PoisonError::into_inner).insert(platform.to_owned(), health);
    }

    async fn listen_with_retries(&self, channel: &dyn Channel, door: &SupervisedIntake, cancel: &Cancel) {
        let platform = channel.platform();
        loop {
            let overdue = async {
                cancel.cancelled().await;
                self.clock.sleep(GRACE).await;
            };
            let ended = tokio::select! {
                ended = channel.listen(door, cancel) => ended,
                () = overdue => Ok(()),
            };
            let (after, reason) = match ended {
                Ok(()) if cancel.is_cancelled() => {
                    return door.state.platform(platform, "disconnected", None, self.clock.now());
                }
                Ok(()) => (None, "the connection ended".to_owned()),
                Err(ChannelError::Retry { after, reason }) => (after, reason),
                Err(ChannelError::DeliveryUnknown(reason)) => (None, reason),
                Err(error) => {
                    self.delivery.disconnect(platform);
                    let code = error_code(platform, &error);
                    return self.mark_failed(platform, &code, error_reason(error), &door.state);
                }
            };
            // The channel's next status must count as a change.
            door.last_connection
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .replace(ConnectionStatus::Down(reason.clone()));
            let failures = door.failures.fetch_add(1, Ordering::Relaxed);
            let pause = INITIAL_DELAY.saturating_mul(1 << failures.min(8)).min(MAX_DELAY);
            let pause = after.unwrap_or(pause).clamp(Duration::from_secs(1), MAX_DELAY);
            tracing::warn!(platform, %reason, pause = pause.as_secs(), "a platform is not reached; trying again");
            let code = format!("{platform}_network_error");
            door.state.platform(platform, "retrying", Some((&code, reason)), self.clock.now());
            tokio::select! {
                () = self.clock.sleep(pause) => {}
                () = cancel.cancelled() => {}
            }
        }
    }
}

fn error_code(platform: &str, error: &ChannelError) -> String {
    match error {
        ChannelError::Conflict(_) => format!("{platform}_polling_conflict"),
        ChannelError::Reauthorise(_) => format!("{platform}_auth_error"),
        _ => format!("{platform}_connect_error"),
    }
}

fn error_reason(error: ChannelError) -> String {
    match error {
        ChannelError::DeliveryUnknown(reason)
        | ChannelError::Reauthorise(reason)
        | ChannelError::Refused(reason)
        | ChannelError::Conflict(reason)
        | ChannelError::Retry { reason, .. } => reason,
    }
}

/// The intake a channel passes its messages and connection status to.
struct SupervisedIntake {
    supervisor: Arc<ChannelSupervisor>,
    state: Arc<StateFile>,
    /// The failed attempts since the last connection.
    failures: AtomicU32,
    /// The status reported last: a channel may report the same one with every message.
    last_connection: Mutex<Option<ConnectionStatus>>,
}

impl Intake for SupervisedIntake {
    fn accept(&self, envelope: Envelope) -> BoxFuture<'_, Result<IntakeOutcome, ChannelError>> {
        self.supervisor.intake.accept(envelope)
    }

    fn decide_invitation(&self, platform: &str, user: &str, kind: ChatKind) -> InvitationDecision {
        self.supervisor.intake.decide_invitation(platform, user, kind)
    }

    fn report_connection(&self, platform: &str, connection: ConnectionStatus) {
        let before =
            self.last_connection.lock().unwrap_or_else(PoisonError::into_inner).replace(connection.clone());
        if before.as_ref() == Some(&connection) {
            return;
        }
        let now = self.supervisor.clock.now();
        match connection {
            ConnectionStatus::Up => {
                self.failures.store(0, Ordering::Relaxed);
                tracing::info!(target: "hermes::life", platform, "connected");
                // This also runs on the first connection: replies an earlier process postponed may be deliverable
                // now.
                let (delivery, name) = (self.supervisor.delivery.clone(), platform.to_owned());
                let work = async move { delivery.make_due(&name).await };
                drop(self.supervisor.tasks.spawn("sending what was put off", work));
                self.state.platform(platform, "connected", None, now);
            }
            ConnectionStatus::Down(reason) => {
                tracing::warn!(target: "hermes::life", platform, %reason, "the connection is lost; the channel tries again");
                let code = format!("{platform}_network_error");
                self.state.platform(platform, "retrying", Some((&code, reason)), now);
            }
        }
    }
}
