//! An emulated Matrix homeserver: the client-server API without encryption, written from its specification.
//!
//! It shares no code with the channel. For the cases a real server does not show on request: limits, lost responses, repeated and cut
//! syncs, connections that fall silent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::BoxFuture;
use serde_json::{Value, json};

use crate::Error;
use crate::http::{HttpConnection, ReceivedRequest};
use crate::platform::{
    EmulatedPlatform, EmulatedReply, PlatformCall, PlatformFault, PlatformServer, PlatformServerState,
    encode, query_fields, seconds_now,
};

/// The bot's token, id and password.
pub const TOKEN: &str = "matrix-test-token";
pub const BOT: &str = "@hermes:example.org";
pub const PASSWORD: &str = "matrix-test-password";
/// The longest time that the server holds a sync, whatever the client wants.
const HOLD: Duration = Duration::from_secs(2);

/// An event of a room.
#[derive(Debug, Clone, PartialEq)]
pub struct FakeMatrixEvent {
    pub id: String,
    pub room: String,
    pub sender: String,
    pub kind: String,
    pub content: Value,
    pub redacted: bool,
    state_key: Option<String>,
    transaction: Option<String>,
    at: u64,
}

impl FakeMatrixEvent {
    fn shown(&self) -> Value {
        let mut shown = json!({
            "event_id": self.id, "room_id": self.room, "sender": self.sender, "type": self.kind,
            "content": self.content, "origin_server_ts": self.at, "unsigned": {},
        });
        if let Some(key) = &self.state_key {
            shown["state_key"] = json!(key);
        }
        if let Some(transaction) = self.transaction.as_ref().filter(|_| self.sender == BOT) {
            shown["unsigned"]["transaction_id"] = json!(transaction);
        }
        shown
    }
}

/// A message as people see it, with what it was edited to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FakeMatrixMessage {
    pub id: String,
    pub text: String,
    pub markup: Option<String>,
    pub thread: Option<String>,
    pub reply_to: Option<String>,
    pub earlier: Vec<String>,
    /// The name, the kind and the bytes of its file.
    pub file: Option<(String, String, Vec<u8>)>,
    /// What was reacted to it, and by whom.
    pub reactions: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct FakeMatrixState {
    token: String,
    devices: u64,
    names: BTreeMap<String, String>,
    events: Vec<FakeMatrixEvent>,
    /// Invitations that the bot has not answered: the room, who invites, whether it is a direct chat.
    invitations: Vec<(String, String, bool)>,
    /// The ids of events, by path and transaction id.
    transactions: BTreeMap<String, String>,
    files: BTreeMap<String, (String, Vec<u8>)>,
    typing: Vec<String>,
    direct: Vec<String>,
    /// The next sync begins this much earlier than the client asks for.
    repeat: usize,
    timeline_limit: usize,
    /// True while syncs are neither answered nor ended.
    is_silent: bool,
    held: u64,
    count: u64,
}

/// A running server.
#[derive(Debug)]
pub struct FakeMatrix(PlatformServer<FakeMatrixState>);

impl FakeMatrix {
    pub fn start() -> Result<Self, Error> {
        Self::start_at(0)
    }

    pub fn start_at(port: u16) -> Result<Self, Error> {
        let world =
            FakeMatrixState { token: TOKEN.to_owned(), timeline_limit: 50, ..FakeMatrixState::default() };
        Ok(Self(PlatformServer::start("matrix", port, world)?))
    }

    pub fn base_url(&self) -> String {
        self.0.base_url()
    }

    /// Creates a person and returns their id.
    pub fn person(&self, name: &str) -> String {
        let id = format!("@{}:example.org", name.to_lowercase());
        self.0.update(|world| world.names.insert(id.clone(), name.to_owned()));
        id
    }

    /// Creates a room with the bot and these people in it, and returns its id.
    pub fn room(&self, name: &str, people: &[&str]) -> String {
        self.0.update(|world| {
            let room = world.next_room();
            for user in people.iter().copied().chain([BOT]) {
                world.add_member(&room, user, "join");
            }
            if !name.is_empty() {
                world.add_state(&room, "m.room.name", "", json!({"name": name}));
            }
            room
        })
    }

    /// Invites the bot into a new room of one person, and returns its id.
    pub fn invite(&self, person: &str, is_direct: bool) -> String {
        self.0.update(|world| {
            let room = world.next_room();
            world.add_member(&room, person, "join");
            world.invitations.push((room.clone(), person.to_owned(), is_direct));
            room
        })
    }

    /// Tells whether the bot is in a room; `None` while it was invited and has not answered.
    pub fn is_in(&self, room: &str) -> Option<bool> {
        self.0.read(|world| {
            let is_open = world.invitations.iter().any(|(open, _, _)| open == room);
            (!is_open).then(|| world.members(room).iter().any(|(user, _)| user == BOT))
        })
    }

    /// Writes as a person; returns the id of the event.
    pub fn says(&self, person: &str, room: &str, text: &str) -> String {
        self.sends(person, room, "m.room.message", json!({"msgtype": "m.text", "body": text}))
    }

    /// Sends any event as a person.
    pub fn sends(&self, person: &str, room: &str, kind: &str, content: Value) -> String {
        self.0.update(|world| world.add(room, person, kind, content, None, None))
    }

    /// Shares a file.
    pub fn shares(&self, person: &str, room: &str, text: &str, file: (&str, &str, &[u8])) -> String {
        let (name, mime, bytes) = file;
        let address = self.0.update(|world| world.store(mime, bytes));
        let kind = match mime.split('/').next() {
            Some("image") => "m.image",
            Some("audio") => "m.audio",
            Some("video") => "m.video",
            _ => "m.file",
        };
        let body = if text.is_empty() { name } else { text };
        let content = json!({
            "msgtype": kind, "body": body, "filename": name, "url": address, "info": {"mimetype": mime, "size": bytes.len()},
        });
        self.sends(person, room, "m.room.message", content)
    }

    /// Reacts to a message.
    pub fn reacts(&self, person: &str, room: &str, to: &str, key: &str) -> String {
        let content = json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": to, "key": key}});
        self.sends(person, room, "m.reaction", content)
    }

    /// Returns the events of a room.
    pub fn events(&self, room: &str) -> Vec<FakeMatrixEvent> {
        self.0.read(|world| world.events.iter().filter(|event| event.room == room).cloned().collect())
    }

    /// Returns the bot's messages in a room, as people see them.
    pub fn said(&self, room: &str) -> Vec<FakeMatrixMessage> {
        self.0.read(|world| world.said(room))
    }

    /// Returns the rooms in which the bot was seen typing.
    pub fn typing(&self) -> Vec<String> {
        self.0.read(|world| world.typing.clone())
    }

    /// Calls a room a direct chat in the bot's settings.
    pub fn call_direct(&self, room: &str) {
        self.0.update(|world| world.direct.push(room.to_owned()));
    }

    #[track_caller]
    pub fn until_said_blocking(&self, room: &str, part: &str) -> FakeMatrixMessage {
        self.0.until_blocking(part, |world| {
            world.said(room).into_iter().find(|message| message.text.contains(part))
        })
    }

    /// Waits until a person's message has that reaction by the bot.
    pub async fn until_reacted(&self, message: &str, key: &str) {
        self.0
            .until(|world| {
                let wanted = |event: &FakeMatrixEvent| {
                    event.sender == BOT
                        && !event.redacted
                        && event.content["m.relates_to"]["event_id"] == message
                        && event.content["m.relates_to"]["key"] == key
                };
                world.events.iter().any(wanted).then_some(())
            })
            .await;
    }

    /// Waits until that many syncs with nothing new are held.
    pub async fn until_held(&self, count: u64) {
        self.0.until(|world| (world.held >= count).then_some(())).await;
    }

    /// Returns the number of syncs that were held.
    pub fn held(&self) -> u64 {
        self.0.read(|world| world.held)
    }

    /// Waits until the bot has answered an invitation.
    pub async fn until_answered(&self, room: &str) {
        self.0
            .until(|world| (!world.invitations.iter().any(|(open, _, _)| open == room)).then_some(()))
            .await;
    }

    /// Makes the next sync begin this many events before the point that the client names.
    pub fn repeat(&self, events: usize) {
        self.0.update(|world| world.repeat = events);
    }

    /// Cuts what one sync says of a room.
    pub fn limit_timeline(&self, events: usize) {
        self.0.update(|world| world.timeline_limit = events);
    }

    /// Lets syncs neither be answered nor end.
    pub fn fall_silent(&self, silent: bool) {
        self.0.update(|world| world.is_silent = silent);
    }

    /// Forgets which requests were made before, as servers do after a while.
    pub fn forget_transactions(&self) {
        self.0.update(|world| world.transactions.clear());
    }

    pub fn change_token(&self, token: &str) {
        self.0.update(|world| token.clone_into(&mut world.token));
    }

    pub fn fault(&self, method: &str, part: &str, fault: PlatformFault) {
        self.0.fault(method, part, fault);
    }

    /// Refuses the next matching call as the server does for too many.
    pub fn limit(&self, method: &str, part: &str, milliseconds: u64) {
        let body = json!({"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests", "retry_after_ms": milliseconds});
        self.0.fault(method, part, PlatformFault::Refuse(429, body));
    }

    pub fn calls(&self, part: &str) -> Vec<PlatformCall> {
        self.0.calls(part)
    }

    pub fn stop(&mut self) {
        self.0.stop();
    }

    pub fn start_again(&mut self) -> Result<(), Error> {
        self.0.start_again()
    }
}

impl FakeMatrixState {
    fn next_room(&mut self) -> String {
        self.count += 1;
        format!("!room{}:example.org", self.count)
    }

    fn add(
        &mut self,
        room: &str,
        sender: &str,
        kind: &str,
        content: Value,
        state_key: Option<String>,
        transaction: Option<String>,
    ) -> String {
        self.count += 1;
        let id = format!("$event{}", self.count);
        self.events.push(FakeMatrixEvent {
            id: id.clone(),
            room: room.to_owned(),
            sender: sender.to_owned(),
            kind: kind.to_owned(),
            content,
            redacted: false,
            state_key,
            transaction,
            at: seconds_now() * 1000,
        });
        id
    }

    fn add_state(&mut self, room: &str, kind: &str, key: &str, content: Value) {
        self.add(room, "@admin:example.org", kind, content, Some(key.to_owned()), None);
    }

    fn add_member(&mut self, room: &str, user: &str, membership: &str) {
        let name = self.names.get(user).cloned();
        let name = name.unwrap_or_else(|| if user == BOT { "Hermes".to_owned() } else { user.to_owned() });
        self.add_state(room, "m.room.member", user, json!({"membership": membership, "displayname": name}));
    }

    /// Returns the present state events of a room.
    fn state(&self, room: &str) -> BTreeMap<(String, String), &FakeMatrixEvent> {
        let events = self.events.iter().filter(|event| event.room == room);
        let state = |event| {
            let event: &FakeMatrixEvent = event;
            Some(((event.kind.clone(), event.state_key.clone()?), event))
        };
        events.filter_map(state).collect()
    }

    fn members(&self, room: &str) -> Vec<(String, &FakeMatrixEvent)> {
        let state = self.state(room).into_iter();
        let members = state
            .filter(|((kind, _), event)| kind == "m.room.member" && event.content["membership"] == "join");
        members.map(|((_, user), event)| (user, event)).collect()
    }

    fn store(&mut self, mime: &str, bytes: &[u8]) -> String {
        self.count += 1;
        let id = format!("file{}", self.count);
        self.files.insert(id.clone(), (mime.to_owned(), bytes.to_vec()));
        format!("mxc://example.org/{id}")
    }

    fn said(&self, room: &str) -> Vec<FakeMatrixMessage> {
        let mut said: Vec<FakeMatrixMessage> = Vec::new();
        for event in self.events.iter().filter(|event| event.room == room && !event.redacted) {
            let content = &event.content;
            let relation = &content["m.relates_to"];
            let target = relation["event_id"].as_str();
            let text = |value: &Value| value.as_str().map(str::to_owned);
            match (event.kind.as_str(), relation["rel_type"].as_str()) {
                ("m.reaction", _) => {
                    if let Some(message) = said.iter_mut().find(|message| Some(message.id.as_str()) == target)
                    {
                        let key = text(&relation["key"]).unwrap_or_default();
                        message.reactions.push((key, event.sender.clone()));
                    }
                }
                ("m.room.message", Some("m.replace")) if event.sender == BOT => {
                    if let Some(message) = said.iter_mut().find(|message| Some(message.id.as_str()) == target)
                    {
                        let new = text(&content["m.new_content"]["body"]).unwrap_or_default();
                        let before = std::mem::replace(&mut message.text, new);
                        message.earlier.push(before);
                        message.markup = text(&content["m.new_content"]["formatted_body"]);
                    }
                }
                ("m.room.message", kind) if event.sender == BOT => {
                    let file = content["url"].as_str().and_then(|url| {
                        let (_, bytes) = self.files.get(url.rsplit('/').next()?)?;
                        Some((text(&content["filename"])?, text(&content["msgtype"])?, bytes.clone()))
                    });
                    said.push(FakeMatrixMessage {
                        id: event.id.clone(),
                        text: text(&content["body"]).unwrap_or_default(),
                        markup: text(&content["formatted_body"]),
                        thread: target.filter(|_| kind == Some("m.thread")).map(str::to_owned),
                        reply_to: text(&relation["m.in_reply_to"]["event_id"]),
                        file,
                        ..FakeMatrixMessage::default()
                    });
                }
                _ => {}
            }
        }
        said
    }

    /// Returns the number of the first event that a sync has to show.
    fn begin(&self, request: &ReceivedRequest) -> Option<usize> {
        let since = field(request, "since")?;
        let at: usize = since.strip_prefix('s')?.parse().ok()?;
        Some(at.saturating_sub(self.repeat).min(self.events.len()))
    }

    fn sync(&self, begin: Option<usize>) -> Value {
        let mut join = serde_json::Map::new();
        let mut rooms: Vec<&String> = self.events.iter().map(|event| &event.room).collect();
        rooms.sort();
        rooms.dedup();
        for room in rooms {
            if !self.members(room).iter().any(|(user, _)| user == BOT) {
                continue;
            }
            let new = self
                .events
                .iter()
                .enumerate()
                .filter(|(at, event)| event.room == *room && begin.is_none_or(|begin| *at >= begin));
            let new: Vec<(usize, &FakeMatrixEvent)> = new.collect();
            if new.is_empty() {
                continue;
            }
            let shown = new.get(new.len().saturating_sub(self.timeline_limit)..).unwrap_or_default();
            let limited = shown.len() < new.len();
            let prev = shown.first().map_or(0, |(at, _)| *at);
            let events: Vec<Value> = shown.iter().map(|(_, event)| event.shown()).collect();
            let timeline = json!({"events": events, "limited": limited, "prev_batch": format!("s{prev}")});
            join.insert(room.clone(), json!({"timeline": timeline, "state": {"events": []}}));
        }
        let invite: serde_json::Map<String, Value> = self
            .invitations
            .iter()
            .map(|(room, inviter, is_direct)| {
                let event = json!({
                    "type": "m.room.member", "state_key": BOT, "sender": inviter,
                    "content": {"membership": "invite", "is_direct": is_direct},
                });
                (room.clone(), json!({"invite_state": {"events": [event]}}))
            })
            .collect();
        json!({"next_batch": format!("s{}", self.events.len()), "rooms": {"join": join, "invite": invite}})
    }

    fn has_news(&self, request: &ReceivedRequest) -> bool {
        let begin = self.begin(request);
        begin.is_none_or(|begin| begin < self.events.len()) || !self.invitations.is_empty()
    }

    fn messages(&self, room: &str, request: &ReceivedRequest) -> EmulatedReply {
        let at = |name: &str| field(request, name)?.strip_prefix('s')?.parse::<usize>().ok();
        let (from, to) = (at("from").unwrap_or(self.events.len()), at("to").unwrap_or_default());
        let limit: usize = field(request, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(10);
        let events = self.events.iter().enumerate().take(from).skip(to);
        let mut events: Vec<(usize, &FakeMatrixEvent)> =
            events.filter(|(_, event)| event.room == room).collect();
        events.reverse();
        events.truncate(limit);
        let end = events.last().map_or(to, |(at, _)| *at);
        let chunk: Vec<Value> = events.iter().map(|(_, event)| event.shown()).collect();
        EmulatedReply::json(
            200,
            &json!({"chunk": chunk, "start": format!("s{from}"), "end": format!("s{end}")}),
        )
    }

    fn send(&mut self, room: &str, kind: &str, transaction: &str, body: &Value) -> EmulatedReply {
        if !self.members(room).iter().any(|(user, _)| user == BOT) {
            return refusal(403, "M_FORBIDDEN", "User not in room");
        }
        let key = format!("{room} {kind} {transaction}");
        if let Some(id) = self.transactions.get(&key) {
            return EmulatedReply::json(200, &json!({"event_id": id}));
        }
        if !body.is_object()
            || kind == "m.room.message" && !(body["body"].is_string() && body["msgtype"].is_string())
        {
            return refusal(400, "M_BAD_JSON", "no message");
        }
        if body.to_string().len() > 65_536 {
            return refusal(413, "M_TOO_LARGE", "event too large");
        }
        let id = self.add(room, BOT, kind, body.clone(), None, Some(transaction.to_owned()));
        self.transactions.insert(key, id.clone());
        EmulatedReply::json(200, &json!({"event_id": id}))
    }

    fn log_in(&mut self, body: &Value) -> EmulatedReply {
        let is_right = body["type"] == "m.login.password"
            && body["identifier"] == json!({"type": "m.id.user", "user": BOT})
            && body["password"] == PASSWORD;
        if !is_right {
            return refusal(403, "M_FORBIDDEN", "Invalid username or password");
        }
        self.devices += 1;
        self.token = format!("{TOKEN}-{}", self.devices);
        let device =
            body["device_id"].as_str().map_or_else(|| format!("DEVICE{}", self.devices), str::to_owned);
        EmulatedReply::json(200, &json!({"user_id": BOT, "access_token": self.token, "device_id": device}))
    }

    fn route(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let path = request.target.split('?').next().unwrap_or_default();
        let parts: Vec<String> = path.split('/').skip(2).map(unescape).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let empty = || EmulatedReply::json(200, &json!({}));
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["client", "v3", "account", "whoami"]) => {
                EmulatedReply::json(200, &json!({"user_id": BOT, "device_id": "DEVICE"}))
            }
            ("GET", ["client", "v3", "sync"]) => {
                let begin = self.begin(request);
                self.repeat = 0;
                EmulatedReply::json(200, &self.sync(begin))
            }
            ("GET", ["client", "v3", "joined_rooms"]) => {
                let mut rooms: Vec<String> = self.events.iter().map(|event| event.room.clone()).collect();
                rooms.sort();
                rooms.dedup();
                rooms.retain(|room| self.members(room).iter().any(|(user, _)| user == BOT));
                EmulatedReply::json(200, &json!({"joined_rooms": rooms}))
            }
            ("GET", ["client", "v3", "user", BOT, "account_data", "m.direct"]) if !self.direct.is_empty() => {
                EmulatedReply::json(200, &json!({"@somebody:example.org": self.direct}))
            }
            ("GET", ["client", "v3", "rooms", room, "members"]) => {
                let chunk: Vec<Value> = self.members(room).iter().map(|(_, event)| event.shown()).collect();
                if chunk.is_empty() {
                    return refusal(403, "M_FORBIDDEN", "You aren't a member of the room");
                }
                EmulatedReply::json(200, &json!({"chunk": chunk}))
            }
            ("GET", ["client", "v3", "rooms", room, "state", kind, key]) => {
                match self.state(room).get(&((*kind).to_owned(), (*key).to_owned())) {
                    Some(event) => EmulatedReply::json(200, &event.content),
                    None => refusal(404, "M_NOT_FOUND", "Event not found."),
                }
            }
            ("GET", ["client", "v3", "rooms", room, "messages"]) => self.messages(room, request),
            ("GET", ["client", "v3", "rooms", _, "event", id]) => {
                match self.events.iter().find(|event| event.id == *id) {
                    Some(event) => EmulatedReply::json(200, &event.shown()),
                    None => refusal(404, "M_NOT_FOUND", "Event not found."),
                }
            }
            ("PUT", ["client", "v3", "rooms", room, "send", kind, transaction]) => {
                self.send(room, kind, transaction, &body)
            }
            ("PUT", ["client", "v3", "rooms", _, "redact", id, _]) => {
                if let Some(event) = self.events.iter_mut().find(|event| event.id == *id) {
                    event.redacted = true;
                    event.content = json!({});
                }
                empty()
            }
            ("PUT", ["client", "v3", "rooms", room, "typing", BOT]) => {
                self.typing.push((*room).to_owned());
                empty()
            }
            ("POST", ["client", "v3", "rooms", room, answer @ ("join" | "leave")]) => {
                self.invitations.retain(|(open, _, _)| open != room);
                if *answer == "join" {
                    self.add_member(room, BOT, "join");
                }
                EmulatedReply::json(200, &json!({"room_id": room}))
            }
            ("POST", ["media", "v3", "upload"]) => {
                let mime = request.header("content-type").unwrap_or_default().to_owned();
                let address = self.store(&mime, &request.body);
                EmulatedReply::json(200, &json!({"content_uri": address}))
            }
            ("GET", ["client", "v1", "media", "download", "example.org", id]) => match self.files.get(*id) {
                Some((_, bytes)) => EmulatedReply::bytes(200, "application/octet-stream", bytes),
                None => refusal(404, "M_NOT_FOUND", "Not found"),
            },
            _ => refusal(404, "M_UNRECOGNIZED", "Unrecognized request"),
        }
    }
}

impl EmulatedPlatform for FakeMatrixState {
    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        if request.method == "POST" && request.target == "/_matrix/client/v3/login" {
            return self.log_in(&serde_json::from_slice(&request.body).unwrap_or_default());
        }
        if request.header("authorization") != Some(format!("Bearer {}", self.token).as_str()) {
            return refusal(401, "M_UNKNOWN_TOKEN", "Invalid access token passed.");
        }
        self.route(request)
    }

    /// A sync with nothing new is held.
    fn is_stream(&self, request: &ReceivedRequest) -> bool {
        let waits = field(request, "timeout").is_some_and(|timeout| timeout != "0");
        let is_known = request.header("authorization") == Some(format!("Bearer {}", self.token).as_str());
        request.target.starts_with("/_matrix/client/v3/sync?")
            && waits
            && is_known
            && (self.is_silent || !self.has_news(request))
    }

    fn stream(
        shared: Arc<PlatformServerState<Self>>,
        mut connection: HttpConnection,
        request: ReceivedRequest,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            shared.world.update(|world| world.held += 1);
            let news = shared.world.until(|world| {
                let is_revoked =
                    request.header("authorization") != Some(format!("Bearer {}", world.token).as_str());
                (!world.is_silent && (is_revoked || world.has_news(&request))).then_some(())
            });
            let is_silent = tokio::select! {
                () = connection.until_gone() => return,
                () = news => false,
                () = tokio::time::sleep(HOLD) => shared.world.read(|world| world.is_silent),
            };
            if is_silent {
                connection.until_gone().await;
                return;
            }
            let mut reply = shared.world.update(|world| world.respond(&request));
            reply.headers.push(("connection", "close".to_owned()));
            connection.write(&encode(&reply)).await.ok();
        })
    }
}

/// Returns a field of a query.
fn field(request: &ReceivedRequest, name: &str) -> Option<String> {
    query_fields(&request.target).into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// Decodes a segment of a path.
fn unescape(segment: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits: Vec<u8> = rest.by_ref().take(2).collect();
        let digits = String::from_utf8_lossy(&digits).into_owned();
        bytes.extend(u8::from_str_radix(&digits, 16).ok());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn refusal(status: u16, code: &str, error: &str) -> EmulatedReply {
    EmulatedReply::json(status, &json!({"errcode": code, "error": error}))
}
