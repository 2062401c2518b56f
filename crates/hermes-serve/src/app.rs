//! What the handlers share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_gateway::Gateway;
use hermes_store::Responses;
use hermes_task::Tasks;
use hermes_types::{Cancel, Timestamp};
use tokio::sync::Semaphore;

use crate::error::{ApiError, StartError};
use crate::idle::Idle;
use crate::keyed;
use crate::repeats::Repeats;
use crate::runs::Runs;
use crate::settings::ServerSettings;

/// One server. Clones are the same.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct App {
    inner: Arc<Inner>,
}

#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct Inner {
    pub(crate) gateway: Gateway,
    pub(crate) settings: ServerSettings,
    pub(crate) responses: Responses,
    /// Requests with a key that run here.
    pub(crate) keyed: keyed::Running,
    /// Requests without a key that a client may repeat by itself.
    pub(crate) repeats: Repeats,
    pub(crate) idle: Idle,
    pub(crate) runs: Runs,
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) tasks: Tasks,
    /// Sessions in which a turn of ours runs.
    active: Mutex<HashSet<String>>,
    pub(crate) started_at: Timestamp,
    pub(crate) version: String,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl App {
    pub fn new(
        gateway: Gateway,
        settings: ServerSettings,
        version: &str,
        cancel: &Cancel,
    ) -> Result<Self, StartError> {
        settings.check()?;
        let responses = Responses::open(&gateway.live.home().join("response_store.db"))?;
        let turns = Arc::new(Semaphore::new(settings.most_turns));
        let started_at = gateway.clock.now();
        Ok(Self {
            inner: Arc::new(Inner {
                keyed: keyed::Running::default(),
                repeats: Repeats::default(),
                idle: Idle::default(),
                runs: Runs::default(),
                tasks: Tasks::new(cancel),
                active: Mutex::default(),
                version: version.to_owned(),
                gateway,
                settings,
                responses,
                turns,
                started_at,
            }),
        })
    }

    /// A place among the turns that may run at once.
    pub(crate) fn room(&self) -> Result<tokio::sync::OwnedSemaphorePermit, ApiError> {
        if self.gateway.is_draining() {
            return Err(ApiError::draining());
        }
        self.turns.clone().try_acquire_owned().map_err(|_| ApiError::busy())
    }

    /// Takes a session for one turn. Nothing, when one of ours is in it.
    pub(crate) fn occupy(&self, session: &str) -> Option<Occupied> {
        self.lock()
            .insert(session.to_owned())
            .then(|| Occupied { app: self.clone(), session: session.to_owned() })
    }

    /// Turns that are running.
    pub fn running(&self) -> usize {
        self.settings.most_turns - self.turns.available_permits()
    }

    pub(crate) fn seconds(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds since 1970")]
        let seconds = self.gateway.clock.now().seconds().max(0.0) as u64;
        seconds
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session while a turn runs in it.
pub(crate) struct Occupied {
    app: App,
    session: String,
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.app.lock().remove(&self.session);
    }
}
