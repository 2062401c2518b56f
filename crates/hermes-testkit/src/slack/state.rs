//! The state of the emulated workspace: users, channels, messages, and envelopes to deliver.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use super::faults::{SlackFault, SlackSocketAction};

/// The time an app has to acknowledge an envelope.
pub(super) const ACK_WITHIN: Duration = Duration::from_secs(3);
/// Limits the deliveries of an envelope.
const DELIVERIES: u32 = 4;

/// A message of a channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FakeSlackMessage {
    pub ts: String,
    pub user: String,
    pub text: String,
    pub thread_ts: Option<String>,
    pub blocks: Vec<Value>,
    pub metadata: Value,
    /// The names of files, with their bytes.
    pub files: Vec<(String, Vec<u8>)>,
    /// The bot's reactions.
    pub reactions: Vec<String>,
    pub broadcast: bool,
    /// The texts it had before, oldest first.
    pub earlier: Vec<String>,
}

impl FakeSlackMessage {
    /// Returns the labels of its buttons.
    pub fn buttons(&self) -> Vec<String> {
        self.elements()
            .filter_map(|button| button.pointer("/text/text")?.as_str().map(str::to_owned))
            .collect()
    }

    pub(super) fn elements(&self) -> impl Iterator<Item = &Value> {
        let actions = self.blocks.iter().filter(|block| block["type"] == "actions");
        actions.filter_map(|block| block["elements"].as_array()).flatten()
    }
}

#[derive(Debug, Clone)]
pub(super) struct FakeSlackChannel {
    pub(super) name: String,
    /// The kind of channel: `im`, `channel`, `group`.
    pub(super) kind: &'static str,
    pub(super) messages: Vec<FakeSlackMessage>,
}

/// An envelope for the app.
#[derive(Debug, Clone)]
pub(super) struct FakeSlackDelivery {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) payload: Value,
    pub(super) attempts: u32,
    /// The connection it was sent on, and the deadline for its acknowledgement.
    pub(super) sent: Option<(u64, Duration)>,
}

/// A received Web API call.
#[derive(Debug, Clone, PartialEq)]
pub struct FakeSlackCall {
    pub method: String,
    pub arguments: Value,
    /// The result: `ok`, or the error.
    pub outcome: String,
}

#[derive(Debug)]
pub(super) struct FakeSlackState {
    pub(super) bot_token: String,
    pub(super) app_token: String,
    pub(super) port: u16,
    pub(super) people: BTreeMap<String, String>,
    pub(super) channels: BTreeMap<String, FakeSlackChannel>,
    pub(super) uploads: BTreeMap<String, (String, Option<Vec<u8>>)>,
    /// The files users shared, by path.
    pub(super) files: BTreeMap<String, (String, Vec<u8>)>,
    pub(super) waiting: VecDeque<FakeSlackDelivery>,
    /// The open connections after hello, and the actions queued for them.
    pub(super) connections: BTreeMap<u64, VecDeque<SlackSocketAction>>,
    pub(super) opened: u64,
    pub(super) tickets: Vec<String>,
    pub(super) calls: Vec<FakeSlackCall>,
    pub(super) faults: Vec<(String, SlackFault)>,
    pub(super) statuses: Vec<(String, String)>,
    /// The keys of acknowledged envelopes.
    pub(super) acknowledged: Vec<String>,
    /// The number of late acknowledgements.
    pub(super) late: usize,
    pub(super) swap_next: bool,
    held: Option<FakeSlackDelivery>,
    counter: u64,
    last: Option<(&'static str, Value)>,
}

impl FakeSlackState {
    pub(super) fn new(bot_token: &str, app_token: &str) -> Self {
        Self {
            bot_token: bot_token.to_owned(),
            app_token: app_token.to_owned(),
            port: 0,
            people: BTreeMap::new(),
            channels: BTreeMap::new(),
            uploads: BTreeMap::new(),
            files: BTreeMap::new(),
            waiting: VecDeque::new(),
            connections: BTreeMap::new(),
            opened: 0,
            tickets: Vec::new(),
            calls: Vec::new(),
            faults: Vec::new(),
            statuses: Vec::new(),
            acknowledged: Vec::new(),
            late: 0,
            swap_next: false,
            held: None,
            counter: 0,
            last: None,
        }
    }

    pub(super) fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Returns a unique message id, which is a time.
    pub(super) fn next_ts(&mut self) -> String {
        format!("1767323045.{:06}", self.count())
    }

    /// Queues an envelope for the app.
    pub(super) fn enqueue(&mut self, kind: &'static str, payload: Value) {
        self.last = Some((kind, payload.clone()));
        let id = format!("envelope-{}", self.count());
        let delivery = FakeSlackDelivery { id, kind, payload, attempts: 0, sent: None };
        if std::mem::take(&mut self.swap_next) {
            self.held = Some(delivery);
            return;
        }
        self.waiting.push_back(delivery);
        self.waiting.extend(self.held.take());
    }

    /// Queues the last envelope again, as if its acknowledgement had been lost.
    pub(super) fn enqueue_again(&mut self) {
        if let Some((kind, payload)) = self.last.clone() {
            self.enqueue(kind, payload);
        }
    }

    /// Queues an event of the Events API.
    pub(super) fn event(&mut self, event: &Value) {
        let id = format!("Ev{}", self.count());
        let payload = json!({
            "token": "verification", "team_id": "T1", "api_app_id": "A1", "type": "event_callback",
            "event_id": id, "event_time": 1_767_323_045, "event": event,
        });
        self.enqueue("events_api", payload);
    }

    /// Returns the next action for a connection.
    pub(super) fn next_for(&mut self, connection: u64, now: Duration) -> Option<SlackSocketAction> {
        let orders = self.connections.get_mut(&connection)?;
        if let Some(order) = orders.pop_front() {
            return Some(order);
        }
        let due = self.waiting.iter_mut().find(|delivery| delivery.sent.is_none())?;
        due.sent = Some((connection, now.saturating_add(ACK_WITHIN)));
        due.attempts += 1;
        let mut frame = json!({
            "envelope_id": due.id, "type": due.kind, "payload": due.payload,
            "accepts_response_payload": due.kind != "events_api",
        });
        if due.kind == "events_api" {
            frame["retry_attempt"] = json!(due.attempts - 1);
            frame["retry_reason"] = json!(if due.attempts > 1 { "timeout" } else { "" });
        }
        Some(SlackSocketAction::Send(frame))
    }

    pub(super) fn acknowledge(&mut self, id: &str) {
        if let Some(at) = self.waiting.iter().position(|delivery| delivery.id == id) {
            self.waiting.remove(at);
            self.acknowledged.push(id.to_owned());
        }
    }

    /// Redelivers envelopes that were not acknowledged in time, or on a closed connection, a limited number of
    /// times.
    pub(super) fn redeliver_unacknowledged(&mut self, now: Duration) {
        let FakeSlackState { waiting, connections, late, .. } = self;
        for delivery in waiting.iter_mut() {
            let Some((connection, until)) = delivery.sent else { continue };
            let overdue = now >= until;
            if overdue || !connections.contains_key(&connection) {
                *late += usize::from(overdue);
                delivery.sent = None;
            }
        }
        waiting.retain(|delivery| delivery.sent.is_some() || delivery.attempts < DELIVERIES);
    }

    pub(super) fn message(&mut self, channel: &str, ts: &str) -> Option<&mut FakeSlackMessage> {
        self.channels.get_mut(channel)?.messages.iter_mut().find(|message| message.ts == ts)
    }

    /// Adds a message of a user other than the bot.
    pub(super) fn post(&mut self, channel: &str, message: FakeSlackMessage, files: &[Value]) {
        let Some(known) = self.channels.get_mut(channel) else { return };
        let mut event = json!({
            "type": "message", "channel": channel, "channel_type": known.kind, "user": message.user,
            "text": message.text, "ts": message.ts, "event_ts": message.ts, "team": "T1",
        });
        if let Some(thread) = &message.thread_ts {
            event["thread_ts"] = json!(thread);
        }
        if !files.is_empty() {
            event["subtype"] = json!("file_share");
            event["files"] = json!(files);
        }
        let mentioned = message.text.contains(&format!("<@{}>", super::BOT_USER));
        known.messages.push(message);
        self.event(&event);
        if mentioned {
            event["type"] = json!("app_mention");
            self.event(&event);
        }
    }
}
