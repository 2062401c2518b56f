//! The most a turn may spend, with everything it starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_types::{BoxFuture, Completion, Cost, DeltaSink, Model, ModelError, Request, SpendingCap, Usage};

/// One account for a turn and its children; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    cap: SpendingCap,
    spent: Arc<Spent>,
}

#[derive(Debug, Default)]
struct Spent {
    micro_usd: AtomicU64,
    tokens: AtomicU64,
    unpriced: AtomicU64,
}

impl Budget {
    pub fn new(cap: SpendingCap) -> Self {
        Self { cap, spent: Arc::default() }
    }

    /// Whether another call may be made. The words say what was reached and which setting raises it.
    pub fn check(&self) -> Result<(), ModelError> {
        let (money, tokens) = (self.micro_usd(), self.spent.tokens.load(Ordering::Relaxed));
        if let Some(cap) = self.cap.micro_usd.filter(|cap| money >= *cap) {
            return Err(ModelError::Budget(format!(
                "This turn has spent {} of its limit of {}. Raise `budget.per_turn_usd` to go on.",
                dollars(money),
                dollars(cap)
            )));
        }
        if let Some(cap) = self.cap.tokens.filter(|cap| tokens >= *cap) {
            return Err(ModelError::Budget(format!(
                "This turn has used {tokens} of its limit of {cap} tokens."
            )));
        }
        Ok(())
    }

    pub fn charge(&self, usage: Usage, cost: Cost) {
        self.spent.tokens.fetch_add(usage.total(), Ordering::Relaxed);
        match cost.micro_usd {
            Some(amount) => self.spent.micro_usd.fetch_add(amount, Ordering::Relaxed),
            None => self.spent.unpriced.fetch_add(1, Ordering::Relaxed),
        };
    }

    pub fn micro_usd(&self) -> u64 {
        self.spent.micro_usd.load(Ordering::Relaxed)
    }

    /// Calls whose price is not known; a limit in dollars cannot see them.
    pub fn unpriced_calls(&self) -> u64 {
        self.spent.unpriced.load(Ordering::Relaxed)
    }
}

fn dollars(micro_usd: u64) -> String {
    format!("${}.{:04}", micro_usd / 1_000_000, micro_usd % 1_000_000 / 100)
}

/// A model that asks its budget before each call and tells it after.
#[expect(missing_debug_implementations, reason = "it only holds ports")]
#[derive(Clone)]
pub struct BudgetedModel {
    inner: Arc<dyn Model>,
    budget: Budget,
}

impl BudgetedModel {
    pub fn new(inner: Arc<dyn Model>, budget: Budget) -> Self {
        Self { inner, budget }
    }
}

impl Model for BudgetedModel {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        sink: DeltaSink<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(async move {
            self.budget.check()?;
            let completion = self.inner.complete(request, sink).await?;
            self.budget.charge(completion.usage.unwrap_or_default(), completion.cost);
            Ok(completion)
        })
    }

    fn context_window(&self, model: &str) -> u64 {
        self.inner.context_window(model)
    }
}

#[cfg(test)]
mod tests {
    use hermes_types::CostStatus;

    use super::*;

    #[test]
    fn a_limit_is_shared_by_the_whole_tree() {
        let parent = Budget::new(SpendingCap { micro_usd: Some(2_500_000), tokens: None });
        let child = parent.clone();
        let cost = Cost { micro_usd: Some(1_300_000), status: CostStatus::Estimated };
        child.charge(Usage::default(), cost);
        assert_eq!(parent.check(), Ok(()));
        parent.charge(Usage::default(), cost);
        let refusal = child.check().unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "This turn has spent $2.6000 of its limit of $2.5000. Raise `budget.per_turn_usd` to go on."
        );
    }

    #[test]
    fn tokens_are_counted_and_unknown_prices_said() {
        let budget = Budget::new(SpendingCap { micro_usd: Some(1), tokens: Some(100) });
        budget.charge(Usage { input: 90, output: 10, ..Usage::default() }, Cost::UNKNOWN);
        assert_eq!(budget.unpriced_calls(), 1);
        assert!(budget.check().unwrap_err().to_string().contains("100 of its limit of 100 tokens"));
    }
}
