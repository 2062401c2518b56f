//! An emulated Slack: Socket Mode and the Web API on one port, written from their documentation.
//!
//! Tests write messages, use commands and press buttons as users through this handle, and read what the app did. It
//! is as strict as the real one, and stricter about undocumented arguments. It shares no code with the channel.

mod faults;
mod page;
mod serve;
mod state;
mod web;

use std::fmt;
use std::sync::Arc;

use hermes_types::Clock;
use serde_json::{Value, json};

pub use faults::{SlackFault, SlackSocketAction};
pub use state::{FakeSlackCall, FakeSlackMessage};

use crate::gate::Gates;
use crate::server_thread::ServerThread;
use crate::watched_value::WatchedValue;
use crate::{Error, RealClock};
use serve::{FakeSlackServer, serve};
use state::{FakeSlackChannel, FakeSlackState};

/// The bot token the app signs in with.
pub const BOT_TOKEN: &str = "xoxb-test";
pub const APP_TOKEN: &str = "xapp-test";
/// The bot's user id.
pub const BOT_USER: &str = "UBOT";
pub const BOT: &str = "BBOT";

/// A running server. Dropping it ends every connection.
pub struct FakeSlack {
    shared: Arc<FakeSlackServer>,
    port: u16,
    running: Option<ServerThread>,
}

impl FakeSlack {
    pub fn start() -> Result<Self, Error> {
        Self::start_on(0, Arc::new(RealClock::default()))
    }

    /// Starts on that port, or on a free one for 0; this clock times acknowledgements.
    pub fn start_on(port: u16, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let world = WatchedValue::new(FakeSlackState::new(BOT_TOKEN, APP_TOKEN));
        let shared = Arc::new(FakeSlackServer { world, gates: Gates::default(), clock });
        let mut slack = Self { shared, port, running: None };
        slack.start_again()?;
        Ok(slack)
    }

    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends every connection and refuses new ones, like a server that was killed.
    pub fn stop(&mut self) {
        self.running = None;
        let now = self.shared.clock.monotonic();
        self.shared.world.update(|world| {
            world.connections.clear();
            world.redeliver_unacknowledged(now);
        });
    }

    /// Listens again on the same port, with its state.
    pub fn start_again(&mut self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let (address, thread) =
            ServerThread::start("slack", self.port, move |listener| serve(listener, shared))?;
        self.port = address.port();
        self.shared.world.update(|world| world.port = address.port());
        self.running = Some(thread);
        Ok(())
    }

    fn change<R>(&self, change: impl FnOnce(&mut FakeSlackState) -> R) -> R {
        self.shared.world.update(change)
    }
}

/// Setting up users and channels.
impl FakeSlack {
    pub fn person(&self, id: &str, name: &str) {
        self.change(|world| world.people.insert(id.to_owned(), name.to_owned()));
    }

    pub fn channel(&self, id: &str, name: &str) {
        self.add_channel(id, name, "channel");
    }

    /// Creates the direct chat of a user with the bot; its id begins with `D`.
    pub fn direct(&self, id: &str) {
        self.add_channel(id, id, "im");
    }

    fn add_channel(&self, id: &str, name: &str, kind: &'static str) {
        let channel = FakeSlackChannel { name: name.to_owned(), kind, messages: Vec::new() };
        self.change(|world| world.channels.insert(id.to_owned(), channel));
    }
}

/// Actions of users.
impl FakeSlack {
    /// Sends a user's message and returns its id; a mention of the bot is written as `<@UBOT>`.
    pub fn says(&self, person: &str, channel: &str, text: &str) -> String {
        self.writes(person, channel, None, text)
    }

    pub fn says_in_thread(&self, person: &str, channel: &str, thread: &str, text: &str) -> String {
        self.writes(person, channel, Some(thread), text)
    }

    fn writes(&self, person: &str, channel: &str, thread: Option<&str>, text: &str) -> String {
        self.change(|world| {
            let ts = world.next_ts();
            let message = FakeSlackMessage {
                ts: ts.clone(),
                user: person.to_owned(),
                text: text.to_owned(),
                thread_ts: thread.map(str::to_owned),
                ..FakeSlackMessage::default()
            };
            world.post(channel, message, &[]);
            ts
        })
    }

    pub fn shares(
        &self,
        person: &str,
        channel: &str,
        text: &str,
        (name, mime, bytes): (&str, &str, &[u8]),
    ) -> String {
        self.change(|world| {
            let ts = world.next_ts();
            let path = format!("F{}/{name}", world.count());
            let url = format!("http://127.0.0.1:{}/files/{path}", world.port);
            world.files.insert(path, (mime.to_owned(), bytes.to_vec()));
            let file = json!({
                "id": "F1", "name": name, "mimetype": mime, "size": bytes.len(), "url_private": url,
                "url_private_download": url,
            });
            let (user, text) = (person.to_owned(), text.to_owned());
            world.post(
                channel,
                FakeSlackMessage { ts: ts.clone(), user, text, ..FakeSlackMessage::default() },
                &[file],
            );
            ts
        })
    }

    /// Sends any event as Slack would.
    pub fn event(&self, event: &Value) {
        self.change(|world| world.event(event));
    }

    pub fn uses_command(&self, person: &str, channel: &str, command: &str, text: &str) {
        self.change(|world| {
            let trigger = format!("trigger-{}", world.count());
            let name = world.people.get(person).cloned().unwrap_or_default().to_lowercase();
            world.enqueue(
                "slash_commands",
                json!({
                    "token": "verification", "team_id": "T1", "channel_id": channel, "channel_name": "some",
                    "user_id": person, "user_name": name, "command": command, "text": text, "api_app_id": "A1",
                    "response_url": "http://127.0.0.1:1/none", "trigger_id": trigger,
                }),
            );
        });
    }

    /// Presses the button with that label; panics when there is none.
    #[track_caller]
    pub fn presses(&self, person: &str, channel: &str, message: &FakeSlackMessage, label: &str) {
        let button = message.elements().find(|button| button["text"]["text"] == label);
        let Some(button) = button.cloned() else { panic!("there is no button `{label}` on {message:?}") };
        self.change(|world| {
            let pressed = world.next_ts();
            let action = json!({
                "action_id": button["action_id"], "value": button["value"], "type": "button", "action_ts": pressed,
                "block_id": "b", "text": button["text"],
            });
            let mut shown = json!({"type": "message", "ts": message.ts, "text": message.text, "user": BOT_USER});
            if let Some(thread) = &message.thread_ts {
                shown["thread_ts"] = json!(thread);
            }
            world.enqueue(
                "interactive",
                json!({
                    "type": "block_actions", "user": {"id": person, "username": person.to_lowercase(), "team_id": "T1"},
                    "api_app_id": "A1", "container": {"type": "message", "message_ts": message.ts, "channel_id": channel},
                    "trigger_id": format!("trigger-{pressed}"), "channel": {"id": channel, "name": "some"},
                    "message": shown, "actions": [action],
                }),
            );
        });
    }
}

/// Actions of the app.
impl FakeSlack {
    pub fn messages(&self, channel: &str) -> Vec<FakeSlackMessage> {
        self.shared
            .world
            .read(|world| world.channels.get(channel).map(|channel| channel.messages.clone()))
            .unwrap_or_default()
    }

    /// Returns the bot's messages in a channel.
    pub fn said(&self, channel: &str) -> Vec<FakeSlackMessage> {
        self.messages(channel).into_iter().filter(|message| message.user == BOT_USER).collect()
    }

    /// Waits until the bot has sent a message that contains `part`.
    pub async fn until_said(&self, channel: &str, part: &str) -> FakeSlackMessage {
        self.shared.world.until(|world| find(world, channel, part)).await
    }

    #[track_caller]
    pub fn until_said_blocking(&self, channel: &str, part: &str) -> FakeSlackMessage {
        self.shared
            .world
            .until_blocking(&format!("`{part}` in {channel}"), |world| find(world, channel, part))
    }

    /// Waits until a message meets a condition.
    pub async fn until_message(
        &self,
        channel: &str,
        ts: &str,
        wanted: impl Fn(&FakeSlackMessage) -> bool,
    ) -> FakeSlackMessage {
        self.shared
            .world
            .until(|world| world.message(channel, ts).filter(|message| wanted(message)).cloned())
            .await
    }

    pub fn calls(&self) -> Vec<FakeSlackCall> {
        self.shared.world.read(|world| world.calls.clone())
    }

    /// Waits for the call of a method with that number, from 1.
    pub async fn until_call(&self, method: &str, count: usize) -> FakeSlackCall {
        let fits = |call: &&FakeSlackCall| call.method == method;
        self.shared.world.until(|world| world.calls.iter().filter(fits).nth(count - 1).cloned()).await
    }

    /// Waits until this many connections are open.
    pub async fn until_connected(&self, count: usize) {
        self.shared.world.until(|world| (world.connections.len() >= count).then_some(())).await;
    }

    pub fn opened(&self) -> u64 {
        self.shared.world.read(|world| world.opened)
    }

    pub async fn until_opened(&self, count: u64) {
        self.shared.world.until(|world| (world.opened >= count).then_some(())).await;
    }

    /// Returns how many envelopes were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.shared.world.read(|world| world.acknowledged.len())
    }

    pub async fn until_acknowledged(&self, count: usize) {
        self.shared.world.until(|world| (world.acknowledged.len() >= count).then_some(())).await;
    }

    /// Returns how often three seconds passed without an acknowledgement.
    pub fn late(&self) -> usize {
        self.shared.world.read(|world| world.late)
    }

    /// Returns the channels and threads in which a status was set.
    pub fn statuses(&self) -> Vec<(String, String)> {
        self.shared.world.read(|world| world.statuses.clone())
    }
}

/// Faults.
impl FakeSlack {
    /// Makes the next call of that method fail, once.
    pub fn fault(&self, method: &str, fault: SlackFault) {
        self.change(|world| world.faults.push((method.to_owned(), fault)));
    }

    /// Lets one call pass the gate, now or when it gets there.
    pub fn release(&self, gate: &str) {
        self.shared.gates.release(gate);
    }

    pub async fn until_at(&self, gate: &str) {
        self.shared.gates.until_waiting(gate, 1).await;
    }

    /// Runs an action on every open socket.
    pub fn order(&self, order: &SlackSocketAction) {
        self.change(|world| {
            world.connections.values_mut().for_each(|orders| orders.push_back(order.clone()));
        });
    }

    /// Delivers the last envelope again.
    pub fn repeat_last(&self) {
        self.change(FakeSlackState::enqueue_again);
    }

    /// Swaps the order of the next two envelopes.
    pub fn swap_next(&self) {
        self.change(|world| world.swap_next = true);
    }

    /// Changes the valid bot token.
    pub fn change_token(&self, token: &str) {
        self.change(|world| token.clone_into(&mut world.bot_token));
    }
}

fn find(world: &FakeSlackState, channel: &str, part: &str) -> Option<FakeSlackMessage> {
    let said = |message: &&FakeSlackMessage| message.user == BOT_USER && message.text.contains(part);
    world.channels.get(channel)?.messages.iter().find(said).cloned()
}

impl fmt::Debug for FakeSlack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slack").field("url", &self.base_url()).finish_non_exhaustive()
    }
}
