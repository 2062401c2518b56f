//! Messages whose files are still to be downloaded, stored so that Slack gets its acknowledgement at once; and the
//! threads the bot takes part in.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::inbound;
use super::socket::SocketContext;
use crate::host::ChannelHost;

const SPOOL: &str = "slack_spool.json";
const THREADS: &str = "slack_threads.json";
const MAX_THREADS: usize = 500;

/// A message in the spool.
#[derive(Debug)]
pub(super) struct DeferredMessage {
    key: String,
    channel: String,
    event: Value,
}

/// The waiting messages, by key.
#[derive(Debug, Default)]
pub(super) struct Spool {
    waiting: Mutex<SpooledEvents>,
}

#[derive(Debug, Default)]
struct SpooledEvents {
    events: Map<String, Value>,
    /// The number of waiting messages per channel: later messages must not overtake them.
    channels: HashMap<String, usize>,
}

impl Spool {
    /// Tells whether a message of this channel is waiting.
    pub(super) fn has_waiting(&self, channel: &str) -> bool {
        self.lock().channels.contains_key(channel)
    }

    /// Stores a message.
    pub(super) fn put(&self, host: &dyn ChannelHost, channel: &str, event: &Value) -> DeferredMessage {
        let ts = event.get("ts").and_then(Value::as_str).unwrap_or_default();
        let key = format!("{channel}:{ts}");
        let mut waiting = self.lock();
        waiting.events.insert(key.clone(), event.clone());
        *waiting.channels.entry(channel.to_owned()).or_default() += 1;
        host.save_document(SPOOL, &Value::Object(waiting.events.clone()));
        DeferredMessage { key, channel: channel.to_owned(), event: event.clone() }
    }

    /// Removes a message that is in the inbox now.
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

    /// Returns the messages that an earlier process left, oldest first.
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
    /// Downloads files and submits messages, one after the other.
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

/// The threads in which the bot was mentioned: there it needs no further mention.
#[derive(Debug, Default)]
pub(super) struct SlackThreads {
    known: Mutex<Option<Vec<String>>>,
}

impl SlackThreads {
    /// Loads the threads that an earlier process stored.
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
