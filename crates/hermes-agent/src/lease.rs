//! Keeps other processes out of a conversation while a turn runs in it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermes_store::LeaseOutcome;
use hermes_types::SessionId;

use crate::agent::Agent;
use crate::conversation::Conversation;
use crate::error::Error;

/// The time after which a lease that is not renewed expires.
pub(crate) const LEASE_DURATION: Duration = Duration::from_mins(1);
const RENEW_EVERY: Duration = Duration::from_secs(20);

/// The session a turn holds; compression changes it.
#[derive(Debug, Clone)]
pub(crate) struct LeasedSession(Arc<Mutex<SessionId>>);

impl LeasedSession {
    pub(crate) fn new(session: SessionId) -> Self {
        Self(Arc::new(Mutex::new(session)))
    }

    pub(crate) fn move_to(&self, session: SessionId) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    fn session(&self) -> SessionId {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Renews a lease for as long as it is polled.
pub(crate) async fn keep_renewed(agent: &Agent, leased: LeasedSession) -> Infallible {
    loop {
        agent.clock.sleep(RENEW_EVERY).await;
        let session = leased.session();
        let renewed = agent
            .store
            .acquire_lease(session.as_str(), &agent.holder, agent.clock.now(), LEASE_DURATION)
            .await;
        if let Err(error) = renewed {
            tracing::warn!(%error, "a lease could not be renewed");
        }
    }
}

/// Releases the lease of a session when dropped, also when the work it was held for is abandoned.
pub(crate) struct LeaseGuard<'a> {
    agent: &'a Agent,
    session: SessionId,
}

impl<'a> LeaseGuard<'a> {
    /// Acquires the lease of a conversation.
    pub(crate) async fn acquire(agent: &'a Agent, conversation: &Conversation) -> Result<Self, Error> {
        acquire(agent, conversation).await?;
        Ok(Self { agent, session: conversation.session.clone() })
    }
}

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        drop(self.agent.store.release_lease(self.session.as_str(), &self.agent.holder));
    }
}

/// Acquires the lease of a conversation, also from a process that has died.
pub(crate) async fn acquire(agent: &Agent, conversation: &Conversation) -> Result<(), Error> {
    let key = conversation.session.as_str();
    match agent.store.acquire_lease(key, &agent.holder, agent.clock.now(), LEASE_DURATION).await? {
        LeaseOutcome::Granted => Ok(()),
        LeaseOutcome::HeldBy { holder, .. } if !hermes_task::may_be_alive(&holder) => {
            let now = agent.clock.now();
            let taken =
                agent.store.acquire_lease_from(key, &holder, &agent.holder, now, LEASE_DURATION).await?;
            if taken { Ok(()) } else { Err(Error::Busy { holder }) }
        }
        LeaseOutcome::HeldBy { holder, .. } => Err(Error::Busy { holder }),
    }
}

/// Releases the lease without waiting: later writes of this process are queued after it, and a lease that is
/// not released expires by itself.
pub(crate) fn release(agent: &Agent, conversation: &Conversation) {
    drop(agent.store.release_lease(conversation.session.as_str(), &agent.holder));
}
