//! The HTTP servers beside the platforms: the API, and the one for webhooks, which platforms share.

use std::sync::Arc;

use hermes_channels::WebhookMounts;
use hermes_gateway::process::StateFile;
use hermes_gateway::{ChatMessageSender, Gateway, GatewayPorts};
use hermes_serve::{
    App, AppState, ServerHandle, ServerParts, ServerSettings, StartError, WebhookChannel, WebhookParts,
    WebhookSettings, start_webhooks,
};
use hermes_types::Cancel;

use crate::cli;
use crate::wiring::channels;

/// The running server for webhooks.
pub(super) struct WebhookServer {
    pub(super) handle: ServerHandle,
    pub(super) purpose: WebhookPurpose,
}

/// Says what the server for webhooks runs for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WebhookPurpose {
    /// Events of other services, and requests of platforms.
    Events,
    /// Only requests of platforms.
    Platforms,
}

/// Starts the servers beside the platforms. Like a failed platform, a server that cannot start does not affect the
/// others.
pub(super) struct ServerStarter<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) sender: &'a ChatMessageSender,
    pub(super) mounts: &'a WebhookMounts,
    pub(super) state: &'a StateFile,
    pub(super) cancel: &'a Cancel,
}

impl ServerStarter<'_> {
    /// Starts the webhook server, if it is enabled or a platform receives its messages there.
    pub(super) async fn start_webhooks(&self, ports: &GatewayPorts) -> Option<WebhookServer> {
        let (live, clock) = (self.sender.settings(), self.sender.clock());
        let current = live.current();
        let with_routes = WebhookSettings::resolve(&current.config, &current.env);
        let purpose = if with_routes.is_some() { WebhookPurpose::Events } else { WebhookPurpose::Platforms };
        let for_platforms = channels::use_shared_server(&current)
            .then(|| WebhookSettings::without_routes(&current.config, &current.env));
        let settings = with_routes.or(for_platforms)?;
        let now = clock.now();
        let parts = WebhookParts {
            intake: Arc::new(self.gateway.intake().clone()),
            clock: clock.clone(),
            skills: ports.skills.clone(),
            programs: ports.programs.clone(),
            outbox: self.sender.outbox().clone(),
            home: live.home().clone(),
            platforms: Arc::new(self.mounts.clone()),
        };
        match start_webhooks(parts, settings, self.cancel).await {
            Ok(handle) if purpose == WebhookPurpose::Platforms => {
                self.mounts.set_served();
                Some(WebhookServer { handle, purpose })
            }
            Ok(handle) => {
                self.mounts.set_served();
                let outbox = self.sender.outbox().clone();
                let answers = WebhookChannel::new(outbox, live.clone(), ports.programs.clone());
                self.sender.delivery().connect(Arc::new(answers));
                self.state.platform("webhook", "connected", None, now);
                Some(WebhookServer { handle, purpose })
            }
            Err(error) => {
                self.mark_failed("webhook", "webhook_start_failed", &error);
                None
            }
        }
    }

    /// Starts the API server, if it is enabled.
    pub(super) async fn start_api(&self, ports: &GatewayPorts) -> Option<(App, ServerHandle)> {
        let (live, clock) = (self.sender.settings(), self.sender.clock());
        let current = live.current();
        let settings = ServerSettings::resolve(&current.config, &current.env)?;
        let parts = ServerParts {
            store: self.sender.store().clone(),
            clock: clock.clone(),
            live: live.clone(),
            agents: ports.agents.clone(),
            gateway: self.gateway.status().clone(),
        };
        let started = match AppState::new(parts, settings, &cli::version(), self.cancel) {
            Ok(app) => hermes_serve::start(app.clone(), self.cancel).await.map(|listening| (app, listening)),
            Err(error) => Err(error),
        };
        match started {
            Ok(started) => {
                self.state.platform("api_server", "connected", None, clock.now());
                Some(started)
            }
            Err(error) => {
                let code = match &error {
                    StartError::Address { .. } => "api_server_port_in_use",
                    StartError::NoKey => "api_server_no_key",
                    _ => "api_server_start_failed",
                };
                self.mark_failed("api_server", code, &error);
                None
            }
        }
    }

    fn mark_failed(&self, platform: &str, code: &str, error: &StartError) {
        self.gateway.channels().mark_failed(platform, code, error.to_string(), self.state);
    }
}
