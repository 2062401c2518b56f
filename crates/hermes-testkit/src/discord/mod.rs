//! Discord, for tests: the REST API and the gateway of version 10 on one port, written from their documentation.
//!
//! People write, use commands and press buttons through this handle; what the bot does is seen through it, too. It is as
//! strict as the real one, and stricter about fields nobody has documented. Nothing here knows the adapter.

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
mod world;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::Clock;
use serde_json::{Value, json};

pub use faults::{Fault, Order, Resumable, Scope, Sessions};
pub use world::{Call, Id, Message, Response};

use crate::gate::Gates;
use crate::running::OwnThread;
use crate::watched::Watched;
use crate::{Error, RealClock};
use serve::{Shared, serve};
use world::{Channel, ChannelKind, Person, World};

/// The token the bot signs in with, unless a test says otherwise.
pub const TOKEN: &str = "discord-test-token";

/// A running server. Dropping it ends every connection.
pub struct Discord {
    shared: Arc<Shared>,
    port: u16,
    running: Option<OwnThread>,
}

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct DiscordBuilder {
    port: u16,
    clock: Arc<dyn Clock>,
    heartbeat: Duration,
}

/// Something a person writes, beyond a plain text.
#[derive(Debug, Clone, Default)]
pub struct Words {
    text: String,
    reply_to: Option<Id>,
    files: Vec<(String, String, Vec<u8>)>,
    kind: u8,
    flags: u64,
}

impl Words {
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    #[must_use]
    pub fn file(mut self, name: &str, mime: &str, bytes: &[u8]) -> Self {
        self.files.push((name.to_owned(), mime.to_owned(), bytes.to_vec()));
        self
    }

    #[must_use]
    pub fn answering(mut self, message: Id) -> Self {
        (self.reply_to, self.kind) = (Some(message), 19);
        self
    }

    /// The type of the message, for those that Discord writes itself.
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

impl DiscordBuilder {
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The clock heartbeats, rate limits and the three seconds of interactions go by.
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

    pub fn start(self) -> Result<Discord, Error> {
        let shared = Shared {
            world: Watched::new(World::new(TOKEN)),
            gates: Gates::default(),
            clock: self.clock,
            heartbeat: self.heartbeat,
        };
        let mut discord = Discord { shared: Arc::new(shared), port: self.port, running: None };
        discord.start_again(Sessions::Kept)?;
        Ok(discord)
    }
}

/// Running it.
impl Discord {
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    pub fn builder() -> DiscordBuilder {
        DiscordBuilder {
            port: 0,
            clock: Arc::new(RealClock::default()),
            heartbeat: Duration::from_millis(41_250),
        }
    }

    /// `http://127.0.0.1:PORT`, without the version.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends every connection and refuses new ones, like a server that was killed.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Listens again on the same port, with everything that was said.
    pub fn start_again(&mut self, sessions: Sessions) -> Result<(), Error> {
        if sessions == Sessions::Lost {
            self.lose_sessions();
        }
        let shared = self.shared.clone();
        let (address, thread) =
            OwnThread::start("discord", self.port, move |listener| serve(listener, shared))?;
        self.port = address.port();
        self.shared.world.update(|world| world.port = address.port());
        self.running = Some(thread);
        Ok(())
    }

    /// Forgets every session: none can be resumed.
    pub fn lose_sessions(&self) {
        self.shared.world.update(|world| world.sessions.clear());
    }
}

/// Setting the stage.
impl Discord {
    pub fn bot(&self) -> Id {
        self.shared.world.read(|world| world.bot)
    }

    pub fn guild(&self, name: &str) -> Id {
        self.change(|world, at| {
            let id = world.next_id(at);
            world.guilds.insert(id, name.to_owned());
            let event = world.guild_json(id);
            world.publish("GUILD_CREATE", &event, Some(id), true);
            id
        })
    }

    pub fn channel(&self, guild: Id, name: &str) -> Id {
        self.add_channel(guild, name, ChannelKind::Text)
    }

    pub fn forum(&self, guild: Id, name: &str) -> Id {
        self.add_channel(guild, name, ChannelKind::Forum)
    }

    pub fn voice_channel(&self, guild: Id, name: &str) -> Id {
        self.add_channel(guild, name, ChannelKind::Voice)
    }

    /// A thread that somebody opened.
    pub fn thread(&self, parent: Id, name: &str) -> Id {
        self.change(|world, at| {
            let id = world.next_id(at);
            world.open_thread(id, parent, name);
            id
        })
    }

    pub fn set_topic(&self, channel: Id, topic: &str) {
        self.change(|world, _| {
            if let Some(known) = world.channels.get_mut(&channel) {
                known.topic = Some(topic.to_owned());
            }
            let event = world.channel_json(channel);
            world.publish("CHANNEL_UPDATE", &event, None, true);
        });
    }

    /// Takes the channel out of the bot's sight.
    pub fn hide(&self, channel: Id) {
        self.change(|world, _| {
            if let Some(known) = world.channels.get_mut(&channel) {
                known.hidden = true;
            }
        });
    }

    pub fn person(&self, username: &str, display: Option<&str>) -> Id {
        self.add_person(username, display, false)
    }

    /// Another bot.
    pub fn other_bot(&self, username: &str) -> Id {
        self.add_person(username, None, true)
    }

    /// The direct chat of a person with the bot.
    pub fn dm(&self, person: Id) -> Id {
        self.change(|world, at| world.dm(person, at))
    }

    fn add_person(&self, username: &str, display: Option<&str>, bot: bool) -> Id {
        self.change(|world, at| {
            let id = world.next_id(at);
            let display = display.map(str::to_owned);
            world.people.insert(id, Person { username: username.to_owned(), display, bot });
            id
        })
    }

    fn add_channel(&self, guild: Id, name: &str, kind: ChannelKind) -> Id {
        self.change(|world, at| {
            let id = world.next_id(at);
            let (name, guild) = (name.to_owned(), Some(guild));
            let channel =
                Channel { kind, name, topic: None, guild, parent: None, person: None, hidden: false };
            world.channels.insert(id, channel);
            let event = world.channel_json(id);
            world.publish("CHANNEL_CREATE", &event, guild, true);
            id
        })
    }

    fn change<R>(&self, change: impl FnOnce(&mut World, world::Moment) -> R) -> R {
        let at = self.shared.moment();
        self.shared.world.update(|world| change(world, at))
    }
}

/// What people do.
impl Discord {
    /// Somebody writes; a mention is written as `<@id>`.
    pub fn says(&self, person: Id, channel: Id, text: &str) -> Id {
        self.writes(person, channel, Words::new(text))
    }

    pub fn writes(&self, person: Id, channel: Id, words: Words) -> Id {
        self.change(|world, at| {
            let id = world.next_id(at);
            let file = |(name, mime, bytes): &(String, String, Vec<u8>)| world.attach(name, mime, bytes, at);
            let attachments = words.files.iter().map(file).collect();
            let Words { text, reply_to, kind, flags, .. } = words;
            world.post(Message {
                kind,
                reply_to,
                attachments,
                flags,
                ..Message::new(id, channel, person, &text)
            });
            id
        })
    }

    pub fn uses_command(&self, person: Id, channel: Id, name: &str, options: &[(&str, Value)]) -> Id {
        let option = |(name, value): &(&str, Value)| json!({"name": name, "type": 3, "value": value});
        let options: Vec<Value> = options.iter().map(option).collect();
        let data = json!({"data": {"id": "1", "name": name, "type": 1, "options": options}});
        self.change(|world, at| world.begin_interaction(person, channel, 2, data, at))
    }

    /// Presses the button with that label; panics when there is none.
    #[track_caller]
    pub fn presses(&self, person: Id, message: &Message, label: &str) -> Id {
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

    /// What a person sees in answer to a command or a press.
    pub fn response(&self, interaction: Id) -> Response {
        let known = self.shared.world.read(|world| world.interactions.get(&interaction).cloned());
        known.map_or(Response::None, |known| known.response)
    }

    pub async fn until_response(&self, interaction: Id, wanted: impl Fn(&Response) -> bool) -> Response {
        let look = |world: &mut World| {
            let response = &world.interactions.get(&interaction)?.response;
            wanted(response).then(|| response.clone())
        };
        self.shared.world.until(look).await
    }

    /// The type of the first answer to an interaction, once there is one.
    pub async fn until_acknowledged(&self, interaction: Id) -> u64 {
        self.shared.world.until(|world| world.interactions.get(&interaction)?.answered).await
    }
}

/// What the bot did.
impl Discord {
    /// Everything in a channel, oldest first.
    pub fn messages(&self, channel: Id) -> Vec<Message> {
        self.shared.world.read(|world| world.messages.get(&channel).cloned()).unwrap_or_default()
    }

    /// What the bot wrote there.
    pub fn said(&self, channel: Id) -> Vec<Message> {
        let bot = self.bot();
        self.messages(channel)
            .into_iter()
            .filter(|message| message.author == bot && message.kind != 21)
            .collect()
    }

    /// Waits until the bot has written something with `part` in it.
    pub async fn until_said(&self, channel: Id, part: &str) -> Message {
        self.shared.world.until(|world| world.find_said(channel, part)).await
    }

    #[track_caller]
    pub fn until_said_blocking(&self, channel: Id, part: &str) -> Message {
        self.shared
            .world
            .until_blocking(&format!("`{part}` in {channel}"), |world| world.find_said(channel, part))
    }

    /// Waits until a message looks a certain way.
    pub async fn until_message(&self, channel: Id, id: Id, wanted: impl Fn(&Message) -> bool) -> Message {
        self.shared
            .world
            .until(|world| world.message(channel, id).filter(|message| wanted(message)).cloned())
            .await
    }

    /// Waits until that thread is there, and says its name.
    pub async fn until_thread(&self, id: Id) -> String {
        self.shared.world.until(|world| world.channels.get(&id).map(|channel| channel.name.clone())).await
    }

    /// Threads below a channel.
    pub fn threads(&self, parent: Id) -> Vec<Id> {
        let below = |world: &World| {
            let threads = world.channels.iter().filter(|(_, channel)| channel.parent == Some(parent));
            threads.map(|(id, _)| *id).collect()
        };
        self.shared.world.read(below)
    }

    /// Every REST call, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.world.read(|world| world.calls.clone())
    }

    /// Waits for the call with that number among those that fit, from 1.
    pub async fn until_call(&self, method: &str, part: &str, count: usize) -> Call {
        let fits = |call: &&Call| call.method == method && call.path.contains(part);
        self.shared.world.until(|world| world.calls.iter().filter(fits).nth(count - 1).cloned()).await
    }

    pub fn commands(&self) -> Vec<Value> {
        self.shared.world.read(|world| world.commands.clone())
    }

    pub fn typing(&self) -> Vec<Id> {
        self.shared.world.read(|world| world.typing.clone())
    }

    /// How many sessions were begun, and how many resumed.
    pub fn sessions(&self) -> (usize, usize) {
        self.shared.world.read(|world| (world.identified, world.resumed))
    }

    pub async fn until_sessions(&self, identified: usize, resumed: usize) {
        self.shared
            .world
            .until(|world| (world.identified >= identified && world.resumed >= resumed).then_some(()))
            .await;
    }

    /// What heartbeats said.
    pub fn heartbeats(&self) -> Vec<Option<u64>> {
        self.shared.world.read(|world| world.heartbeats.clone())
    }

    pub async fn until_heartbeats(&self, count: usize) {
        self.shared.world.until(|world| (world.heartbeats.len() >= count).then_some(())).await;
    }

    /// How often a call came although the headers had said that its bucket was empty.
    pub fn overruns(&self) -> usize {
        self.shared.world.read(|world| world.limits.overruns)
    }

    /// The newest event's sequence in the newest session.
    pub fn sequence(&self) -> usize {
        let newest =
            |world: &World| world.sessions.values().next_back().map_or(0, |session| session.log.len());
        self.shared.world.read(newest)
    }
}

/// What goes wrong.
impl Discord {
    /// The next call with that method and that part in its path goes wrong; once.
    pub fn fault(&self, method: &str, part: &str, fault: Fault) {
        self.change(|world, _| world.faults.push((method.to_owned(), part.to_owned(), fault)));
    }

    /// Lets one call pass the gate, now or when it gets there.
    pub fn release(&self, gate: &str) {
        self.shared.gates.release(gate);
    }

    pub async fn until_at(&self, gate: &str) {
        self.shared.gates.until_waiting(gate, 1).await;
    }

    /// Does something on every open socket.
    pub fn order(&self, order: &Order) {
        self.change(|world, _| {
            for connection in world.connections.values_mut() {
                connection.orders.push_back(order.clone());
            }
        });
    }

    /// Delivers the newest message of every session once more, as a new event.
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

    /// The next two messages arrive in the wrong order.
    pub fn swap_next(&self) {
        self.change(|world, _| world.swap_next = true);
    }

    /// Heartbeats get no answer from now on, or do again.
    pub fn ignore_heartbeats(&self, ignore: bool) {
        self.change(|world, _| world.ignore_heartbeats = ignore);
    }

    /// Intents the application has not been granted.
    pub fn forbid_intents(&self, intents: u64) {
        self.change(|world, _| world.forbidden_intents = intents);
    }

    /// Another token is the right one from now on.
    pub fn change_token(&self, token: &str) {
        self.change(|world, _| token.clone_into(&mut world.token));
    }

    /// Every bucket takes so many calls in that time.
    pub fn limit_rate(&self, most: u32, per: Duration) {
        self.change(|world, _| (world.limits.most, world.limits.per) = (most, per));
    }
}

impl World {
    fn find_said(&self, channel: Id, part: &str) -> Option<Message> {
        let said = |message: &&Message| message.author == self.bot && message.content.contains(part);
        self.messages.get(&channel)?.iter().find(said).cloned()
    }
}

impl fmt::Debug for Discord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discord").field("url", &self.base_url()).finish_non_exhaustive()
    }
}
