//! Messages whose files are still to be fetched, on disk so that Slack can be told at once; and threads we are in.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::inbound;
use super::socket::Line;
use crate::host::Host;

const SPOOL: &str = "slack_spool.json";
const THREADS: &str = "slack_threads.json";
const MOST_THREADS: usize = 500;

/// A message on its way through the spool.
#[derive(Debug)]
pub(super) struct Deferred {
    key: String,
    channel: String,
    event: Value,
}

/// What waits, by key.
#[derive(Debug, Default)]
pub(super) struct Spool {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Map<String, Value>,
    /// How many of each channel: later messages must not overtake them.
    channels: HashMap<String, usize>,
}

impl Spool {
    /// Whether something of this channel waits.
    pub(super) fn is_busy(&self, channel: &str) -> bool {
        self.lock().channels.contains_key(channel)
    }

    /// Puts a message on disk.
    pub(super) fn put(&self, host: &dyn Host, channel: &str, event: &Value) -> Deferred {
        let ts = event.get("ts").and_then(Value::as_str).unwrap_or_default();
        let key = format!("{channel}:{ts}");
        let mut waiting = self.lock();
        waiting.events.insert(key.clone(), event.clone());
        *waiting.channels.entry(channel.to_owned()).or_default() += 1;
        host.remember(SPOOL, &Value::Object(waiting.events.clone()));
        Deferred { key, channel: channel.to_owned(), event: event.clone() }
    }

    /// It is in the inbox now.
    fn done(&self, host: &dyn Host, deferred: &Deferred) {
        let mut waiting = self.lock();
        waiting.events.remove(&deferred.key);
        if let Some(count) = waiting.channels.get_mut(&deferred.channel) {
            *count -= 1;
            if *count == 0 {
                waiting.channels.remove(&deferred.channel);
            }
        }
        host.remember(SPOOL, &Value::Object(waiting.events.clone()));
    }

    /// What an earlier process left, oldest first.
    pub(super) fn left_over(&self, host: &dyn Host) -> Vec<Deferred> {
        let Some(Value::Object(events)) = host.recall(SPOOL) else { return Vec::new() };
        let mut left: Vec<Deferred> = Vec::new();
        for event in events.values() {
            if let Some(channel) = event.get("channel").and_then(Value::as_str) {
                left.push(self.put(host, channel, event));
            }
        }
        left.sort_by(|a, b| a.key.cmp(&b.key));
        left
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line<'_> {
    /// Fetches files and hands messages in, one after the other.
    pub(super) async fn work_off(&self, mut queue: tokio::sync::mpsc::UnboundedReceiver<Deferred>) {
        while let Some(deferred) = tokio::select! {
            deferred = queue.recv() => deferred,
            () = self.cancel.cancelled() => None,
        } {
            if let Some(message) = inbound::message(&deferred.event, &self.own) {
                let envelope = tokio::select! {
                    envelope = self.compose(&message) => envelope,
                    () = self.cancel.cancelled() => return,
                };
                self.hand_in(envelope).await;
            }
            if self.cancel.is_cancelled() {
                return;
            }
            self.slack.spool.done(&*self.slack.around.host, &deferred);
        }
    }
}

/// Threads in which we were called: there no mention is needed.
#[derive(Debug, Default)]
pub(super) struct Threads {
    known: Mutex<Option<Vec<String>>>,
}

impl Threads {
    /// Reads what an earlier process knew.
    pub(super) fn load(&self, host: &dyn Host) {
        let known =
            host.recall(THREADS).and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
        self.lock().get_or_insert(known);
    }

    pub(super) fn knows(&self, channel: &str, thread: &str) -> bool {
        let name = format!("{channel}:{thread}");
        self.lock().as_ref().is_some_and(|known| known.contains(&name))
    }

    pub(super) fn learn(&self, host: &dyn Host, channel: &str, thread: &str) {
        let name = format!("{channel}:{thread}");
        let mut guard = self.lock();
        let known = guard.get_or_insert_default();
        if known.contains(&name) {
            return;
        }
        known.push(name);
        let surplus = known.len().saturating_sub(MOST_THREADS);
        known.drain(..surplus);
        host.remember(THREADS, &json!(known));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
