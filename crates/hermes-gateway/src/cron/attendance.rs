//! Who is there while a job runs: nobody, but its signs of life and what it costs are noticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_config::Config;
use hermes_types::{Answer, Approval, BoxFuture, Cancel, Clock, Event, Frontend, Question};

/// Notices that something happens and what it costs, and answers no questions.
pub(super) struct Attendance {
    clock: Arc<dyn Clock>,
    /// Millionths of a dollar that may be spent, and what ends the run when they are.
    left: Option<u64>,
    spent: AtomicU64,
    cancel: Cancel,
    commands: DangerousCommands,
    /// Milliseconds on the clock that never steps.
    last: AtomicU64,
}

/// What becomes of commands somebody would have to agree to, as `approvals.cron_mode` says.
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

impl Attendance {
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        left: Option<u64>,
        cancel: Cancel,
        commands: DangerousCommands,
    ) -> Self {
        let (spent, last) = (AtomicU64::new(0), AtomicU64::new(0));
        let watch = Self { clock, left, spent, cancel, commands, last };
        watch.note();
        watch
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }

    fn note(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left.is_some_and(|left| self.spent.load(Ordering::Relaxed) >= left)
    }

    pub(super) async fn until_silent(&self, patience: Duration) {
        loop {
            let silent = Duration::from_millis(self.now().saturating_sub(self.last.load(Ordering::Relaxed)));
            match patience.checked_sub(silent).filter(|left| !left.is_zero()) {
                Some(left) => self.clock.sleep(left).await,
                None => return,
            }
        }
    }
}

impl Frontend for Attendance {
    fn show(&self, event: Event) {
        self.note();
        if let Event::Spent { cost, .. } = event {
            self.spent.fetch_add(cost.micro_usd.unwrap_or_default(), Ordering::Relaxed);
            if self.is_spent() {
                self.cancel.cancel();
            }
        }
    }

    fn ask<'a>(&'a self, question: Question, _: &'a Cancel) -> BoxFuture<'a, Answer> {
        let answer = match (self.commands, question) {
            // Leaving the sandbox, writing outside the project and choosing another model stay a person's to decide.
            (DangerousCommands::Run, Question::Approve { danger, .. }) if !asks_for_more(&danger.key) => {
                Answer::Approval(Approval::Once)
            }
            _ => Answer::Unavailable,
        };
        Box::pin(std::future::ready(answer))
    }
}

/// Returns whether a question is about more than the danger of a command.
fn asks_for_more(key: &str) -> bool {
    ["outside the sandbox", "write outside the project", "cronjob model"]
        .iter()
        .any(|start| key.starts_with(start))
}
