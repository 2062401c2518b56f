//! An emulated Bot API of Telegram, for tests and by hand.
//!
//! Written from the published documentation, independently of the channel: token, parameters, MarkdownV2, limits,
//! offsets, conflicts, flood limits, topics, files, buttons, reactions, webhooks. It fails on request, waits at
//! gates instead of for time, and keeps its state when its server is killed and restarted on the same port.

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

/// The emulator. It serves on its own thread, so that tests without a runtime can use it too.
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

    /// Ends the server and every connection. Its state stays.
    pub fn kill(&self) {
        let thread = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(thread);
    }

    /// Serves again on the same port.
    pub fn restart(&self) -> Result<(), Error> {
        self.serve(self.address.map_or(0, |address| address.port())).map(drop)
    }

    /// Returns the value for `platforms.telegram.extra.base_url`.
    pub fn base_url(&self) -> String {
        self.address.map(|address| format!("http://{address}")).unwrap_or_default()
    }

    /// Creates a user, in a direct chat with the bot and in groups.
    pub fn person(&self, id: i64, name: &str) -> FakeTelegramUser<'_> {
        self.stage.person(id, name)
    }

    /// Creates another bot that writes in groups.
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

    /// Creates a topic of a chat, and returns its id.
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

    /// Returns the names of a chat's topics.
    pub fn topics(&self, chat: i64) -> Vec<String> {
        self.stage.world.read(|world| {
            world.chats.get(&chat).map(|chat| chat.topics.values().cloned().collect()).unwrap_or_default()
        })
    }

    /// Sets whether a user has blocked the bot.
    pub fn block(&self, person: i64, blocked: bool) {
        self.stage.world.update(|world| {
            if let Some(chat) = world.chats.get_mut(&person) {
                chat.blocked = blocked;
            }
        });
    }

    /// Migrates a group to a supergroup with another id.
    pub fn migrate(&self, from: i64, to: i64) {
        self.stage.world.update(|world| {
            let title = world.chats.get(&from).map(|chat| chat.title.clone()).unwrap_or_default();
            world.chats.insert(to, chat(to, "supergroup", &title));
            if let Some(chat) = world.chats.get_mut(&from) {
                chat.migrated_to = Some(to);
            }
        });
    }

    /// Stores a file that a message can refer to.
    pub fn file(&self, path: &str, bytes: &[u8]) -> Value {
        self.stage.world.update(|world| world.store(path, bytes.to_vec()))
    }

    /// Queues any object as an update, and returns its id.
    pub fn announces(&self, kind: &str, what: Value) -> i64 {
        self.stage.world.update(|world| world.announce(kind, what))
    }

    /// Queues the last update again, with a new id.
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

    /// Reverses the order of the pending updates.
    pub fn reverses_pending(&self) {
        self.stage.world.update(|world| world.pending.make_contiguous().reverse());
    }

    /// Returns how many updates the bot has not confirmed.
    pub fn pending(&self) -> usize {
        self.stage.world.read(|world| world.pending.len())
    }

    /// Returns the bot's messages in a chat, oldest first.
    pub fn messages(&self, chat: i64) -> Vec<FakeTelegramMessage> {
        self.stage
            .world
            .read(|world| world.posted.iter().filter(|posted| posted.chat == chat).cloned().collect())
    }

    /// Waits until the bot has sent a message that contains this part, and returns the newest such message.
    pub async fn until_said(&self, chat: i64, part: &str) -> FakeTelegramMessage {
        self.stage.world.until(|world| newest(world, chat, part)).await
    }

    #[track_caller]
    pub fn until_said_blocking(&self, chat: i64, part: &str) -> FakeTelegramMessage {
        let what = format!("`{part}` in chat {chat}");
        self.stage.world.until_blocking(&what, |world| newest(world, chat, part))
    }

    /// Returns the parameters of every call of a method so far.
    pub fn calls(&self, method: &str) -> Vec<Map<String, Value>> {
        self.stage.world.read(|world| calls(world, method))
    }

    /// Waits until a method has been called this often; the effect of the last call may not be visible yet.
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

    /// Waits until the bot has confirmed every update.
    pub async fn until_confirmed(&self) {
        self.stage.world.until(|world| world.pending.is_empty().then_some(())).await;
    }

    #[track_caller]
    pub fn until_confirmed_blocking(&self) {
        self.stage
            .world
            .until_blocking("everything confirmed", |world| world.pending.is_empty().then_some(()));
    }

    /// Waits for the bot's answer to a callback query and returns its text.
    pub async fn until_answered(&self, query: &str) -> String {
        self.stage.world.until(|world| world.queries.get(query).cloned().flatten()).await
    }

    /// Returns the reaction of the bot to a message.
    pub fn reaction(&self, chat: i64, message: i64) -> Option<String> {
        self.stage.world.read(|world| world.reactions.get(&(chat, message)).cloned())
    }

    /// Waits for the menu of commands and returns it.
    pub async fn until_menu(&self) -> Value {
        self.stage.world.until(|world| (!world.commands.is_null()).then(|| world.commands.clone())).await
    }

    /// Waits for this many webhook deliveries and returns the response statuses.
    pub async fn until_delivered(&self, count: usize) -> Vec<u16> {
        self.stage
            .world
            .until(|world| (world.delivered.len() >= count).then(|| world.delivered.clone()))
            .await
    }

    pub fn webhook(&self) -> Option<String> {
        self.stage.world.read(|world| world.hook.as_ref().map(|hook| hook.url.clone()))
    }

    /// Makes the next call of a method fail; several faults apply in order.
    pub fn fails(&self, method: &str, fault: TelegramFault) {
        self.stage.world.update(|world| world.faults.entry(method.to_owned()).or_default().push_back(fault));
    }

    /// Sets the contents Telegram finds at this URL.
    pub fn publishes(&self, url: &str, mime: &str, bytes: &[u8]) {
        let found = (mime.to_owned(), bytes.to_vec());
        self.stage.world.update(|world| world.web.insert(url.to_owned(), found));
    }

    /// Sets the date of all following messages, in seconds.
    pub fn writes_at(&self, date: i64) {
        self.stage.world.update(|world| world.date = Some(date));
    }

    /// Makes the server not know a method.
    pub fn forgets(&self, method: &str) {
        self.stage.world.update(|world| world.unknown_methods.push(method.to_owned()));
    }

    /// Limits the bot to thirty messages a second, and one in each chat.
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
