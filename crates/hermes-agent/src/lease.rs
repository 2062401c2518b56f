//! Keeping a conversation to ourselves while a turn runs in it.

use std::convert::Infallible;
use std::time::Duration;

use crate::agent::Agent;

/// How long a lease holds without a word from its holder.
pub(crate) const SPAN: Duration = Duration::from_mins(1);
const RENEW_EVERY: Duration = Duration::from_secs(20);

/// Renews a lease for as long as it is polled.
pub(crate) async fn keep(agent: &Agent, conversation: &str) -> Infallible {
    loop {
        agent.clock.sleep(RENEW_EVERY).await;
        let renewed = agent.store.take_lease(conversation, &agent.holder, agent.clock.now(), SPAN).await;
        if let Err(error) = renewed {
            tracing::warn!(%error, "a lease could not be renewed");
        }
    }
}
