//! Messages whose files are still to be fetched, on disk so that Slack can be told at once; and threads we are in.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::inbound;
use super::socket::SocketContext;
use crate::host::ChannelHost;

const SPOOL: &str = "slack_spool.json";
const THREADS: &str = "slack_threads.json";
const MAX_THREADS: usize = 500;

/// A message on its way through the spool.
#[derive(Debug)]
pub(super) struct DeferredMessage {
    key: String,
    channel: String,
    event: Value,
}

/// What waits, by key.
#[derive(Debug, Default)]
pub(super) struct Spool {
    waiting: Mutex<SpooledEvents>,
}

#[derive(Debug, Default)]
struct SpooledEvents {
    events: Map<String, Value>,
    /// How many of each channel: later messages must not overtake them.
    channels: HashMap<String, usize>,
}

impl Spool {
    /// Whether something of this channel waits.
    pub(super) fn has_waiting(&self, channel: &str) -> bool {
        self.lock().channels.contains_key(channel)
    }

    /// Puts a message on disk.
    pub(super) fn put(&self, host: &dyn ChannelHost, channel: &str, event: &Value) -> DeferredMessage {
        let ts = event.get("ts").and_then(Value::as_str).unwrap_or_default();
        let key = format!("{channel}:{ts}");
        let mut waiting = self.lock();
        waiting.events.insert(key.clone(), event.clone());
        *waiting.channels.entry(channel.to_owned()).or_default() += 1;
        host.save_document(SPOOL, &Value::Object(waiting.events.clone()));
        DeferredMessage { key, channel: channel.to_owned(), event: event.clone() }
    }

    /// It is in the inbox now.
    fn remove(&self, host: &dyn ChannelHost, deferred: &DeferredMessage) {
        let mut waiting = self.lock();
        waiting.events.remove(&deferred.key);
        if let Some(count) = waiting.channels.get_mut(&deferred.channel) {
            *count -= 1;
            if *count == 0 {
                waiting.channels.remove(&deferred.channel);
            }
        }
        host.save_document(SPOOL, &Value::Object(waiting.events.clone()));
    }

    /// What an earlier process left, oldest first.
    pub(super) fn left_over(&self, host: &dyn ChannelHost) -> Vec<DeferredMessage> {
        let Some(Value::Object(events)) = host.load_document(SPOOL) else { return Vec::new() };
        let mut left: Vec<DeferredMessage> = Vec::new();
        for event in events.values() {
            if let Some(channel) = event.get("channel").and_then(Value::as_str) {
                left.push(self.put(host, channel, event));
            }
        }
        left.sort_by(|a, b| a.key.cmp(&b.key));
        left
    }

    fn lock(&self) -> MutexGuard<'_, SpooledEvents> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SocketContext<'_> {
    /// Fetches files and hands messages in, one after the other.
    pub(super) async fn process_deferred(
        &self,
        mut queue: tokio::sync::mpsc::UnboundedReceiver<DeferredMessage>,
    ) {
        while let Some(deferred) = tokio::select! {
            deferred = queue.recv() => deferred,
            () = self.cancel.cancelled() => None,
        } {
            if let Some(message) = inbound::parse_message(&deferred.event, &self.identity) {
                let envelope = tokio::select! {
                    envelope = self.build_envelope(&message) => envelope,
                    () = self.cancel.cancelled() => return,
                };
                self.submit(envelope).await;
            }
            if self.cancel.is_cancelled() {
                return;
            }
            self.slack.spool.remove(&*self.slack.context.host, &deferred);
        }
    }
}

/// Threads in which we were called: there no mention is needed.
#[derive(Debug, Default)]
pub(super) struct SlackThreads {
    known: Mutex<Option<Vec<String>>>,
}

impl SlackThreads {
    /// Reads what an earlier process knew.
    pub(super) fn load(&self, host: &dyn ChannelHost) {
        let known = host
            .load_document(THREADS)
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_default();
        self.lock().get_or_insert(known);
    }

    pub(super) fn contains(&self, channel: &str, thread: &str) -> bool {
        let name = format!("{channel}:{thread}");
        self.lock().as_ref().is_some_and(|known| known.contains(&name))
    }

    pub(super) fn insert(&self, host: &dyn ChannelHost, channel: &str, thread: &str) {
        let name = format!("{channel}:{thread}");
        let mut guard = self.lock();
        let known = guard.get_or_insert_default();
        if known.contains(&name) {
            return;
        }
        known.push(name);
        let surplus = known.len().saturating_sub(MAX_THREADS);
        known.drain(..surplus);
        host.save_document(THREADS, &json!(known));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<String>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
