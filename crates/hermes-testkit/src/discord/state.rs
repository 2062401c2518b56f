//! The state of the emulated Discord: servers, channels, users, messages, sessions. Changes publish their events.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use hermes_types::Timestamp;
use serde_json::{Value, json};

use super::faults::{DiscordFault, DiscordSocketAction};
use super::limits::FakeRateLimits;

/// The epoch of Discord's ids, in milliseconds.
const EPOCH_MS: u64 = 1_420_070_400_000;

/// An id of the emulated Discord.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FakeDiscordId(pub u64);

impl fmt::Display for FakeDiscordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FakeDiscordId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// The time of an event, on both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct EventTime {
    pub(super) wall: Timestamp,
    pub(super) monotonic: Duration,
}

#[derive(Debug, Clone)]
pub(super) struct FakeDiscordUser {
    pub(super) username: String,
    pub(super) display: Option<String>,
    pub(super) bot: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FakeChannelKind {
    Text,
    Dm,
    Voice,
    Thread,
    Forum,
}

impl FakeChannelKind {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Text => 0,
            Self::Dm => 1,
            Self::Voice => 2,
            Self::Thread => 11,
            Self::Forum => 15,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct FakeDiscordChannel {
    pub(super) kind: FakeChannelKind,
    pub(super) name: String,
    pub(super) topic: Option<String>,
    pub(super) guild: Option<FakeDiscordId>,
    pub(super) parent: Option<FakeDiscordId>,
    /// The user of a direct chat.
    pub(super) person: Option<FakeDiscordId>,
    /// True when the bot may not see it.
    pub(super) hidden: bool,
}

/// A message in its current state.
#[derive(Debug, Clone, PartialEq)]
pub struct FakeDiscordMessage {
    pub id: FakeDiscordId,
    pub channel: FakeDiscordId,
    pub author: FakeDiscordId,
    /// The type: 0 is ordinary, 19 a reply; others are system messages.
    pub kind: u8,
    pub content: String,
    /// The texts it had before, oldest first.
    pub earlier: Vec<String>,
    pub reply_to: Option<FakeDiscordId>,
    pub attachments: Vec<Value>,
    pub components: Vec<Value>,
    pub embeds: Vec<Value>,
    pub flags: u64,
    pub nonce: Option<String>,
    /// The bot's reactions, in order of arrival.
    pub reactions: Vec<String>,
    pub allowed_mentions: Value,
    pub(super) nonce_until: Duration,
}

/// A button press or a command.
#[derive(Debug, Clone)]
pub(super) struct FakeInteraction {
    pub(super) token: String,
    pub(super) since: Duration,
    /// The type of the response, once there is one.
    pub(super) answered: Option<u64>,
    /// The current response.
    pub(super) response: FakeInteractionResponse,
}

/// The response a user sees to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FakeInteractionResponse {
    None,
    Thinking,
    Text(String),
    Deleted,
}

/// A received REST call.
#[derive(Debug, Clone)]
pub struct FakeDiscordCall {
    pub method: String,
    /// The path without the version, with the query: `/channels/1/messages?after=2`.
    pub path: String,
    pub body: Value,
    pub status: u16,
}

#[derive(Debug, Default)]
pub(super) struct FakeDiscordSession {
    pub(super) intents: u64,
    /// Every event so far; the first has the sequence number 1.
    pub(super) log: Vec<Value>,
    /// The listening connection, and the number of events it got.
    pub(super) listener: Option<(u64, usize)>,
}

#[derive(Debug, Default)]
pub(super) struct FakeDiscordConnection {
    pub(super) orders: VecDeque<DiscordSocketAction>,
}

#[derive(Debug)]
pub(super) struct FakeDiscordState {
    pub(super) token: String,
    pub(super) bot: FakeDiscordId,
    pub(super) application: FakeDiscordId,
    pub(super) guilds: BTreeMap<FakeDiscordId, String>,
    pub(super) channels: BTreeMap<FakeDiscordId, FakeDiscordChannel>,
    pub(super) people: BTreeMap<FakeDiscordId, FakeDiscordUser>,
    pub(super) messages: BTreeMap<FakeDiscordId, Vec<FakeDiscordMessage>>,
    pub(super) files: BTreeMap<FakeDiscordId, (String, Vec<u8>)>,
    pub(super) commands: Vec<Value>,
    pub(super) interactions: BTreeMap<FakeDiscordId, FakeInteraction>,
    pub(super) sessions: BTreeMap<String, FakeDiscordSession>,
    pub(super) connections: BTreeMap<u64, FakeDiscordConnection>,
    pub(super) opened: u64,
    pub(super) identified: usize,
    pub(super) resumed: usize,
    /// The sequence numbers of heartbeats, oldest first.
    pub(super) heartbeats: Vec<Option<u64>>,
    pub(super) ignore_heartbeats: bool,
    pub(super) forbidden_intents: u64,
    pub(super) typing: Vec<FakeDiscordId>,
    pub(super) calls: Vec<FakeDiscordCall>,
    pub(super) faults: Vec<(String, String, DiscordFault)>,
    pub(super) limits: FakeRateLimits,
    pub(super) swap_next: bool,
    pub(super) last_id: u64,
    pub(super) port: u16,
}

impl FakeDiscordState {
    pub(super) fn new(token: &str) -> Self {
        let mut people = BTreeMap::new();
        let bot = FakeDiscordId(1_000_000_000_000_000_001);
        people.insert(bot, FakeDiscordUser { username: "hermes".to_owned(), display: None, bot: true });
        Self {
            token: token.to_owned(),
            bot,
            application: FakeDiscordId(1_000_000_000_000_000_002),
            guilds: BTreeMap::new(),
            channels: BTreeMap::new(),
            people,
            messages: BTreeMap::new(),
            files: BTreeMap::new(),
            commands: Vec::new(),
            interactions: BTreeMap::new(),
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            opened: 0,
            identified: 0,
            resumed: 0,
            heartbeats: Vec::new(),
            ignore_heartbeats: false,
            forbidden_intents: 0,
            typing: Vec::new(),
            calls: Vec::new(),
            faults: Vec::new(),
            limits: FakeRateLimits::default(),
            swap_next: false,
            last_id: 0,
            port: 0,
        }
    }

    /// Returns a new id, later than every other.
    pub(super) fn next_id(&mut self, at: EventTime) -> FakeDiscordId {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time of our century")]
        let ms = (at.wall.seconds() * 1000.0) as u64;
        self.last_id = (self.last_id + 1).max(ms.saturating_sub(EPOCH_MS) << 22);
        FakeDiscordId(self.last_id)
    }

    pub(super) fn message(&self, channel: FakeDiscordId, id: FakeDiscordId) -> Option<&FakeDiscordMessage> {
        self.messages.get(&channel)?.iter().find(|message| message.id == id)
    }

    pub(super) fn message_mut(
        &mut self,
        channel: FakeDiscordId,
        id: FakeDiscordId,
    ) -> Option<&mut FakeDiscordMessage> {
        self.messages.get_mut(&channel)?.iter_mut().find(|message| message.id == id)
    }

    /// Adds a message to its channel and publishes it.
    pub(super) fn post(&mut self, message: FakeDiscordMessage) {
        let event = self.message_event(&message);
        let guild = self.channels.get(&message.channel).and_then(|channel| channel.guild);
        let open = guild.is_none()
            || message.author == self.bot
            || self.mentioned(&message.content).contains(&self.bot);
        self.messages.entry(message.channel).or_default().push(message);
        self.publish("MESSAGE_CREATE", &event, guild, open);
    }

    fn message_event(&self, message: &FakeDiscordMessage) -> Value {
        let mut event = self.message_json(message);
        let guild = self.channels.get(&message.channel).and_then(|channel| channel.guild);
        if let Some(guild) = guild {
            event["guild_id"] = json!(guild.to_string());
            event["member"] = json!({"nick": Value::Null, "roles": [], "joined_at": "2026-01-01T00:00:00Z"});
        }
        event
    }

    /// Adds an event to every session. Without the intent for it, the content of messages not addressed to the bot
    /// is left out.
    pub(super) fn publish(&mut self, name: &str, data: &Value, guild: Option<FakeDiscordId>, open: bool) {
        let needed = match (name, guild) {
            ("MESSAGE_CREATE", Some(_)) => 512,
            ("MESSAGE_CREATE", None) => 4096,
            ("INTERACTION_CREATE" | "READY" | "RESUMED", _) => 0,
            _ => 1,
        };
        for session in self.sessions.values_mut() {
            if session.intents & needed != needed {
                continue;
            }
            let mut data = data.clone();
            if name == "MESSAGE_CREATE" && !open && session.intents & 32_768 == 0 {
                data["content"] = json!("");
                data["attachments"] = json!([]);
            }
            session.append(name, &data);
        }
    }

    /// Returns the next action for a connection.
    pub(super) fn take_outgoing(&mut self, connection: u64) -> Option<DiscordSocketAction> {
        if let Some(order) = self.connections.get_mut(&connection).and_then(|known| known.orders.pop_front())
        {
            return Some(order);
        }
        let heard_by =
            |session: &&mut FakeDiscordSession| session.listener.is_some_and(|(id, _)| id == connection);
        let session = self.sessions.values_mut().find(heard_by)?;
        let (_, heard) = session.listener.as_mut()?;
        let at = *heard;
        let event = session.log.get(at)?.clone();
        if self.swap_next && event["t"] == "MESSAGE_CREATE" {
            // Held back until there is another one to send before it.
            let next = session.log.get(at + 1)?.clone();
            self.swap_next = false;
            *heard += 2;
            if let Some(known) = self.connections.get_mut(&connection) {
                known.orders.push_back(DiscordSocketAction::Send(event));
            }
            return Some(DiscordSocketAction::Send(next));
        }
        *heard += 1;
        Some(DiscordSocketAction::Send(event))
    }

    /// Returns the users mentioned in a text.
    pub(super) fn mentioned(&self, text: &str) -> Vec<FakeDiscordId> {
        let mut found = Vec::new();
        for part in text.split("<@").skip(1) {
            let id =
                part.split('>').next().map(|id| id.trim_start_matches('!')).and_then(FakeDiscordId::parse);
            if let Some(id) = id.filter(|id| self.people.contains_key(id) && !found.contains(id)) {
                found.push(id);
            }
        }
        found
    }

    /// Returns the direct chat with a user, creating it if needed.
    pub(super) fn dm(&mut self, person: FakeDiscordId, at: EventTime) -> FakeDiscordId {
        let known = self.channels.iter().find(|(_, channel)| channel.person == Some(person));
        if let Some((id, _)) = known {
            return *id;
        }
        let id = self.next_id(at);
        let channel = FakeDiscordChannel {
            kind: FakeChannelKind::Dm,
            name: String::new(),
            topic: None,
            guild: None,
            parent: None,
            person: Some(person),
            hidden: false,
        };
        self.channels.insert(id, channel);
        id
    }

    /// Creates a thread below a channel, and publishes it.
    pub(super) fn open_thread(&mut self, id: FakeDiscordId, parent: FakeDiscordId, name: &str) {
        let guild = self.channels.get(&parent).and_then(|channel| channel.guild);
        let thread = FakeDiscordChannel {
            kind: FakeChannelKind::Thread,
            name: name.to_owned(),
            topic: None,
            guild,
            parent: Some(parent),
            person: None,
            hidden: false,
        };
        self.channels.insert(id, thread);
        let event = self.channel_json(id);
        self.publish("THREAD_CREATE", &event, guild, true);
    }
}

impl FakeDiscordSession {
    pub(super) fn append(&mut self, name: &str, data: &Value) {
        let sequence = self.log.len() + 1;
        self.log.push(json!({"op": 0, "s": sequence, "t": name, "d": data}));
    }
}

impl FakeDiscordMessage {
    /// Creates an ordinary message.
    pub(super) fn new(
        id: FakeDiscordId,
        channel: FakeDiscordId,
        author: FakeDiscordId,
        content: &str,
    ) -> Self {
        Self {
            id,
            channel,
            author,
            kind: 0,
            content: content.to_owned(),
            earlier: Vec::new(),
            reply_to: None,
            attachments: Vec::new(),
            components: Vec::new(),
            embeds: Vec::new(),
            flags: 0,
            nonce: None,
            reactions: Vec::new(),
            allowed_mentions: Value::Null,
            nonce_until: Duration::ZERO,
        }
    }

    /// Returns the labels of its buttons, row by row.
    pub fn buttons(&self) -> Vec<&str> {
        let rows = self.components.iter().filter_map(|row| row["components"].as_array());
        rows.flatten().filter_map(|button| button["label"].as_str()).collect()
    }
}
