//! The REST API: the effect of each call on the state. Pure; sending is elsewhere.

use serde_json::{Value, json};

use super::form::DiscordFormPart;
use super::state::{EventTime, FakeChannelKind, FakeDiscordId, FakeDiscordMessage, FakeDiscordState};

/// A received call.
#[derive(Debug, Clone, Default)]
pub(super) struct FakeDiscordRequest {
    pub(super) method: String,
    /// The path without the version and the query.
    pub(super) path: String,
    pub(super) query: String,
    pub(super) body: Value,
    pub(super) files: Vec<DiscordFormPart>,
}

impl FakeDiscordRequest {
    pub(super) fn segments(&self) -> Vec<&str> {
        self.path.split('/').filter(|part| !part.is_empty()).collect()
    }

    fn query(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

/// An error in Discord's format.
#[derive(Debug, Clone)]
pub(super) struct FakeDiscordError {
    pub(super) status: u16,
    pub(super) code: u64,
    pub(super) message: String,
    pub(super) errors: Value,
}

pub(super) type FakeDiscordResult = Result<(u16, Value), FakeDiscordError>;

pub(super) fn trouble(status: u16, code: u64, message: &str) -> FakeDiscordError {
    FakeDiscordError { status, code, message: message.to_owned(), errors: Value::Null }
}

/// Builds the error for an invalid form.
pub(super) fn invalid(field: &str, code: &str, message: &str) -> FakeDiscordError {
    let errors = json!({field: {"_errors": [{"code": code, "message": message}]}});
    FakeDiscordError { status: 400, code: 50035, message: "Invalid Form Body".to_owned(), errors }
}

impl FakeDiscordError {
    pub(super) fn json(&self) -> Value {
        let mut object = json!({"message": self.message, "code": self.code});
        if !self.errors.is_null() {
            object["errors"] = self.errors.clone();
        }
        object
    }
}

/// Refuses undocumented fields, so that a misspelt one is noticed.
pub(super) fn only(body: &Value, known: &[&str]) -> Result<(), FakeDiscordError> {
    let fields =
        body.as_object().ok_or_else(|| trouble(400, 50109, "The request body contains invalid JSON."))?;
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => Err(invalid(field, "UNKNOWN_FIELD", "this field is not documented")),
        None => Ok(()),
    }
}

pub(super) fn id(text: &str) -> Result<FakeDiscordId, FakeDiscordError> {
    FakeDiscordId::parse(text).ok_or_else(|| invalid("id", "NUMBER_TYPE_COERCE", "Value is not snowflake."))
}

impl FakeDiscordState {
    pub(super) fn answer(&mut self, ask: &FakeDiscordRequest, at: EventTime) -> FakeDiscordResult {
        let socket = format!("ws://127.0.0.1:{}", self.port);
        match (ask.method.as_str(), ask.segments().as_slice()) {
            ("GET", ["gateway"]) => Ok((200, json!({"url": socket}))),
            ("GET", ["gateway", "bot"]) => Ok((
                200,
                json!({"url": socket, "shards": 1, "session_start_limit":
                    {"total": 1000, "remaining": 999, "reset_after": 14_400_000, "max_concurrency": 1}}),
            )),
            ("GET", ["users", "@me"]) => Ok((200, self.user_json(self.bot))),
            ("GET", ["users", "@me", "guilds"]) => {
                let entry =
                    |(id, name): (&FakeDiscordId, &String)| json!({"id": id.to_string(), "name": name});
                Ok((200, self.guilds.iter().map(entry).collect()))
            }
            ("POST", ["users", "@me", "channels"]) => self.open_dm(&ask.body, at),
            ("GET", ["applications" | "oauth2", ..]) if is_application(&ask.segments()) => {
                Ok((200, json!({"id": self.application.to_string(), "name": "hermes", "flags": 0})))
            }
            ("PUT", ["applications", application, "commands"]) => self.put_commands(application, &ask.body),
            ("GET", ["applications", _, "commands"]) => Ok((200, json!(self.commands))),
            ("GET", ["guilds", guild]) => {
                let guild = self.known_guild(guild)?;
                Ok((200, json!({"id": guild.to_string(), "name": self.guilds.get(&guild), "roles": []})))
            }
            ("GET", ["guilds", guild, "channels"]) => {
                let guild = self.known_guild(guild)?;
                Ok((200, self.guild_json(guild)["channels"].clone()))
            }
            ("GET", ["channels", channel]) => {
                let channel = self.reachable(channel)?;
                Ok((200, self.channel_json(channel)))
            }
            ("POST", ["channels", channel, "typing"]) => {
                let channel = self.reachable(channel)?;
                self.typing.push(channel);
                Ok((204, Value::Null))
            }
            ("POST", ["channels", channel, "threads"]) => {
                let channel = self.reachable(channel)?;
                self.start_thread(channel, &ask.body, at)
            }
            ("GET", ["channels", channel, "messages"]) => {
                let channel = self.reachable(channel)?;
                self.list(channel, ask.query("after"), ask.query("limit"))
            }
            ("POST", ["channels", channel, "messages"]) => {
                let channel = self.reachable(channel)?;
                self.create_message(channel, ask, at)
            }
            ("PATCH", ["channels", channel, "messages", message]) => {
                let (channel, message) = (self.reachable(channel)?, id(message)?);
                self.edit_message(channel, message, &ask.body)
            }
            ("DELETE", ["channels", channel, "messages", message]) => {
                let (channel, message) = (self.reachable(channel)?, id(message)?);
                self.known_message(channel, message)?;
                self.messages.entry(channel).or_default().retain(|known| known.id != message);
                Ok((204, Value::Null))
            }
            ("POST", ["channels", channel, "messages", message, "threads"]) => {
                let (channel, message) = (self.reachable(channel)?, id(message)?);
                self.thread_from(channel, message, &ask.body, at)
            }
            (
                method @ ("PUT" | "DELETE"),
                ["channels", channel, "messages", message, "reactions", emoji, "@me"],
            ) => {
                let (channel, message) = (self.reachable(channel)?, id(message)?);
                self.react(method, channel, message, emoji)
            }
            ("POST", ["interactions", interaction, token, "callback"]) => {
                self.answer_interaction(id(interaction)?, token, &ask.body, at)
            }
            (method, ["webhooks", application, token, "messages", "@original"]) => {
                self.change_response(method, application, token, &ask.body, at)
            }
            _ => Err(trouble(404, 0, "404: Not Found")),
        }
    }

    fn known_guild(&self, guild: &str) -> Result<FakeDiscordId, FakeDiscordError> {
        let guild = id(guild)?;
        self.guilds.contains_key(&guild).then_some(guild).ok_or_else(|| trouble(404, 10004, "Unknown Guild"))
    }

    /// Returns a channel the bot may use.
    fn reachable(&self, channel: &str) -> Result<FakeDiscordId, FakeDiscordError> {
        let channel = id(channel)?;
        match self.channels.get(&channel) {
            None => Err(trouble(404, 10003, "Unknown Channel")),
            Some(known) if known.hidden => Err(trouble(403, 50001, "Missing Access")),
            Some(_) => Ok(channel),
        }
    }

    pub(super) fn known_message(
        &self,
        channel: FakeDiscordId,
        message: FakeDiscordId,
    ) -> Result<&FakeDiscordMessage, FakeDiscordError> {
        self.message(channel, message).ok_or_else(|| trouble(404, 10008, "Unknown Message"))
    }

    fn open_dm(&mut self, body: &Value, at: EventTime) -> FakeDiscordResult {
        only(body, &["recipient_id"])?;
        let person = id(body["recipient_id"].as_str().unwrap_or_default())?;
        if !self.people.contains_key(&person) {
            return Err(trouble(400, 50033, "Invalid Recipient(s)"));
        }
        let channel = self.dm(person, at);
        Ok((200, self.channel_json(channel)))
    }

    fn list(&self, channel: FakeDiscordId, after: Option<&str>, limit: Option<&str>) -> FakeDiscordResult {
        let limit =
            limit.map_or(Some(50), |text| text.parse::<usize>().ok()).filter(|n| (1..=100).contains(n));
        let limit = limit.ok_or_else(|| invalid("limit", "NUMBER_TYPE_MAX", "limit is 1 to 100"))?;
        let none = Vec::new();
        let all = self.messages.get(&channel).unwrap_or(&none);
        // The newest come first, whatever the query.
        let chosen: Vec<&FakeDiscordMessage> = match after {
            Some(after) => {
                let after = id(after)?;
                all.iter().filter(|message| message.id > after).take(limit).collect()
            }
            None => all.iter().skip(all.len().saturating_sub(limit)).collect(),
        };
        Ok((200, chosen.into_iter().rev().map(|message| self.message_json(message)).collect()))
    }

    fn react(
        &mut self,
        method: &str,
        channel: FakeDiscordId,
        message: FakeDiscordId,
        emoji: &str,
    ) -> FakeDiscordResult {
        self.known_message(channel, message)?;
        let emoji = unescape(emoji).filter(|emoji| !emoji.is_ascii());
        let emoji = emoji.ok_or_else(|| trouble(400, 10014, "Unknown Emoji"))?;
        if let Some(known) = self.message_mut(channel, message) {
            known.reactions.retain(|other| *other != emoji);
            if method == "PUT" {
                known.reactions.push(emoji);
            }
        }
        Ok((204, Value::Null))
    }

    fn thread_from(
        &mut self,
        channel: FakeDiscordId,
        message: FakeDiscordId,
        body: &Value,
        at: EventTime,
    ) -> FakeDiscordResult {
        only(body, &["name", "auto_archive_duration", "rate_limit_per_user"])?;
        check_thread(body)?;
        self.known_message(channel, message)?;
        if self.channels.get(&channel).is_none_or(|known| known.kind != FakeChannelKind::Text) {
            return Err(trouble(400, 50024, "Cannot execute action on this channel type"));
        }
        // A thread has the id of the message it began with.
        if self.channels.contains_key(&message) {
            return Err(trouble(400, 160_004, "A thread has already been created for this message"));
        }
        self.open_thread(message, channel, body["name"].as_str().unwrap_or_default());
        let starter = self.next_id(at);
        self.post(FakeDiscordMessage { kind: 21, ..FakeDiscordMessage::new(starter, message, self.bot, "") });
        Ok((201, self.channel_json(message)))
    }

    fn start_thread(&mut self, channel: FakeDiscordId, body: &Value, at: EventTime) -> FakeDiscordResult {
        only(body, &["name", "auto_archive_duration", "rate_limit_per_user", "type", "invitable"])?;
        check_thread(body)?;
        if self.channels.get(&channel).is_none_or(|known| known.kind != FakeChannelKind::Text) {
            return Err(trouble(400, 50024, "Cannot execute action on this channel type"));
        }
        let thread = self.next_id(at);
        self.open_thread(thread, channel, body["name"].as_str().unwrap_or_default());
        Ok((201, self.channel_json(thread)))
    }
}

fn is_application(segments: &[&str]) -> bool {
    matches!(segments, ["applications", "@me"] | ["oauth2", "applications", "@me"])
}

fn check_thread(body: &Value) -> Result<(), FakeDiscordError> {
    let length = body["name"].as_str().map_or(0, |name| name.trim().chars().count());
    if !(1..=100).contains(&length) {
        return Err(invalid("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length."));
    }
    let archive = &body["auto_archive_duration"];
    let known = archive.as_u64().is_some_and(|minutes| [60, 1440, 4320, 10_080].contains(&minutes));
    if archive.is_null() || known {
        return Ok(());
    }
    Err(invalid(
        "auto_archive_duration",
        "BASE_TYPE_CHOICES",
        "Value must be one of {60, 1440, 4320, 10080}.",
    ))
}

/// Decodes a percent-encoded path segment.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = others;
            continue;
        }
        let digits = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = others.get(2..)?;
    }
    String::from_utf8(bytes).ok()
}
