//! An emulated Discord: the REST API and the gateway of version 10 on one port, written from their documentation.
//!
//! Tests write messages, use commands and press buttons as users through this handle, and read what the bot did. It
//! is as strict as the real one, and stricter about undocumented fields. It shares no code with the channel.

mod faults;
mod form;
mod interaction;
mod json;
mod limits;
mod message;
mod page;
mod rest;
mod serve;
mod socket;
mod state;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::Clock;
use serde_json::{Value, json};

pub use faults::{DiscordFault, DiscordSocketAction, RateLimitScope, SessionResumption, SessionRetention};
pub use state::{FakeDiscordCall, FakeDiscordId, FakeDiscordMessage, FakeInteractionResponse};

use crate::gate::Gates;
use crate::server_thread::ServerThread;
use crate::watched_value::WatchedValue;
use crate::{Error, RealClock};
use serve::{FakeDiscordServer, serve};
use state::{FakeChannelKind, FakeDiscordChannel, FakeDiscordState, FakeDiscordUser};

/// The token of the bot, unless a test sets another.
pub const TOKEN: &str = "discord-test-token";

/// A running server. Dropping it ends every connection.
pub struct FakeDiscord {
    shared: Arc<FakeDiscordServer>,
    port: u16,
    running: Option<ServerThread>,
}

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct FakeDiscordBuilder {
    port: u16,
    clock: Arc<dyn Clock>,
    heartbeat: Duration,
}

/// A user's message, beyond plain text.
#[derive(Debug, Clone, Default)]
pub struct FakeUserMessage {
    text: String,
    reply_to: Option<FakeDiscordId>,
    files: Vec<(String, String, Vec<u8>)>,
    kind: u8,
    flags: u64,
}

impl FakeUserMessage {
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    #[must_use]
    pub fn file(mut self, name: &str, mime: &str, bytes: &[u8]) -> Self {
        self.files.push((name.to_owned(), mime.to_owned(), bytes.to_vec()));
        self
    }

    #[must_use]
    pub fn answering(mut self, message: FakeDiscordId) -> Self {
        (self.reply_to, self.kind) = (Some(message), 19);
        self
    }

    /// Sets the type of the message, for system messages.
    #[must_use]
    pub fn kind(mut self, kind: u8) -> Self {
        self.kind = kind;
        self
    }

    #[must_use]
    pub fn voice(mut self) -> Self {
        self.flags = 8192;
        self
    }
}

impl FakeDiscordBuilder {
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the clock for heartbeats, rate limits and the time limit of interactions.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    #[must_use]
    pub fn heartbeat(mut self, interval: Duration) -> Self {
        self.heartbeat = interval;
        self
    }

    pub fn start(self) -> Result<FakeDiscord, Error> {
        let shared = FakeDiscordServer {
            world: WatchedValue::new(FakeDiscordState::new(TOKEN)),
            gates: Gates::default(),
            clock: self.clock,
            heartbeat: self.heartbeat,
        };
        let mut discord = FakeDiscord { shared: Arc::new(shared), port: self.port, running: None };
        discord.start_again(SessionRetention::Kept)?;
        Ok(discord)
    }
}

/// Starting and stopping.
impl FakeDiscord {
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    pub fn builder() -> FakeDiscordBuilder {
        FakeDiscordBuilder {
            port: 0,
            clock: Arc::new(RealClock::default()),
            heartbeat: Duration::from_millis(41_250),
        }
    }

    /// Returns `http://127.0.0.1:PORT`, without the version.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends every connection and refuses new ones, like a server that was killed.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Listens again on the same port, with its state.
    pub fn start_again(&mut self, sessions: SessionRetention) -> Result<(), Error> {
        if sessions == SessionRetention::Lost {
            self.lose_sessions();
        }
        let shared = self.shared.clone();
        let (address, thread) =
            ServerThread::start("discord", self.port, move |listener| serve(listener, shared))?;
        self.port = address.port();
        self.shared.world.update(|world| world.port = address.port());
        self.running = Some(thread);
        Ok(())
    }

    /// Deletes every session, so that none can be resumed.
    pub fn lose_sessions(&self) {
        self.shared.world.update(|world| world.sessions.clear());
    }
}

/// Setting up servers, channels and users.
impl FakeDiscord {
    pub fn bot(&self) -> FakeDiscordId {
        self.shared.world.read(|world| world.bot)
    }

    pub fn guild(&self, name: &str) -> FakeDiscordId {
        self.change(|world, at| {
            let id = world.next_id(at);
            world.guilds.insert(id, name.to_owned());
            let event = world.guild_json(id);
            world.publish("GUILD_CREATE", &event, Some(id), true);
            id
        })
    }

    pub fn channel(&self, guild: FakeDiscordId, name: &str) -> FakeDiscordId {
        self.add_channel(guild, name, FakeChannelKind::Text)
    }

    pub fn forum(&self, guild: FakeDiscordId, name: &str) -> FakeDiscordId {
        self.add_channel(guild, name, FakeChannelKind::Forum)
    }

    pub fn voice_channel(&self, guild: FakeDiscordId, name: &str) -> FakeDiscordId {
        self.add_channel(guild, name, FakeChannelKind::Voice)
    }

    /// Creates a thread.
    pub fn thread(&self, parent: FakeDiscordId, name: &str) -> FakeDiscordId {
        self.change(|world, at| {
            let id = world.next_id(at);
            world.open_thread(id, parent, name);
            id
        })
    }

    pub fn set_topic(&self, channel: FakeDiscordId, topic: &str) {
        self.change(|world, _| {
            if let Some(known) = world.channels.get_mut(&channel) {
                known.topic = Some(topic.to_owned());
            }
            let event = world.channel_json(channel);
            world.publish("CHANNEL_UPDATE", &event, None, true);
        });
    }

    /// Hides the channel from the bot.
    pub fn hide(&self, channel: FakeDiscordId) {
        self.change(|world, _| {
            if let Some(known) = world.channels.get_mut(&channel) {
                known.hidden = true;
            }
        });
    }

    pub fn person(&self, username: &str, display: Option<&str>) -> FakeDiscordId {
        self.add_person(username, display, false)
    }

    /// Creates another bot.
    pub fn other_bot(&self, username: &str) -> FakeDiscordId {
        self.add_person(username, None, true)
    }

    /// Returns the direct chat of a user with the bot.
    pub fn dm(&self, person: FakeDiscordId) -> FakeDiscordId {
        self.change(|world, at| world.dm(person, at))
    }

    fn add_person(&self, username: &str, display: Option<&str>, bot: bool) -> FakeDiscordId {
        self.change(|world, at| {
            let id = world.next_id(at);
            let display = display.map(str::to_owned);
            world.people.insert(id, FakeDiscordUser { username: username.to_owned(), display, bot });
            id
        })
    }

    fn add_channel(&self, guild: FakeDiscordId, name: &str, kind: FakeChannelKind) -> FakeDiscordId {
        self.change(|world, at| {
            let id = world.next_id(at);
            let (name, guild) = (name.to_owned(), Some(guild));
            let channel = FakeDiscordChannel {
                kind,
                name,
                topic: None,
                guild,
                parent: None,
                person: None,
                hidden: false,
            };
            world.channels.insert(id, channel);
            let event = world.channel_json(id);
            world.publish("CHANNEL_CREATE", &event, guild, true);
            id
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut FakeDiscordState, state::EventTime) -> R) -> R {
        let at = self.shared.moment();
        self.shared.world.update(|world| change(world, at))
    }
}

/// Actions of users.
impl FakeDiscord {
    /// Sends a user's message; a mention is written as `<@id>`.
    pub fn says(&self, person: FakeDiscordId, channel: FakeDiscordId, text: &str) -> FakeDiscordId {
        self.writes(person, channel, FakeUserMessage::new(text))
    }

    pub fn writes(
        &self,
        person: FakeDiscordId,
        channel: FakeDiscordId,
        words: FakeUserMessage,
    ) -> FakeDiscordId {
        self.change(|world, at| {
            let id = world.next_id(at);
            let file = |(name, mime, bytes): &(String, String, Vec<u8>)| world.attach(name, mime, bytes, at);
            let attachments = words.files.iter().map(file).collect();
            let FakeUserMessage { text, reply_to, kind, flags, .. } = words;
            world.post(FakeDiscordMessage {
                kind,
                reply_to,
                attachments,
                flags,
                ..FakeDiscordMessage::new(id, channel, person, &text)
            });
            id
        })
    }

    pub fn uses_command(
        &self,
        person: FakeDiscordId,
        channel: FakeDiscordId,
        name: &str,
        options: &[(&str, Value)],
    ) -> FakeDiscordId {
        let option = |(name, value): &(&str, Value)| json!({"name": name, "type": 3, "value": value});
        let options: Vec<Value> = options.iter().map(option).collect();
        let data = json!({"data": {"id": "1", "name": name, "type": 1, "options": options}});
        self.change(|world, at| world.begin_interaction(person, channel, 2, data, at))
    }

    /// Presses the button with that label; panics when there is none.
    #[track_caller]
    pub fn presses(&self, person: FakeDiscordId, message: &FakeDiscordMessage, label: &str) -> FakeDiscordId {
        let rows = message.components.iter().filter_map(|row| row["components"].as_array());
        let button = rows.flatten().find(|button| button["label"] == label);
        let Some(button) = button else { panic!("there is no button `{label}` on {message:?}") };
        let custom = button["custom_id"].clone();
        let channel = message.channel;
        self.change(|world, at| {
            let shown = world.message_json(message);
            let more = json!({"data": {"custom_id": custom, "component_type": 2}, "message": shown});
            world.begin_interaction(person, channel, 3, more, at)
        })
    }

    /// Returns what a user sees in response to a command or a button press.
    pub fn response(&self, interaction: FakeDiscordId) -> FakeInteractionResponse {
        let known = self.shared.world.read(|world| world.interactions.get(&interaction).cloned());
        known.map_or(FakeInteractionResponse::None, |known| known.response)
    }

    pub async fn until_response(
        &self,
        interaction: FakeDiscordId,
        wanted: impl Fn(&FakeInteractionResponse) -> bool,
    ) -> FakeInteractionResponse {
        let look = |world: &mut FakeDiscordState| {
            let response = &world.interactions.get(&interaction)?.response;
            wanted(response).then(|| response.clone())
        };
        self.shared.world.until(look).await
    }

    /// Waits for the first response to an interaction and returns its type.
    pub async fn until_acknowledged(&self, interaction: FakeDiscordId) -> u64 {
        self.shared.world.until(|world| world.interactions.get(&interaction)?.answered).await
    }
}

/// Actions of the bot.
impl FakeDiscord {
    /// Returns all messages in a channel, oldest first.
    pub fn messages(&self, channel: FakeDiscordId) -> Vec<FakeDiscordMessage> {
        self.shared.world.read(|world| world.messages.get(&channel).cloned()).unwrap_or_default()
    }

    /// Returns the bot's messages in a channel.
    pub fn said(&self, channel: FakeDiscordId) -> Vec<FakeDiscordMessage> {
        let bot = self.bot();
        self.messages(channel)
            .into_iter()
            .filter(|message| message.author == bot && message.kind != 21)
            .collect()
    }

    /// Waits until the bot has sent a message that contains `part`.
    pub async fn until_said(&self, channel: FakeDiscordId, part: &str) -> FakeDiscordMessage {
        self.shared.world.until(|world| world.find_said(channel, part)).await
    }

    #[track_caller]
    pub fn until_said_blocking(&self, channel: FakeDiscordId, part: &str) -> FakeDiscordMessage {
        self.shared
            .world
            .until_blocking(&format!("`{part}` in {channel}"), |world| world.find_said(channel, part))
    }

    /// Waits until a message meets a condition.
    pub async fn until_message(
        &self,
        channel: FakeDiscordId,
        id: FakeDiscordId,
        wanted: impl Fn(&FakeDiscordMessage) -> bool,
    ) -> FakeDiscordMessage {
        self.shared
            .world
            .until(|world| world.message(channel, id).filter(|message| wanted(message)).cloned())
            .await
    }

    /// Waits until that thread exists, and returns its name.
    pub async fn until_thread(&self, id: FakeDiscordId) -> String {
        self.shared.world.until(|world| world.channels.get(&id).map(|channel| channel.name.clone())).await
    }

    /// Returns the threads below a channel.
    pub fn threads(&self, parent: FakeDiscordId) -> Vec<FakeDiscordId> {
        let below = |world: &FakeDiscordState| {
            let threads = world.channels.iter().filter(|(_, channel)| channel.parent == Some(parent));
            threads.map(|(id, _)| *id).collect()
        };
        self.shared.world.read(below)
    }

    /// Returns every REST call, oldest first.
    pub fn calls(&self) -> Vec<FakeDiscordCall> {
        self.shared.world.read(|world| world.calls.clone())
    }

    /// Waits for the matching call with that number, from 1.
    pub async fn until_call(&self, method: &str, part: &str, count: usize) -> FakeDiscordCall {
        let fits = |call: &&FakeDiscordCall| call.method == method && call.path.contains(part);
        self.shared.world.until(|world| world.calls.iter().filter(fits).nth(count - 1).cloned()).await
    }

    pub fn commands(&self) -> Vec<Value> {
        self.shared.world.read(|world| world.commands.clone())
    }

    pub fn typing(&self) -> Vec<FakeDiscordId> {
        self.shared.world.read(|world| world.typing.clone())
    }

    /// Returns how many sessions were started, and how many resumed.
    pub fn sessions(&self) -> (usize, usize) {
        self.shared.world.read(|world| (world.identified, world.resumed))
    }

    pub async fn until_sessions(&self, identified: usize, resumed: usize) {
        self.shared
            .world
            .until(|world| (world.identified >= identified && world.resumed >= resumed).then_some(()))
            .await;
    }

    /// Returns the sequence numbers of heartbeats.
    pub fn heartbeats(&self) -> Vec<Option<u64>> {
        self.shared.world.read(|world| world.heartbeats.clone())
    }

    pub async fn until_heartbeats(&self, count: usize) {
        self.shared.world.until(|world| (world.heartbeats.len() >= count).then_some(())).await;
    }

    /// Returns how many calls were made although the headers had said that their bucket was empty.
    pub fn overruns(&self) -> usize {
        self.shared.world.read(|world| world.limits.overruns)
    }

    /// Returns the newest event's sequence number in the newest session.
    pub fn sequence(&self) -> usize {
        let newest = |world: &FakeDiscordState| {
            world.sessions.values().next_back().map_or(0, |session| session.log.len())
        };
        self.shared.world.read(newest)
    }
}

/// Faults.
impl FakeDiscord {
    /// Makes the next call with that method and that part in its path fail, once.
    pub fn fault(&self, method: &str, part: &str, fault: DiscordFault) {
        self.change(|world, _| world.faults.push((method.to_owned(), part.to_owned(), fault)));
    }

    /// Lets one call pass the gate, now or when it gets there.
    pub fn release(&self, gate: &str) {
        self.shared.gates.release(gate);
    }

    pub async fn until_at(&self, gate: &str) {
        self.shared.gates.until_waiting(gate, 1).await;
    }

    /// Runs an action on every open socket.
    pub fn order(&self, order: &DiscordSocketAction) {
        self.change(|world, _| {
            for connection in world.connections.values_mut() {
                connection.orders.push_back(order.clone());
            }
        });
    }

    /// Delivers the newest message of every session again, as a new event.
    pub fn repeat_last(&self) {
        self.change(|world, _| {
            for session in world.sessions.values_mut() {
                let last = session.log.iter().rev().find(|event| event["t"] == "MESSAGE_CREATE").cloned();
                if let Some(last) = last {
                    session.append("MESSAGE_CREATE", &last["d"]);
                }
            }
        });
    }

    /// Swaps the order of the next two messages.
    pub fn swap_next(&self) {
        self.change(|world, _| world.swap_next = true);
    }

    /// Sets whether heartbeats are left unanswered.
    pub fn ignore_heartbeats(&self, ignore: bool) {
        self.change(|world, _| world.ignore_heartbeats = ignore);
    }

    /// Sets the intents the application has not been granted.
    pub fn forbid_intents(&self, intents: u64) {
        self.change(|world, _| world.forbidden_intents = intents);
    }

    /// Changes the valid token.
    pub fn change_token(&self, token: &str) {
        self.change(|world, _| token.clone_into(&mut world.token));
    }

    /// Limits every bucket to this many calls in that time.
    pub fn limit_rate(&self, most: u32, per: Duration) {
        self.change(|world, _| (world.limits.most, world.limits.per) = (most, per));
    }
}

impl FakeDiscordState {
    fn find_said(&self, channel: FakeDiscordId, part: &str) -> Option<FakeDiscordMessage> {
        let said =
            |message: &&FakeDiscordMessage| message.author == self.bot && message.content.contains(part);
        self.messages.get(&channel)?.iter().find(said).cloned()
    }
}

impl fmt::Debug for FakeDiscord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discord").field("url", &self.base_url()).finish_non_exhaustive()
    }
}
