//! One worker per busy conversation: takes what waits, in order, and deals with it.
//!
//! Invariant: a row of the inbox is closed together with the answer to it being queued, and not before.

pub(crate) mod background;
mod context;
mod mark;
mod present;
mod question;
mod run;
mod settle;

use std::time::Duration;

use hermes_store::{Closing, Error as StoreError, Settled, Waiting};

use crate::gateway::Gateway;
use crate::intake::answer_to;
use crate::slash::{self, Done, Surface, Typed, WhileBusy};

/// How long what was told to stop may take before it is left alone.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// How long to wait before the database is tried again.
const PAUSE: Duration = Duration::from_secs(5);
/// Whoever goes on writing for longer than this is answered meanwhile.
const LONGEST_GATHERING: Duration = Duration::from_secs(10);

/// What a worker does next.
enum Work {
    Command(Box<Waiting>, Typed),
    /// Said together, in one turn.
    Turn(Vec<Waiting>),
}

impl Work {
    /// The newest of the messages that would begin a turn.
    fn newest(&self) -> Option<&Waiting> {
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
            let mut guard = Leaving { gateway: &gateway, key: Some(&key) };
            gateway.look_after(&key).await;
            // It has left in good order; the slot may be somebody else's by now.
            guard.key = None;
        }));
    }

    /// Until nothing waits any more.
    async fn look_after(&self, key: &str) {
        while !self.is_draining() {
            let seen = self.desk.arrivals(key);
            self.desk.prepare(key);
            match self.gathered_work(key).await {
                Ok(Some(work)) => self.do_work(key, work).await,
                Ok(None) if self.desk.leave(key, seen) => return,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, key, "what waits cannot be read; trying again");
                    self.clock.sleep(PAUSE).await;
                }
            }
        }
        self.desk.abandon(key);
    }

    /// Long messages and albums arrive in pieces: what belongs together is waited for.
    async fn gathered_work(&self, key: &str) -> Result<Option<Work>, StoreError> {
        let began = self.clock.monotonic();
        let mut work = self.next_work(key).await?;
        loop {
            let Some(last) = work.as_ref().and_then(Work::newest) else { return Ok(work) };
            let quiet = Duration::from_millis(last.envelope.quiet_ms).min(LONGEST_GATHERING);
            let rest = quiet.saturating_sub(self.clock.now().since(last.envelope.received_at));
            if rest.is_zero() || self.clock.monotonic().saturating_sub(began) > LONGEST_GATHERING {
                return Ok(work);
            }
            let newest = last.id;
            self.clock.sleep(rest).await;
            work = self.next_work(key).await?;
            if work.as_ref().and_then(Work::newest).is_some_and(|last| last.id == newest) {
                return Ok(work);
            }
        }
    }

    async fn next_work(&self, key: &str) -> Result<Option<Work>, StoreError> {
        let mut rows = self.store.waiting(key).await?;
        rows.retain(|row| !self.desk.is_aside(key, row.id));
        self.drop_overtaken(&mut rows).await?;
        self.drop_stale(&mut rows).await?;
        let Some(first) = rows.first() else { return Ok(None) };
        if first.turn.is_some() {
            let turn = first.turn.clone();
            rows.retain(|row| row.turn == turn);
            return Ok(Some(Work::Turn(rows)));
        }
        if let Some(typed) = self.as_command(first) {
            let first = rows.remove(0);
            return Ok(Some(Work::Command(Box::new(first), typed)));
        }
        let together =
            rows.iter().take_while(|row| row.turn.is_none() && self.as_command(row).is_none()).count();
        rows.truncate(together);
        Ok(Some(Work::Turn(rows)))
    }

    /// What was said before a later `/new` or `/stop` is not run any more.
    async fn drop_overtaken(&self, rows: &mut Vec<Waiting>) -> Result<(), StoreError> {
        let stops = |row: &Waiting| {
            let typed = self.as_command(row);
            let found = typed.and_then(|typed| slash::find(&typed.name, Surface::Chat));
            found.is_some_and(|command| command.while_busy == WhileBusy::Stops)
        };
        let Some(last) = rows.iter().rposition(stops) else { return Ok(()) };
        for row in rows.drain(..last) {
            let note = Some("overtaken by a later command".to_owned());
            self.store.close_inbox(row.id, Closing::Done, note, self.clock.now()).await?;
        }
        Ok(())
    }

    /// What has waited too long is told about in one line and not run.
    async fn drop_stale(&self, rows: &mut Vec<Waiting>) -> Result<(), StoreError> {
        let oldest = self.clock.now().minus(self.live.now().stale_after);
        let stale: Vec<Waiting> =
            rows.extract_if(.., |row| row.turn.is_none() && row.envelope.received_at < oldest).collect();
        let Some(last) = stale.last() else { return Ok(()) };
        let text = match stale.len() {
            1 => "I was away too long when you wrote; I have not done anything about your message. Send it again if it still matters.".to_owned(),
            count => format!(
                "I was away too long: {count} of your messages had been waiting and I have not done anything about them. Send what still matters again."
            ),
        };
        let settled = Settled {
            inbox: stale.iter().map(|row| row.id).collect(),
            closing: Closing::Stale,
            note: None,
            conversation: last.conversation.clone(),
            replies: vec![answer_to(&last.envelope, text, format!("stale:{}", last.id))],
            at: self.clock.now(),
        };
        self.store.settle(settled).await?;
        self.delivery.wake(&last.envelope.platform);
        Ok(())
    }

    /// A message that is a command here, and not words for the model.
    fn as_command(&self, row: &Waiting) -> Option<Typed> {
        if background::is_key(&row.conversation) {
            return None;
        }
        let typed = self.typed(&row.envelope)?;
        if self.live.now().quick_commands.contains_key(&typed.name) {
            return Some(typed);
        }
        let command = slash::find(&typed.name, Surface::Chat)?;
        (command.while_busy != WhileBusy::Waits || typed.rest.is_empty()).then_some(typed)
    }

    async fn do_work(&self, key: &str, work: Work) {
        match work {
            Work::Command(row, typed) => match self.run_command(&row, &typed).await {
                Done::Said(text) => self.settle_row(&row, text).await,
                Done::Begin(text, work) => self.settle_and_begin(&row, text, *work).await,
                Done::Words(words) => self.take_turn(key, vec![*row], Some(words)).await,
            },
            Work::Turn(rows) => self.take_turn(key, rows, None).await,
        }
    }
}

/// A worker that ends, however it ends, is no longer there.
struct Leaving<'a> {
    gateway: &'a Gateway,
    key: Option<&'a str>,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.gateway.desk.abandon(key);
        }
    }
}
