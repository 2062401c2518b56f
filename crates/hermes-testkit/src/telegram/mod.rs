//! Telegram's Bot API, for tests and by hand.
//!
//! Written from the published documentation, apart from the adapter it plays for: token, parameters, MarkdownV2, limits, offsets,
//! conflicts, floods, topics, files, buttons, reactions, webhooks. It goes wrong on request, waits at gates instead of for
//! time, and keeps what it knows when its server is killed and started again on the same port.

mod call;
mod fault;
mod markdown;
mod method;
mod page;
mod serve;
mod state;
mod users;
mod webhook;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hermes_types::Clock;
use serde_json::{Map, Value, json};

pub use fault::TelegramFault;
pub use markdown::{FakeTelegramEntity, FormattedText, parse_markdown_v2};
pub use state::{FakeTelegramButton, FakeTelegramMessage};
pub use users::FakeTelegramUser;

use crate::Error;
use crate::gate::Gates;
use crate::server_thread::ServerThread;
use crate::watched_value::WatchedValue;
use state::{FakeTelegramChat, FakeTelegramState, FloodLimit};

/// The emulator. It serves on a thread of its own, so that tests without a runtime can use it too.
#[derive(Debug)]
pub struct FakeTelegram {
    stage: Arc<FakeTelegramServer>,
    address: Option<SocketAddr>,
    running: Mutex<Option<ServerThread>>,
}

#[derive(Debug)]
struct FakeTelegramServer {
    world: WatchedValue<FakeTelegramState>,
    gates: Gates,
}

impl FakeTelegramServer {
    fn person(&self, id: i64, name: &str) -> FakeTelegramUser<'_> {
        self.world.update(|world| {
            let handle = name.to_lowercase().replace(' ', "_");
            let user = json!({"id": id, "is_bot": false, "first_name": name, "username": handle});
            world.people.entry(id).or_insert(user);
            world.chats.entry(id).or_insert_with(|| chat(id, "private", name));
        });
        FakeTelegramUser { stage: self, id }
    }
}

impl FakeTelegram {
    /// Starts on a free port, for the bot with this token.
    pub fn start(token: &str) -> Result<Self, Error> {
        Self::start_on(token, 0)
    }

    pub fn start_on(token: &str, port: u16) -> Result<Self, Error> {
        let stage = Arc::new(FakeTelegramServer {
            world: WatchedValue::new(FakeTelegramState::new(token)),
            gates: Gates::default(),
        });
        let mut telegram = Self { stage, address: None, running: Mutex::default() };
        telegram.address = Some(telegram.serve(port)?);
        Ok(telegram)
    }

    fn serve(&self, port: u16) -> Result<SocketAddr, Error> {
        let stage = self.stage.clone();
        let (address, thread) =
            ServerThread::start("telegram", port, move |listener| serve::serve(listener, stage))?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(address)
    }

    /// Ends the server and every connection. What it knows stays.
    pub fn kill(&self) {
        let thread = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(thread);
    }

    /// Serves again on the port it had.
    pub fn restart(&self) -> Result<(), Error> {
        self.serve(self.address.map_or(0, |address| address.port())).map(drop)
    }

    /// What `platforms.telegram.extra.base_url` is set to.
    pub fn base_url(&self) -> String {
        self.address.map(|address| format!("http://{address}")).unwrap_or_default()
    }

    /// Somebody, in a direct chat with the bot and in groups.
    pub fn person(&self, id: i64, name: &str) -> FakeTelegramUser<'_> {
        self.stage.person(id, name)
    }

    /// Another bot that writes in groups.
    pub fn other_bot(&self, id: i64, name: &str) -> FakeTelegramUser<'_> {
        let user = json!({"id": id, "is_bot": true, "first_name": name, "username": name});
        self.stage.world.update(|world| world.people.insert(id, user));
        FakeTelegramUser { stage: &self.stage, id }
    }

    pub fn group(&self, id: i64, title: &str) {
        self.stage.world.update(|world| world.chats.insert(id, chat(id, "supergroup", title)));
    }

    pub fn channel(&self, id: i64, title: &str) {
        self.stage.world.update(|world| world.chats.insert(id, chat(id, "channel", title)));
    }

    /// A topic of a chat, and its number.
    pub fn topic(&self, chat: i64, name: &str) -> i64 {
        self.stage.world.update(|world| {
            let id = world.message_id();
            if let Some(chat) = world.chats.get_mut(&chat) {
                chat.topics.insert(id, name.to_owned());
            }
            id
        })
    }

    pub fn close_topic(&self, chat: i64, topic: i64) {
        self.stage.world.update(|world| {
            world.chats.get_mut(&chat).map(|chat| chat.topics.remove(&topic));
        });
    }

    /// The names of a chat's topics.
    pub fn topics(&self, chat: i64) -> Vec<String> {
        self.stage.world.read(|world| {
            world.chats.get(&chat).map(|chat| chat.topics.values().cloned().collect()).unwrap_or_default()
        })
    }

    /// A person no longer wants to hear from the bot, or does again.
    pub fn block(&self, person: i64, blocked: bool) {
        self.stage.world.update(|world| {
            if let Some(chat) = world.chats.get_mut(&person) {
                chat.blocked = blocked;
            }
        });
    }

    /// A group becomes a supergroup with another number.
    pub fn migrate(&self, from: i64, to: i64) {
        self.stage.world.update(|world| {
            let title = world.chats.get(&from).map(|chat| chat.title.clone()).unwrap_or_default();
            world.chats.insert(to, chat(to, "supergroup", &title));
            if let Some(chat) = world.chats.get_mut(&from) {
                chat.migrated_to = Some(to);
            }
        });
    }

    /// A file that a message can name.
    pub fn file(&self, path: &str, bytes: &[u8]) -> Value {
        self.stage.world.update(|world| world.store(path, bytes.to_vec()))
    }

    /// Anything at all as an update; its number.
    pub fn announces(&self, kind: &str, what: Value) -> i64 {
        self.stage.world.update(|world| world.announce(kind, what))
    }

    /// The same update again, under a number of its own.
    pub fn repeats_last(&self) {
        self.stage.world.update(|world| {
            let Some((_, update)) = world.pending.back().cloned() else { return };
            let id = world.next_update;
            world.next_update += 1;
            let mut update = update;
            if let Value::Object(fields) = &mut update {
                fields.insert("update_id".to_owned(), json!(id));
            }
            world.pending.push_back((id, update));
        });
    }

    /// What waits comes in another order than it was said in.
    pub fn reverses_pending(&self) {
        self.stage.world.update(|world| world.pending.make_contiguous().reverse());
    }

    /// How many updates the bot has not confirmed.
    pub fn pending(&self) -> usize {
        self.stage.world.read(|world| world.pending.len())
    }

    /// What the bot said in a chat, oldest first.
    pub fn messages(&self, chat: i64) -> Vec<FakeTelegramMessage> {
        self.stage
            .world
            .read(|world| world.posted.iter().filter(|posted| posted.chat == chat).cloned().collect())
    }

    /// Waits until the bot has said something with this part in it, and gives the newest such message.
    pub async fn until_said(&self, chat: i64, part: &str) -> FakeTelegramMessage {
        self.stage.world.until(|world| newest(world, chat, part)).await
    }

    #[track_caller]
    pub fn until_said_blocking(&self, chat: i64, part: &str) -> FakeTelegramMessage {
        let what = format!("`{part}` in chat {chat}");
        self.stage.world.until_blocking(&what, |world| newest(world, chat, part))
    }

    /// The parameters of every call of a method so far.
    pub fn calls(&self, method: &str) -> Vec<Map<String, Value>> {
        self.stage.world.read(|world| calls(world, method))
    }

    /// Waits until a method has been called so often; what the last call did may not be seen yet.
    pub async fn until_called(&self, method: &str, count: usize) -> Vec<Map<String, Value>> {
        self.stage.world.until(|world| Some(calls(world, method)).filter(|calls| calls.len() >= count)).await
    }

    #[track_caller]
    pub fn until_called_blocking(&self, method: &str, count: usize) -> Vec<Map<String, Value>> {
        let what = format!("{count} calls of {method}");
        let look =
            |world: &mut FakeTelegramState| Some(calls(world, method)).filter(|calls| calls.len() >= count);
        self.stage.world.until_blocking(&what, look)
    }

    /// Waits until the bot has confirmed everything.
    pub async fn until_confirmed(&self) {
        self.stage.world.until(|world| world.pending.is_empty().then_some(())).await;
    }

    #[track_caller]
    pub fn until_confirmed_blocking(&self) {
        self.stage
            .world
            .until_blocking("everything confirmed", |world| world.pending.is_empty().then_some(()));
    }

    /// What the presser of a button was told, once the bot has told something.
    pub async fn until_answered(&self, query: &str) -> String {
        self.stage.world.until(|world| world.queries.get(query).cloned().flatten()).await
    }

    /// The reaction of the bot to a message.
    pub fn reaction(&self, chat: i64, message: i64) -> Option<String> {
        self.stage.world.read(|world| world.reactions.get(&(chat, message)).cloned())
    }

    /// The menu of commands, once there is one.
    pub async fn until_menu(&self) -> Value {
        self.stage.world.until(|world| (!world.commands.is_null()).then(|| world.commands.clone())).await
    }

    /// The statuses the webhook answered with.
    pub async fn until_delivered(&self, count: usize) -> Vec<u16> {
        self.stage
            .world
            .until(|world| (world.delivered.len() >= count).then(|| world.delivered.clone()))
            .await
    }

    pub fn webhook(&self) -> Option<String> {
        self.stage.world.read(|world| world.hook.as_ref().map(|hook| hook.url.clone()))
    }

    /// The next call of a method goes wrong; several wait their turn.
    pub fn fails(&self, method: &str, fault: TelegramFault) {
        self.stage.world.update(|world| world.faults.entry(method.to_owned()).or_default().push_back(fault));
    }

    /// What Telegram finds when it is given this address.
    pub fn publishes(&self, url: &str, mime: &str, bytes: &[u8]) {
        let found = (mime.to_owned(), bytes.to_vec());
        self.stage.world.update(|world| world.web.insert(url.to_owned(), found));
    }

    /// When everything from now on is written, in seconds.
    pub fn writes_at(&self, date: i64) {
        self.stage.world.update(|world| world.date = Some(date));
    }

    /// A server that has never heard of a method.
    pub fn forgets(&self, method: &str) {
        self.stage.world.update(|world| world.unknown_methods.push(method.to_owned()));
    }

    /// From now on not more than thirty messages a second, and one in each chat.
    pub fn limits_floods(&self, clock: Arc<dyn Clock>) {
        self.stage.world.update(|world| {
            world.flood = Some(FloodLimit { clock, sent: std::collections::VecDeque::new() });
        });
    }

    pub fn release(&self, gate: &str) {
        self.stage.gates.release(gate);
    }

    pub async fn until_at(&self, gate: &str) {
        self.stage.gates.until_waiting(gate, 1).await;
    }
}

fn chat(id: i64, kind: &'static str, title: &str) -> FakeTelegramChat {
    FakeTelegramChat {
        id,
        kind,
        title: title.to_owned(),
        topics: std::collections::BTreeMap::new(),
        blocked: false,
        migrated_to: None,
    }
}

fn newest(world: &FakeTelegramState, chat: i64, part: &str) -> Option<FakeTelegramMessage> {
    world.posted.iter().rev().find(|posted| posted.chat == chat && posted.text.contains(part)).cloned()
}

fn calls(world: &FakeTelegramState, method: &str) -> Vec<Map<String, Value>> {
    world.calls.iter().filter(|(name, _)| name == method).map(|(_, fields)| fields.clone()).collect()
}
