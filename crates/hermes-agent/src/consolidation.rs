//! Asks the side model how memory files could be tidied. What becomes of its proposal is decided elsewhere.

use std::sync::Arc;
use std::time::Duration;

use hermes_knowledge::{ConsolidationPlan, ConsolidationRequest};
use hermes_store::{ModelCharge, Store};
use hermes_types::{Cancel, Clock, Deadline, Message, ModelError, ModelRequest, SessionId};

use crate::agent::AgentModels;
use crate::turn::CallUsage;

/// The name under which the costs are recorded.
const SESSION: &str = "memory-consolidation";
const MAX_TOKENS: u64 = 4_000;
const TIMEOUT: Duration = Duration::from_mins(2);

/// Asks for proposals, within the budget of one turn.
#[expect(missing_debug_implementations, reason = "it holds ports")]
pub struct ConsolidationAdviser {
    models: AgentModels,
    store: Store,
    clock: Arc<dyn Clock>,
}

impl ConsolidationAdviser {
    pub fn new(models: AgentModels, store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { models, store, clock }
    }

    /// Asks for a proposal about one file. An answer that is none proposes nothing.
    pub async fn propose(
        &self,
        request: &ConsolidationRequest,
        cancel: &Cancel,
    ) -> Result<ConsolidationPlan, ModelError> {
        let request = ModelRequest {
            model: self.models.side().name,
            system: request.system.to_owned(),
            messages: vec![Message::user(request.text.clone())],
            tools: Arc::default(),
            max_tokens: Some(MAX_TOKENS),
            temperature: Some(0.1),
            effort: None,
            session: None,
            deadline: Deadline::after(&*self.clock, TIMEOUT),
            cancel: cancel.clone(),
        };
        let completion = self.models.ask_side(&*self.clock, request).await?;
        let spent: CallUsage = (&completion).into();
        let charge = ModelCharge {
            at: self.clock.now(),
            session: SessionId::from(SESSION),
            turn: None,
            root_turn: None,
            job: None,
            provider: spent.provider,
            model: spent.model,
            usage: spent.usage,
            cost: spent.cost,
        };
        if let Err(error) = self.store.record_charge(charge).await {
            tracing::warn!(%error, "a charge was not recorded");
        }
        Ok(ConsolidationPlan::parse(&completion.message.content.text()).unwrap_or_default())
    }
}
