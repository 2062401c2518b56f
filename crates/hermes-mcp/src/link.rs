//! The link to one server: its connection, kept up by a task, and what is known of the server.
//!
//! Invariant: the tools of a server that is being connected again stay listed, so that a short failure does not change
//! the prompt; they disappear when connecting fails for good or the server leaves the configuration.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_config::settings::McpServer;
use hermes_types::Cancel;
use rmcp::RoleClient;
use rmcp::model::ProgressToken;
use rmcp::service::Peer;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};

use crate::connect::connect;
use crate::connections::SharedParts;
use crate::elicitation::ElicitationRouter;
use crate::error::Error;
use crate::event_handler::EventHandler;
use crate::listing::{ServerListing, list_tools};
use crate::sampling::SamplingService;

/// The attempts to connect a server that never was connected, beyond the first.
const FIRST_ATTEMPTS: u32 = 3;
/// The attempts to connect a server again.
const RECONNECT_ATTEMPTS: u32 = 5;
const LONGEST_BACKOFF: Duration = Duration::from_mins(1);
/// The time in which a connection closes when it is given up.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection that lasted this long resets the count of attempts.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// The link to one server.
pub(crate) struct ServerLink {
    pub(crate) server: McpServer,
    pub(crate) shared: Arc<SharedParts>,
    pub(crate) progress: ProgressRouter,
    pub(crate) sampling: SamplingService,
    pub(crate) elicitations: ElicitationRouter,
    state: watch::Sender<LinkState>,
    listing: Mutex<Option<Arc<ServerListing>>>,
    /// Notified when the server says that its tools changed.
    pub(crate) list_changed: Notify,
    /// Notified when a failed server is wanted.
    wanted: Notify,
    cancel: Cancel,
}

/// The state of a link.
#[derive(Debug, Clone)]
pub(crate) enum LinkState {
    Connecting,
    Connected(Peer<RoleClient>),
    Failed(Error),
    Stopped,
}

impl ServerLink {
    pub(crate) fn new(server: McpServer, shared: Arc<SharedParts>, cancel: Cancel) -> Self {
        let sampling = SamplingService::new(&server.sampling, shared.sampling.clone(), shared.clock.clone());
        Self {
            server,
            shared,
            progress: ProgressRouter::default(),
            sampling,
            elicitations: ElicitationRouter::default(),
            state: watch::Sender::new(LinkState::Connecting),
            listing: Mutex::default(),
            list_changed: Notify::new(),
            wanted: Notify::new(),
            cancel,
        }
    }

    pub(crate) fn state(&self) -> LinkState {
        self.state.borrow().clone()
    }

    pub(crate) fn listing(&self) -> Option<Arc<ServerListing>> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn stop(&self) {
        self.cancel.cancel();
    }

    /// Waits until the first attempt has come to a result.
    pub(crate) async fn settled(&self) {
        let mut state = self.state.subscribe();
        // The sender lives as long as the link.
        let _ = state.wait_for(|state| !matches!(state, LinkState::Connecting)).await;
    }

    /// Returns the connection, and waits a little for one that is being made. A server that was given up is connected
    /// again.
    pub(crate) async fn connected_peer(&self, wait: Duration, cancel: &Cancel) -> Option<Peer<RoleClient>> {
        match self.state() {
            LinkState::Connected(peer) if !peer.is_transport_closed() => return Some(peer),
            LinkState::Failed(error) if error.is_temporary() => self.wanted.notify_one(),
            LinkState::Failed(_) | LinkState::Stopped => return None,
            LinkState::Connected(_) | LinkState::Connecting => {}
        }
        let mut state = self.state.subscribe();
        let connected = state.wait_for(|state| match state {
            LinkState::Connected(peer) => !peer.is_transport_closed(),
            LinkState::Stopped => true,
            LinkState::Connecting | LinkState::Failed(_) => false,
        });
        tokio::select! {
            biased;
            found = connected => match found.ok()?.clone() {
                LinkState::Connected(peer) => Some(peer),
                _ => None,
            },
            () = cancel.cancelled() => None,
            () = self.shared.clock.sleep(wait) => None,
        }
    }

    /// Approves the present version of a tool.
    pub(crate) fn approve(&self, tool: &str) -> Result<(), Error> {
        let Some(listing) = self.listing() else { return Ok(()) };
        let found: Vec<_> = listing.tools.iter().filter(|known| known.name == tool).cloned().collect();
        self.shared.approved.approve(&self.server, &found)?;
        let mut changed = listing.as_ref().clone();
        changed.approvals.insert(tool.to_owned(), crate::approved_tools::ToolApproval::Approved);
        self.set_listing(Some(changed));
        Ok(())
    }

    fn set_listing(&self, listing: Option<ServerListing>) {
        *self.listing.lock().unwrap_or_else(PoisonError::into_inner) = listing.map(Arc::new);
        self.shared.mark_changed();
    }

    /// Keeps the server connected until it is stopped or given up.
    pub(crate) async fn run(self: Arc<Self>) {
        let cancel = self.cancel.clone();
        let mut attempts = 0;
        let mut was_connected = false;
        while !cancel.is_cancelled() {
            let error = match self.attempt(&cancel).await {
                Attempt::Stopped => break,
                Attempt::Failed(error) => error,
                Attempt::Disconnected { lasted } => {
                    if lasted >= STABLE_AFTER {
                        attempts = 0;
                    }
                    was_connected = true;
                    Error::Unavailable("the server has ended".to_owned())
                }
            };
            let most = if was_connected { RECONNECT_ATTEMPTS } else { FIRST_ATTEMPTS };
            if error.is_temporary() && attempts < most {
                // Whoever waits for the first result of a server that never was connected has it.
                let state =
                    if was_connected { LinkState::Connecting } else { LinkState::Failed(error.clone()) };
                self.state.send_replace(state);
                let wait = Duration::from_secs(1 << attempts.min(6)).min(LONGEST_BACKOFF);
                attempts += 1;
                tracing::info!(server = self.server.name, %error, ?wait, "an MCP server is not connected; trying again");
                tokio::select! {
                    biased;
                    () = cancel.cancelled() => break,
                    () = self.shared.clock.sleep(wait) => continue,
                    () = self.wanted.notified() => continue,
                }
            }
            tracing::warn!(server = self.server.name, %error, "an MCP server is not available");
            self.state.send_replace(LinkState::Failed(error));
            self.set_listing(None);
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = self.wanted.notified() => attempts = 0,
            }
        }
        self.state.send_replace(LinkState::Stopped);
        self.set_listing(None);
    }

    /// Connects once, and stays until the connection ends.
    async fn attempt(self: &Arc<Self>, cancel: &Cancel) -> Attempt {
        let clock = &self.shared.clock;
        let opened = async {
            let service = connect(&self.server, &self.shared, EventHandler::new(self)).await?;
            let listing = self.read_listing(service.peer()).await?;
            Ok::<_, Error>((service, listing))
        };
        let limit = self.server.connect_timeout;
        let opened = tokio::select! {
            biased;
            () = cancel.cancelled() => return Attempt::Stopped,
            opened = opened => opened,
            () = clock.sleep(limit) => Err(Error::TimedOut { seconds: limit.as_secs() }),
        };
        let (service, listing) = match opened {
            Ok(opened) => opened,
            Err(error) => return Attempt::Failed(error),
        };
        let began = clock.monotonic();
        tracing::info!(server = self.server.name, tools = listing.tools.len(), "an MCP server is connected");
        self.set_listing(Some(listing));
        let (peer, closing) = (service.peer().clone(), service.cancellation_token());
        self.state.send_replace(LinkState::Connected(peer.clone()));
        let mut closed = pin!(service.waiting());
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    closing.cancel();
                    tokio::select! {
                        biased;
                        _ = &mut closed => {}
                        () = clock.sleep(CLOSE_TIMEOUT) => {}
                    }
                    return Attempt::Stopped;
                }
                reason = &mut closed => {
                    tracing::info!(server = self.server.name, ?reason, "an MCP server has disconnected");
                    return Attempt::Disconnected { lasted: clock.monotonic().saturating_sub(began) };
                }
                () = self.list_changed.notified() => match self.read_listing(&peer).await {
                    Ok(listing) => self.set_listing(Some(listing)),
                    Err(error) => tracing::warn!(server = self.server.name, %error, "the tools were not read again"),
                },
            }
        }
    }

    async fn read_listing(&self, peer: &Peer<RoleClient>) -> Result<ServerListing, Error> {
        let mut tools = list_tools(peer).await?;
        let approvals = self.shared.approved.judge(&self.server, &tools)?;
        tools.retain(|tool| self.server.offers(&tool.name));
        let capabilities = peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
        Ok(ServerListing {
            tools,
            approvals,
            has_resources: self.server.resources && capabilities.resources.is_some(),
            has_prompts: self.server.prompts && capabilities.prompts.is_some(),
        })
    }
}

/// How an attempt to connect ended.
enum Attempt {
    Stopped,
    Failed(Error),
    Disconnected { lasted: Duration },
}

/// Passes messages of progress on to the calls they belong to.
#[derive(Debug, Default)]
pub(crate) struct ProgressRouter(Mutex<HashMap<ProgressToken, UnboundedSender<String>>>);

impl ProgressRouter {
    pub(crate) fn listen(&self, token: &ProgressToken) -> UnboundedReceiver<String> {
        let (sender, receiver) = unbounded_channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(token.clone(), sender);
        receiver
    }

    pub(crate) fn forget(&self, token: &ProgressToken) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    pub(crate) fn pass_on(&self, token: &ProgressToken, text: String) {
        if let Some(sender) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(token) {
            // The call may have ended a moment ago.
            let _ = sender.send(text);
        }
    }
}
