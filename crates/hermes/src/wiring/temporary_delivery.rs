//! Sending from a process that is not the gateway.
//!
//! Messages go through the outbox all the same. While a gateway runs, it sends them; else a [`TemporaryDelivery`]
//! does, for as long as a command needs it. Invariant: one process of a home sends at a time.

use std::sync::Arc;
use std::time::Duration;

use hermes_agent::Agent;
use hermes_gateway::process::{self, SendingLock};
use hermes_gateway::{
    AgentProvider, AgentRequest, Gateway, GatewayPorts, LiveSettings, NoObserver, Services,
};
use hermes_store::Store;
use hermes_types::{
    BoxFuture, Cancel, ChannelCapabilities, ChannelError, Clock, MessageSender, SendOutcome, SessionId,
};

use super::channels;
use crate::context::local_time;

/// Limits the wait for other queued messages once the command's own message has been sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends in place of a gateway that does not run, until it is dropped.
pub(crate) struct TemporaryDelivery {
    gateway: Gateway,
    _right: SendingLock,
}

impl TemporaryDelivery {
    /// Starts sending queued messages, unless another process does.
    pub(crate) async fn start(gateway: &Gateway) -> Option<Self> {
        let home = gateway.settings.home();
        let right = SendingLock::try_acquire(home).unwrap_or_else(|error| {
            tracing::warn!(%error, "nothing is sent from here");
            None
        })?;
        // Checked after the lock is acquired: a gateway that starts later waits for the lock.
        if process::running_pid(home).is_some() {
            return None;
        }
        if let Err(error) = gateway.store.recover_outbox().await {
            tracing::warn!(%error, "what an earlier process was sending is left alone");
        }
        channels::connect(gateway);
        // Messages an earlier process postponed may be deliverable now, and must not block later ones.
        gateway.make_due().await;
        Some(Self { gateway: gateway.clone(), _right: right })
    }

    /// Waits until the due messages have been sent, and stops sending.
    pub(crate) async fn finish(self, patience: Duration) {
        self.gateway.flush_outbox(patience).await;
    }
}

impl Drop for TemporaryDelivery {
    /// Disconnects the platforms before the lock is released.
    fn drop(&mut self) {
        for platform in self.gateway.platforms() {
            self.gateway.disconnect(&platform);
        }
    }
}

/// Sends messages to chats for a command or a terminal chat.
pub(crate) struct OutboxMessageSender {
    gateway: Gateway,
}

impl OutboxMessageSender {
    /// Creates a sender. Nothing is read or sent before the first message.
    pub(crate) fn new(live: LiveSettings, store: Store, clock: Arc<dyn Clock>) -> Self {
        let services = Arc::new(PlatformServices { live: live.clone() });
        let ports = GatewayPorts { agents: Arc::new(NoAgents), services, observer: Arc::new(NoObserver) };
        Self { gateway: Gateway::new(store, clock, Arc::new(local_time), live, ports, &Cancel::new()) }
    }

    async fn send_message(
        &self,
        target: &str,
        text: &str,
        from: Option<&SessionId>,
    ) -> Result<SendOutcome, ChannelError> {
        let Some(stand_in) = TemporaryDelivery::start(&self.gateway).await else {
            return self.gateway.deliver(target, text, from).await;
        };
        let platform = target.split(':').next().unwrap_or_default().trim().to_lowercase();
        let sent = if self.gateway.platforms().contains(&platform) {
            self.gateway.deliver(target, text, from).await
        } else {
            Err(ChannelError::Refused(format!(
                "{platform} is not set up, so nothing was sent; `hermes gateway setup` does it"
            )))
        };
        stand_in.finish(FLUSH_TIMEOUT).await;
        sent
    }
}

impl MessageSender for OutboxMessageSender {
    fn deliver<'a>(
        &'a self,
        target: &'a str,
        text: &'a str,
        from: Option<&'a SessionId>,
    ) -> BoxFuture<'a, Result<SendOutcome, ChannelError>> {
        Box::pin(self.send_message(target, text, from))
    }

    fn targets(&self) -> BoxFuture<'_, Vec<String>> {
        self.gateway.targets()
    }
}

/// An agent source for a gateway that runs no turns.
struct NoAgents;

impl AgentProvider for NoAgents {
    fn agent(&self, _: &AgentRequest<'_>) -> Result<Agent, String> {
        Err("no turns are run here".to_owned())
    }
}

/// Services that know only the platforms.
struct PlatformServices {
    live: LiveSettings,
}

impl Services for PlatformServices {
    fn abilities(&self, platform: &str) -> Option<ChannelCapabilities> {
        channels::abilities(platform)
    }

    fn is_set_up(&self, platform: &str) -> bool {
        channels::is_set_up(platform, &self.live.current())
    }
}
