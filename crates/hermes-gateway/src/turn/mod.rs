//! One worker per busy conversation: takes the waiting messages in order and processes them.
//!
//! Invariant: a row of the inbox is closed in the same step in which its answer is queued, and not before.

pub(crate) mod background;
mod context;
mod mark;
mod presenter;
mod question;
mod run;
mod settle;

use std::time::Duration;

use hermes_store::{Error as StoreError, InboxCloseReason, InboxSettlement, WaitingMessage};

use crate::gateway::Gateway;
use crate::intake::reply_to;
use crate::slash::{self, BusyPolicy, CommandSurface, ParsedCommand, SlashCommandOutcome};

/// The time a turn may take after a stop request before it is abandoned.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// The delay before the database is tried again.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(5);
/// The time after which a user who keeps writing gets an answer anyway.
const MAX_GATHERING_TIME: Duration = Duration::from_secs(10);

/// A worker's next piece of work.
enum WorkItem {
    Command(Box<WaitingMessage>, ParsedCommand),
    /// The messages of one turn.
    Turn(Vec<WaitingMessage>),
}

impl WorkItem {
    /// Returns the newest of the messages that would begin a turn.
    fn newest(&self) -> Option<&WaitingMessage> {
        match self {
            Self::Turn(rows) => rows.last().filter(|row| row.turn.is_none()),
            Self::Command(..) => None,
        }
    }
}

impl Gateway {
    pub(crate) fn start_worker(&self, key: String) {
        let gateway = self.clone();
        drop(self.turns.spawn(format!("conversation {key}"), async move {
            let mut guard = WorkerGuard { gateway: &gateway, key: Some(&key) };
            gateway.run_worker(&key).await;
            // The worker has ended normally; the slot may belong to another worker by now.
            guard.key = None;
        }));
    }

    /// Processes messages until none waits.
    async fn run_worker(&self, key: &str) {
        while !self.is_draining() {
            let seen = self.conversations.arrivals(key);
            self.conversations.start_preparing(key);
            match self.next_gathered_work(key).await {
                Ok(Some(work)) => self.run_work_item(key, work).await,
                Ok(None) if self.conversations.end_worker_if_idle(key, seen) => return,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, key, "what waits cannot be read; trying again");
                    self.clock.sleep(STORE_RETRY_DELAY).await;
                }
            }
        }
        self.conversations.remove_worker(key);
    }

    /// Waits for the pieces of long messages and albums, which arrive separately.
    async fn next_gathered_work(&self, key: &str) -> Result<Option<WorkItem>, StoreError> {
        let began = self.clock.monotonic();
        let mut work = self.next_work(key).await?;
        loop {
            let Some(last) = work.as_ref().and_then(WorkItem::newest) else { return Ok(work) };
            let quiet = Duration::from_millis(last.envelope.quiet_ms).min(MAX_GATHERING_TIME);
            let rest = quiet.saturating_sub(self.clock.now().since(last.envelope.received_at));
            if rest.is_zero() || self.clock.monotonic().saturating_sub(began) > MAX_GATHERING_TIME {
                return Ok(work);
            }
            let newest = last.id;
            self.clock.sleep(rest).await;
            work = self.next_work(key).await?;
            if work.as_ref().and_then(WorkItem::newest).is_some_and(|last| last.id == newest) {
                return Ok(work);
            }
        }
    }

    async fn next_work(&self, key: &str) -> Result<Option<WorkItem>, StoreError> {
        let mut rows = self.store.waiting(key).await?;
        rows.retain(|row| !self.conversations.is_side_row(key, row.id));
        self.drop_superseded(&mut rows).await?;
        self.drop_stale(&mut rows).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        if first.turn.is_some() {
            let turn = first.turn.clone();
            rows.retain(|row| row.turn == turn);
            return Ok(Some(WorkItem::Turn(rows)));
        }
        if let Some(typed) = self.as_command(first) {
            let first = rows.remove(0);
            return Ok(Some(WorkItem::Command(Box::new(first), typed)));
        }
        let together =
            rows.iter().take_while(|row| row.turn.is_none() && self.as_command(row).is_none()).count();
        rows.truncate(together);
        Ok(Some(WorkItem::Turn(rows)))
    }

    /// Drops messages that a later `/new` or `/stop` supersedes.
    async fn drop_superseded(&self, rows: &mut Vec<WaitingMessage>) -> Result<(), StoreError> {
        let stops = |row: &WaitingMessage| {
            let typed = self.as_command(row);
            let found = typed.and_then(|typed| slash::find(&typed.name, CommandSurface::Chat));
            found.is_some_and(|command| command.busy_policy == BusyPolicy::StopTurn)
        };
        let Some(last) = rows.iter().rposition(stops) else { return Ok(()) };
        for row in rows.drain(..last) {
            let note = Some("overtaken by a later command".to_owned());
            self.store.close_inbox(row.id, InboxCloseReason::Done, note, self.clock.now()).await?;
        }
        Ok(())
    }

    /// Drops messages that have waited too long and reports them in one line.
    async fn drop_stale(&self, rows: &mut Vec<WaitingMessage>) -> Result<(), StoreError> {
        let oldest = self.clock.now().minus(self.settings.current().stale_after);
        let stale: Vec<WaitingMessage> =
            rows.extract_if(.., |row| row.turn.is_none() && row.envelope.received_at < oldest).collect();
        let Some(last) = stale.last() else { return Ok(()) };
        let text = match stale.len() {
            1 => "I was away too long when you wrote; I have not done anything about your message. Send it again if it still matters.".to_owned(),
            count => format!(
                "I was away too long: {count} of your messages had been waiting and I have not done anything about them. Send what still matters again."
            ),
        };
        let settled = InboxSettlement {
            inbox: stale.iter().map(|row| row.id).collect(),
            closing: InboxCloseReason::Stale,
            note: None,
            conversation: last.conversation.clone(),
            replies: vec![reply_to(&last.envelope, text, format!("stale:{}", last.id))],
            at: self.clock.now(),
        };
        self.store.settle_inbox(settled).await?;
        self.delivery.wake(&last.envelope.platform);
        Ok(())
    }

    /// Returns the command a message holds, if it is one here and not text for the model.
    fn as_command(&self, row: &WaitingMessage) -> Option<ParsedCommand> {
        if background::is_key(&row.conversation) {
            return None;
        }
        let typed = self.parse_command(&row.envelope)?;
        if self.settings.current().quick_commands.contains_key(&typed.name) {
            return Some(typed);
        }
        let command = slash::find(&typed.name, CommandSurface::Chat)?;
        (command.busy_policy != BusyPolicy::Queue || typed.arguments.is_empty()).then_some(typed)
    }

    async fn run_work_item(&self, key: &str, work: WorkItem) {
        match work {
            WorkItem::Command(row, typed) => match self.run_command(&row, &typed).await {
                SlashCommandOutcome::Reply(text) => self.settle_row(&row, text).await,
                SlashCommandOutcome::Start(text, work) => self.settle_and_begin(&row, text, *work).await,
                SlashCommandOutcome::Prompt(words) => {
                    self.run_turn_for_rows(key, vec![*row], Some(words)).await;
                }
            },
            WorkItem::Turn(rows) => self.run_turn_for_rows(key, rows, None).await,
        }
    }
}

/// Removes the worker's slot however the worker ends.
struct WorkerGuard<'a> {
    gateway: &'a Gateway,
    key: Option<&'a str>,
}

impl Drop for WorkerGuard<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.gateway.conversations.remove_worker(key);
        }
    }
}
