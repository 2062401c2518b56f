//! Limits the spending of a turn and of a day, and is checked before each call.
//!
//! Counts in memory only. The caller that keeps the ledger passes earlier spending in as a number. Invariant: a
//! call is refused as soon as one of the accounts it is charged to has reached its limit, and the refusal names the
//! setting that raises it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_types::{
    BoxFuture, Completion, Cost, DeltaSink, Model, ModelError, ModelRequest, SpendingCap, Usage,
};

/// The unit whose spending an account counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Turn,
    Day,
    Run,
}

/// One limit and the amount spent under it; clones share the count.
#[derive(Debug, Clone)]
pub struct SpendingAccount {
    scope: Scope,
    cap: SpendingCap,
    spent: Arc<SpendingCounters>,
}

#[derive(Debug, Default)]
struct SpendingCounters {
    micro_usd: AtomicU64,
    tokens: AtomicU64,
    unpriced: AtomicU64,
}

impl SpendingAccount {
    /// Creates the account of the current day, of which `spent` has been used already. The next day needs a new
    /// account.
    pub fn day(limit_micro_usd: u64, spent_micro_usd: u64) -> Self {
        let micro_usd = AtomicU64::new(spent_micro_usd);
        Self {
            scope: Scope::Day,
            cap: SpendingCap { micro_usd: Some(limit_micro_usd), tokens: None },
            spent: Arc::new(SpendingCounters { micro_usd, ..SpendingCounters::default() }),
        }
    }

    /// Creates the account of a run of many conversations.
    pub fn run(limit_micro_usd: u64) -> Self {
        let cap = SpendingCap { micro_usd: Some(limit_micro_usd), tokens: None };
        Self { scope: Scope::Run, cap, spent: Arc::default() }
    }

    fn turn(cap: SpendingCap) -> Self {
        Self { scope: Scope::Turn, cap, spent: Arc::default() }
    }

    fn check(&self) -> Result<(), ModelError> {
        let (money, tokens) = (self.micro_usd(), self.spent.tokens.load(Ordering::Relaxed));
        if let Some(cap) = self.cap.micro_usd.filter(|cap| money >= *cap) {
            let (who, key) = match self.scope {
                Scope::Turn => ("This turn has", "budget.per_turn_usd"),
                Scope::Day => ("Today's calls have", "budget.per_day_usd"),
                Scope::Run => ("This run has", "--max-cost"),
            };
            let its = if self.scope == Scope::Day { "their" } else { "its" };
            return Err(ModelError::Budget(format!(
                "{who} spent {} of {its} limit of {}. Raise `{key}` to go on.",
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

    fn charge(&self, usage: Usage, cost: Cost) {
        self.spent.tokens.fetch_add(usage.total(), Ordering::Relaxed);
        match cost.micro_usd {
            Some(amount) => self.spent.micro_usd.fetch_add(amount, Ordering::Relaxed),
            None => self.spent.unpriced.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Returns the amount spent, including what was spent before.
    pub fn micro_usd(&self) -> u64 {
        self.spent.micro_usd.load(Ordering::Relaxed)
    }
}

/// The accounts that a turn and its child agents are charged to; clones share them.
#[derive(Debug, Clone)]
pub struct Budget {
    turn: SpendingAccount,
    /// Accounts that outlive the turn.
    others: Vec<SpendingAccount>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(SpendingCap::default())
    }
}

impl Budget {
    /// Creates a budget with a limit for one turn.
    pub fn new(cap: SpendingCap) -> Self {
        Self { turn: SpendingAccount::turn(cap), others: Vec::new() }
    }

    /// Adds an account that is charged too, and that other turns may share.
    #[must_use]
    pub fn with_account(mut self, account: SpendingAccount) -> Self {
        self.others.push(account);
        self
    }

    /// Tells whether another call may be made. The error says which limit was reached and which setting raises it.
    pub fn check(&self) -> Result<(), ModelError> {
        self.accounts().try_for_each(SpendingAccount::check)
    }

    pub fn charge(&self, usage: Usage, cost: Cost) {
        self.accounts().for_each(|account| account.charge(usage, cost));
    }

    /// Returns what this turn has spent.
    pub fn micro_usd(&self) -> u64 {
        self.turn.micro_usd()
    }

    /// Returns the number of calls without a known price, which a limit in dollars cannot count.
    pub fn unpriced_calls(&self) -> u64 {
        self.turn.spent.unpriced.load(Ordering::Relaxed)
    }

    fn accounts(&self) -> impl Iterator<Item = &SpendingAccount> {
        std::iter::once(&self.turn).chain(&self.others)
    }
}

fn dollars(micro_usd: u64) -> String {
    format!("${}.{:04}", micro_usd / 1_000_000, micro_usd % 1_000_000 / 100)
}

/// A model that checks its budget before each call and charges it afterwards.
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
        request: &'a ModelRequest,
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

    fn within_budget(&self, other: Arc<dyn Model>) -> Arc<dyn Model> {
        Arc::new(Self::new(other, self.budget.clone()))
    }
}

#[cfg(test)]
mod tests {
    use hermes_types::CostStatus;

    use super::*;

    const A_DOLLAR: Cost = Cost { micro_usd: Some(1_000_000), status: CostStatus::Estimated };

    #[track_caller]
    fn refusal(budget: &Budget) -> String {
        budget.check().unwrap_err().to_string()
    }

    #[test]
    fn the_limit_of_a_run_is_shared_by_its_turns() {
        let run = SpendingAccount::run(1_500_000);
        let turn = || Budget::new(SpendingCap::default()).with_account(run.clone());
        turn().charge(Usage::default(), A_DOLLAR);
        assert_eq!(turn().check(), Ok(()));
        turn().charge(Usage::default(), A_DOLLAR);
        let said = refusal(&turn());
        assert!(
            said.contains("This run has spent $2.0000 of its limit of $1.5000. Raise `--max-cost`"),
            "{said}"
        );
    }

    #[test]
    fn a_limit_is_shared_by_the_whole_tree() {
        let parent = Budget::new(SpendingCap { micro_usd: Some(2_500_000), tokens: None });
        let child = parent.clone();
        let cost = Cost { micro_usd: Some(1_300_000), status: CostStatus::Estimated };
        child.charge(Usage::default(), cost);
        assert_eq!(parent.check(), Ok(()));
        parent.charge(Usage::default(), cost);
        assert_eq!(
            refusal(&child),
            "This turn has spent $2.6000 of its limit of $2.5000. Raise `budget.per_turn_usd` to go on."
        );
    }

    #[test]
    fn tokens_are_counted_and_unknown_prices_said() {
        let budget = Budget::new(SpendingCap { micro_usd: Some(1), tokens: Some(100) });
        budget.charge(Usage { input: 90, output: 10, ..Usage::default() }, Cost::UNKNOWN);
        assert_eq!(budget.unpriced_calls(), 1);
        assert!(refusal(&budget).contains("100 of its limit of 100 tokens"));
    }

    #[test]
    fn a_day_begins_with_what_was_spent() {
        let day = Budget::default().with_account(SpendingAccount::day(5_000_000, 4_000_000));
        assert_eq!(day.check(), Ok(()));
        day.charge(Usage::default(), A_DOLLAR);
        assert_eq!(
            refusal(&day),
            "Today's calls have spent $5.0000 of their limit of $5.0000. Raise `budget.per_day_usd` to go on."
        );
        assert_eq!(day.micro_usd(), 1_000_000);
    }

    #[test]
    fn turns_share_an_account() {
        let today = SpendingAccount::day(1_500_000, 0);
        let turns =
            [Budget::default().with_account(today.clone()), Budget::default().with_account(today.clone())];
        turns[0].charge(Usage::default(), A_DOLLAR);
        assert_eq!(turns[1].check(), Ok(()));
        turns[1].charge(Usage::default(), A_DOLLAR);
        assert!(turns[0].check().is_err() && turns[1].check().is_err());
        assert_eq!((today.micro_usd(), turns[0].micro_usd()), (2_000_000, 1_000_000));
    }
}
