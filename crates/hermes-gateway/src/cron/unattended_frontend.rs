//! The frontend of a run without a user: it tracks activity and cost, and answers questions by the settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_config::Config;
use hermes_types::{
    ApprovalDecision, BoxFuture, Cancel, Clock, Frontend, TurnEvent, UserAnswer, UserQuestion,
};

/// Tracks activity and cost, and asks nobody.
pub(super) struct UnattendedFrontend {
    clock: Arc<dyn Clock>,
    /// The millionths of a dollar that may still be spent; above that the run is cancelled.
    remaining_micro_usd: Option<u64>,
    spent_micro_usd: AtomicU64,
    cancel: Cancel,
    commands: DangerousCommands,
    /// The time of the last activity, in milliseconds of the monotonic clock.
    last_activity_ms: AtomicU64,
}

/// Says what happens to commands that need an approval, as `approvals.cron_mode` sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DangerousCommands {
    Refuse,
    Run,
}

impl DangerousCommands {
    pub(super) fn configured(config: &Config) -> Self {
        if config.text("approvals.cron_mode") == "approve" { Self::Run } else { Self::Refuse }
    }
}

impl UnattendedFrontend {
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        left: Option<u64>,
        cancel: Cancel,
        commands: DangerousCommands,
    ) -> Self {
        let (spent, last) = (AtomicU64::new(0), AtomicU64::new(0));
        let watch = Self {
            clock,
            remaining_micro_usd: left,
            spent_micro_usd: spent,
            cancel,
            commands,
            last_activity_ms: last,
        };
        watch.record_activity();
        watch
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }

    fn record_activity(&self) {
        self.last_activity_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    pub(super) fn is_budget_spent(&self) -> bool {
        self.remaining_micro_usd.is_some_and(|left| self.spent_micro_usd.load(Ordering::Relaxed) >= left)
    }

    pub(super) async fn wait_until_silent(&self, patience: Duration) {
        loop {
            let silent = Duration::from_millis(
                self.now_ms().saturating_sub(self.last_activity_ms.load(Ordering::Relaxed)),
            );
            match patience.checked_sub(silent).filter(|left| !left.is_zero()) {
                Some(left) => self.clock.sleep(left).await,
                None => return,
            }
        }
    }
}

impl Frontend for UnattendedFrontend {
    fn show(&self, event: TurnEvent) {
        self.record_activity();
        if let TurnEvent::Spent { cost, .. } = event {
            self.spent_micro_usd.fetch_add(cost.micro_usd.unwrap_or_default(), Ordering::Relaxed);
            if self.is_budget_spent() {
                self.cancel.cancel();
            }
        }
    }

    fn ask<'a>(&'a self, question: UserQuestion, _: &'a Cancel) -> BoxFuture<'a, UserAnswer> {
        let answer = match (self.commands, question) {
            // Leaving the sandbox, writing outside the project and choosing another model still need a person's
            // approval.
            (DangerousCommands::Run, UserQuestion::Approve { danger, .. }) if !asks_for_more(&danger.key) => {
                UserAnswer::Approval(ApprovalDecision::Once)
            }
            _ => UserAnswer::Unavailable,
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Tells whether a question is about more than the danger of a command.
fn asks_for_more(key: &str) -> bool {
    ["outside the sandbox", "write outside the project", "cronjob model"]
        .iter()
        .any(|start| key.starts_with(start))
}
