//! What the emulated workspace knows: people, channels, what was said, and what still has to be told to the app.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};

use super::faults::{SlackFault, SlackSocketAction};

/// How long an app has to acknowledge an envelope.
pub(super) const ACK_WITHIN: Duration = Duration::from_secs(3);
/// How often something is delivered at most.
const DELIVERIES: u32 = 4;

/// One line of a channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FakeSlackMessage {
    pub ts: String,
    pub user: String,
    pub text: String,
    pub thread_ts: Option<String>,
    pub blocks: Vec<Value>,
    pub metadata: Value,
    /// Names of files, with their bytes.
    pub files: Vec<(String, Vec<u8>)>,
    /// Emoji under it, by the bot.
    pub reactions: Vec<String>,
    pub broadcast: bool,
    /// Texts it had before, oldest first.
    pub earlier: Vec<String>,
}

impl FakeSlackMessage {
    /// What its buttons are called.
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
    /// `im`, `channel`, `group`.
    pub(super) kind: &'static str,
    pub(super) messages: Vec<FakeSlackMessage>,
}

/// Something the app has to hear of.
#[derive(Debug, Clone)]
pub(super) struct FakeSlackDelivery {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) payload: Value,
    pub(super) attempts: u32,
    /// The connection it was sent on, and until when it has to be acknowledged there.
    pub(super) sent: Option<(u64, Duration)>,
}

/// A Web API call that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct FakeSlackCall {
    pub method: String,
    pub arguments: Value,
    /// `ok`, or why not.
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
    /// Files people shared, by path.
    pub(super) files: BTreeMap<String, (String, Vec<u8>)>,
    pub(super) waiting: VecDeque<FakeSlackDelivery>,
    /// Open connections that have said hello, and what is to be done on them.
    pub(super) connections: BTreeMap<u64, VecDeque<SlackSocketAction>>,
    pub(super) opened: u64,
    pub(super) tickets: Vec<String>,
    pub(super) calls: Vec<FakeSlackCall>,
    pub(super) faults: Vec<(String, SlackFault)>,
    pub(super) statuses: Vec<(String, String)>,
    /// Keys of what was acknowledged.
    pub(super) acknowledged: Vec<String>,
    /// How often an acknowledgement was late.
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

    /// An id for a message: a time that nothing else has.
    pub(super) fn next_ts(&mut self) -> String {
        format!("1767323045.{:06}", self.count())
    }

    /// Tells the app of something.
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

    /// The same once more, as if its acknowledgement had been lost.
    pub(super) fn enqueue_again(&mut self) {
        if let Some((kind, payload)) = self.last.clone() {
            self.enqueue(kind, payload);
        }
    }

    /// An event of the Events API.
    pub(super) fn event(&mut self, event: &Value) {
        let id = format!("Ev{}", self.count());
        let payload = json!({
            "token": "verification", "team_id": "T1", "api_app_id": "A1", "type": "event_callback",
            "event_id": id, "event_time": 1_767_323_045, "event": event,
        });
        self.enqueue("events_api", payload);
    }

    /// What is to be sent on a connection now.
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

    /// What was not acknowledged in time, or on a connection that is gone, is delivered again; not forever.
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

    /// Somebody other than the bot writes.
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
