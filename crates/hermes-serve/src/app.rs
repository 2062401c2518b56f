//! The state the handlers share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_gateway::cron::JobList;
use hermes_gateway::{AgentProvider, GatewayStatus, LiveSettings};
use hermes_store::{ResponseStore, Store};
use hermes_task::TaskGroup;
use hermes_types::{Cancel, Clock, Timestamp};
use tokio::sync::Semaphore;

use crate::error::{ApiError, StartError};
use crate::idempotency;
use crate::idle::IdleSessions;
use crate::repeats::RepeatDetector;
use crate::runs::RunRegistry;
use crate::settings::ServerSettings;

/// A handle to the server, as the handlers get it.
pub type App = Arc<AppState>;

/// The state of the server.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct AppState {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) live: LiveSettings,
    pub(crate) agents: Arc<dyn AgentProvider>,
    pub(crate) jobs: JobList,
    pub(crate) gateway: GatewayStatus,
    pub(crate) settings: ServerSettings,
    pub(crate) responses: ResponseStore,
    /// The keyed requests that run in this process.
    pub(crate) running_requests: idempotency::RunningRequests,
    /// Requests without a key that a client library may repeat.
    pub(crate) repeats: RepeatDetector,
    pub(crate) idle: IdleSessions,
    pub(crate) runs: RunRegistry,
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) tasks: TaskGroup,
    /// Sessions in which a turn of this server runs.
    active: Mutex<HashSet<String>>,
    pub(crate) started_at: Timestamp,
    pub(crate) version: String,
}

/// What the server runs turns with, and what it tells about.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct ServerParts {
    pub store: Store,
    pub clock: Arc<dyn Clock>,
    pub live: LiveSettings,
    pub agents: Arc<dyn AgentProvider>,
    pub gateway: GatewayStatus,
}

impl AppState {
    pub fn new(
        parts: ServerParts,
        settings: ServerSettings,
        version: &str,
        cancel: &Cancel,
    ) -> Result<Arc<Self>, StartError> {
        settings.check()?;
        let ServerParts { store, clock, live, agents, gateway } = parts;
        let responses = ResponseStore::open(&live.home().join("response_store.db"))?;
        let turns = Arc::new(Semaphore::new(settings.max_turns));
        let started_at = clock.now();
        Ok(Arc::new(Self {
            running_requests: idempotency::RunningRequests::default(),
            repeats: RepeatDetector::default(),
            idle: IdleSessions::default(),
            runs: RunRegistry::default(),
            tasks: TaskGroup::new(cancel),
            active: Mutex::default(),
            version: version.to_owned(),
            jobs: JobList::new(live.clone()),
            store,
            clock,
            live,
            agents,
            gateway,
            settings,
            responses,
            turns,
            started_at,
        }))
    }

    /// Reserves one of the turns that may run at once.
    pub(crate) fn acquire_turn_permit(&self) -> Result<tokio::sync::OwnedSemaphorePermit, ApiError> {
        if self.gateway.is_draining() {
            return Err(ApiError::draining());
        }
        self.turns.clone().try_acquire_owned().map_err(|_| ApiError::busy())
    }

    /// Reserves a session for one turn. Returns `None` when a turn of this server runs in it.
    pub(crate) fn lock_session(self: &Arc<Self>, session: &str) -> Option<SessionGuard> {
        self.lock()
            .insert(session.to_owned())
            .then(|| SessionGuard { app: self.clone(), session: session.to_owned() })
    }

    /// Returns the number of running turns.
    pub fn active_turns(&self) -> usize {
        self.settings.max_turns - self.turns.available_permits()
    }

    pub(crate) fn unix_seconds(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds since 1970")]
        let seconds = self.clock.now().seconds().max(0.0) as u64;
        seconds
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserves a session while a turn runs in it.
pub(crate) struct SessionGuard {
    app: App,
    session: String,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.app.lock().remove(&self.session);
    }
}
