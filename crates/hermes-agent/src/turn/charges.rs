//! The charges of a turn's model calls: recorded for the session's totals and for the ledger that spending limits
//! are based on.
//!
//! Invariant: a charge is queued before the message of its call, and the turn waits for it before its next step.

use hermes_store::{Error as StoreError, ModelCharge, PendingResult, SessionBilling, UsageUpdate};
use hermes_types::{Completion, Cost, SessionId, Usage};

use super::scope::TurnScope;

/// The usage of one call and the model that answered it.
#[derive(Debug, Clone)]
pub(crate) struct CallUsage {
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
    pub(crate) provider: String,
    pub(crate) model: String,
}

impl From<&Completion> for CallUsage {
    fn from(completion: &Completion) -> Self {
        Self {
            usage: completion.usage.unwrap_or_default(),
            cost: completion.cost,
            provider: completion.provider.clone(),
            model: completion.model.clone(),
        }
    }
}

/// The charges of a turn that are queued for the database.
pub(crate) struct TurnCharges<'a> {
    scope: &'a TurnScope<'a>,
    pending: Vec<PendingResult<()>>,
}

impl<'a> TurnCharges<'a> {
    pub(super) fn new(scope: &'a TurnScope<'a>) -> Self {
        Self { scope, pending: Vec::new() }
    }

    /// Queues a call's usage for the totals of its session and the ledger, so that it is stored with the call's
    /// message.
    pub(crate) fn record(&mut self, session: &SessionId, spent: CallUsage) {
        let agent = self.scope.agent;
        let CallUsage { usage, cost, provider, model } = spent;
        let base_url = Some(agent.models.base_url.clone()).filter(|address| !address.is_empty());
        let billing = SessionBilling {
            provider: Some(provider.clone()),
            model: Some(model.clone()),
            base_url,
            ..SessionBilling::default()
        };
        let totals = agent.store.record_usage(session, UsageUpdate::Add, usage, cost, billing);
        let charge = agent.store.record_charge(ModelCharge {
            at: agent.clock.now(),
            session: session.clone(),
            turn: Some(self.scope.turn.clone()),
            root_turn: Some(self.scope.root.clone()),
            job: agent.job.clone(),
            provider,
            model,
            usage,
            cost,
        });
        self.pending.extend([totals, charge]);
    }

    /// Waits until the whole cost of the turn is stored.
    pub(crate) async fn wait(&mut self) -> Result<(), StoreError> {
        for owed in std::mem::take(&mut self.pending) {
            owed.await?;
        }
        Ok(())
    }
}
