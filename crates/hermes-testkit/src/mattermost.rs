//! An emulated Mattermost: one team, the REST API and the WebSocket, written from the API's documentation.
//!
//! It shares no code with the channel. Events reach only connections that have signed in; what happens while there is
//! none is found in the channels only.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hermes_types::BoxFuture;
use serde_json::{Value, json};

use crate::Error;
use crate::http::{HttpConnection, ReceivedRequest, parse_form};
use crate::platform::{
    EmulatedPlatform, EmulatedReply, EmulatedSocket, PlatformCall, PlatformFault, PlatformServer,
    PlatformServerState, accept_emulated_socket, query_fields, run_emulated_socket, seconds_now,
};

/// The bot's token, id and name.
pub const TOKEN: &str = "mattermost-test-token";
pub const BOT: &str = "bot0000000000000000000000b";
pub const BOT_NAME: &str = "hermes";

/// A post of a channel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FakeMattermostPost {
    pub id: String,
    pub channel: String,
    pub user: String,
    pub root: String,
    pub message: String,
    pub created: u64,
    /// The names of its files, with their bytes.
    pub files: Vec<(String, Vec<u8>)>,
    pub reactions: Vec<String>,
    /// The texts it had before.
    pub earlier: Vec<String>,
    file_ids: Vec<String>,
    kind: &'static str,
    props: Value,
}

#[derive(Debug, Default)]
struct FakeMattermostChannel {
    name: String,
    kind: &'static str,
    last_post: u64,
}

#[derive(Debug, Default)]
struct FakeMattermostState {
    token: String,
    people: BTreeMap<String, String>,
    channels: BTreeMap<String, FakeMattermostChannel>,
    posts: Vec<FakeMattermostPost>,
    files: BTreeMap<String, (String, String, Vec<u8>)>,
    /// The frames for each connection that has signed in; those of others are not kept.
    connections: BTreeMap<u64, VecDeque<Value>>,
    /// The connections that have not signed in yet, and their answers.
    unknown: BTreeMap<u64, VecDeque<Value>>,
    opened: u64,
    typing: Vec<String>,
    last_event: Option<Value>,
    swap_next: bool,
    held: Option<Value>,
    count: u64,
    clock: u64,
}

/// A running server.
#[derive(Debug)]
pub struct FakeMattermost(PlatformServer<FakeMattermostState>);

impl FakeMattermost {
    pub fn start() -> Result<Self, Error> {
        let mut world = FakeMattermostState { token: TOKEN.to_owned(), ..FakeMattermostState::default() };
        world.people.insert(BOT.to_owned(), BOT_NAME.to_owned());
        Ok(Self(PlatformServer::start("mattermost", 0, world)?))
    }

    pub fn base_url(&self) -> String {
        self.0.base_url()
    }

    /// Creates a person and returns their id.
    pub fn person(&self, name: &str) -> String {
        self.0.update(|world| {
            let id = world.next_id("usr");
            world.people.insert(id.clone(), name.to_owned());
            id
        })
    }

    /// Creates a channel of that type (`O`, `P`, `G` or `D`) with the bot in it, and returns its id.
    pub fn channel(&self, name: &str, kind: &'static str) -> String {
        self.0.update(|world| {
            let id = world.next_id("chn");
            let channel = FakeMattermostChannel { name: name.to_owned(), kind, last_post: 0 };
            world.channels.insert(id.clone(), channel);
            id
        })
    }

    /// Writes as a person; returns the id of the post.
    pub fn says(&self, person: &str, channel: &str, text: &str) -> String {
        self.writes(person, channel, text, |_| {})
    }

    /// Writes in the thread of a post.
    pub fn replies(&self, person: &str, channel: &str, root: &str, text: &str) -> String {
        self.writes(person, channel, text, |post| root.clone_into(&mut post.root))
    }

    /// Writes a post of the system.
    pub fn announces(&self, person: &str, channel: &str, text: &str) -> String {
        self.writes(person, channel, text, |post| post.kind = "system_join_channel")
    }

    /// Shares a file with a text.
    pub fn shares(&self, person: &str, channel: &str, text: &str, file: (&str, &str, &[u8])) -> String {
        let id = self.0.update(|world| world.store(file.0, file.1, file.2));
        self.writes(person, channel, text, |post| post.file_ids.push(id))
    }

    fn writes(
        &self,
        person: &str,
        channel: &str,
        text: &str,
        change: impl FnOnce(&mut FakeMattermostPost),
    ) -> String {
        self.0.update(|world| {
            let mut post = FakeMattermostPost {
                channel: channel.to_owned(),
                user: person.to_owned(),
                message: text.to_owned(),
                props: json!({}),
                ..FakeMattermostPost::default()
            };
            change(&mut post);
            world.add(post)
        })
    }

    /// Returns what the bot wrote to a channel.
    pub fn said(&self, channel: &str) -> Vec<FakeMattermostPost> {
        self.0.read(|world| {
            world.posts.iter().filter(|post| post.channel == channel && post.user == BOT).cloned().collect()
        })
    }

    /// Adds a person's reaction to a post, by the name of its emoji.
    pub fn reacts(&self, person: &str, post: &str, emoji: &str) {
        self.0.update(|world| {
            let at = world.now();
            let reaction = json!({"user_id": person, "post_id": post, "emoji_name": emoji, "create_at": at});
            let event = json!({
                "event": "reaction_added", "seq": 2, "data": {"reaction": reaction.to_string()},
                "broadcast": {"channel_id": world.posts.iter().find(|known| known.id == post).map(|known| &known.channel)},
            });
            world.broadcast(&event);
        });
    }

    pub fn post(&self, id: &str) -> Option<FakeMattermostPost> {
        self.0.read(|world| world.posts.iter().find(|post| post.id == id).cloned())
    }

    /// Returns the channels in which the bot was seen typing.
    pub fn typing(&self) -> Vec<String> {
        self.0.read(|world| world.typing.clone())
    }

    /// Waits until that many connections have signed in since the start.
    pub async fn until_opened(&self, count: u64) {
        self.0.until(|world| (world.opened >= count).then_some(())).await;
    }

    #[track_caller]
    pub fn until_said_blocking(&self, channel: &str, part: &str) -> FakeMattermostPost {
        self.0.until_blocking(part, |world| {
            let ours = |post: &&FakeMattermostPost| {
                post.channel == channel && post.user == BOT && post.message.contains(part)
            };
            world.posts.iter().find(ours).cloned()
        })
    }

    /// Ends every socket.
    pub fn drop_sockets(&self) {
        self.0
            .update(|world| world.connections.values_mut().for_each(|frames| frames.push_back(Value::Null)));
    }

    /// Sends the last event again.
    pub fn repeat_last(&self) {
        self.0.update(|world| {
            if let Some(event) = world.last_event.clone() {
                world.broadcast(&event);
            }
        });
    }

    /// Swaps the order of the next two events.
    pub fn swap_next(&self) {
        self.0.update(|world| world.swap_next = true);
    }

    pub fn change_token(&self, token: &str) {
        self.0.update(|world| token.clone_into(&mut world.token));
    }

    pub fn fault(&self, method: &str, part: &str, fault: PlatformFault) {
        self.0.fault(method, part, fault);
    }

    pub fn calls(&self, part: &str) -> Vec<PlatformCall> {
        self.0.calls(part)
    }

    pub fn stop(&mut self) {
        self.0.stop();
        self.0.update(|world| {
            world.connections.clear();
            world.unknown.clear();
        });
    }

    pub fn start_again(&mut self) -> Result<(), Error> {
        self.0.start_again()
    }
}

impl FakeMattermostState {
    /// Returns an id of 26 characters.
    fn next_id(&mut self, start: &str) -> String {
        self.count += 1;
        format!("{start}{:023}", self.count)
    }

    /// Returns a time in milliseconds that is later than every other.
    fn now(&mut self) -> u64 {
        self.clock = (self.clock + 1).max(seconds_now() * 1000);
        self.clock
    }

    fn store(&mut self, name: &str, mime: &str, bytes: &[u8]) -> String {
        let id = self.next_id("fil");
        self.files.insert(id.clone(), (name.to_owned(), mime.to_owned(), bytes.to_vec()));
        id
    }

    /// Adds a post, and tells the connections about it.
    fn add(&mut self, mut post: FakeMattermostPost) -> String {
        post.id = self.next_id("pst");
        post.created = self.now();
        for id in &post.file_ids {
            if let Some((name, _, bytes)) = self.files.get(id) {
                post.files.push((name.clone(), bytes.clone()));
            }
        }
        let shown = self.shown(&post);
        let Some(channel) = self.channels.get_mut(&post.channel) else { return post.id };
        channel.last_post = post.created;
        let sender = self.people.get(&post.user).cloned().unwrap_or_default();
        let event = json!({
            "event": "posted", "seq": 2, "broadcast": {"channel_id": post.channel},
            "data": {
                "channel_type": channel.kind, "channel_display_name": channel.name,
                "sender_name": format!("@{sender}"), "post": shown.to_string(), "team_id": "team",
            },
        });
        let id = post.id.clone();
        self.posts.push(post);
        self.last_event = Some(event.clone());
        if std::mem::take(&mut self.swap_next) {
            self.held = Some(event);
        } else {
            self.broadcast(&event);
            if let Some(held) = self.held.take() {
                self.broadcast(&held);
            }
        }
        id
    }

    fn broadcast(&mut self, event: &Value) {
        self.connections.values_mut().for_each(|frames| frames.push_back(event.clone()));
    }

    fn shown(&self, post: &FakeMattermostPost) -> Value {
        let info = |id: &String| {
            let (name, mime, bytes) = self.files.get(id)?;
            Some(json!({"id": id, "name": name, "mime_type": mime, "size": bytes.len()}))
        };
        let infos: Vec<Value> = post.file_ids.iter().filter_map(info).collect();
        let mut shown = json!({
            "id": post.id, "create_at": post.created, "update_at": post.created, "delete_at": 0,
            "user_id": post.user, "channel_id": post.channel, "root_id": post.root, "message": post.message,
            "type": post.kind, "props": post.props, "metadata": {},
        });
        if !infos.is_empty() {
            shown["file_ids"] = json!(post.file_ids);
            shown["metadata"] = json!({"files": infos});
        }
        shown
    }

    fn create_post(&mut self, body: &Value) -> EmulatedReply {
        let known = ["channel_id", "message", "root_id", "file_ids", "props", "pending_post_id"];
        if body.as_object().is_none_or(|fields| fields.keys().any(|name| !known.contains(&name.as_str()))) {
            return refusal(400, "Invalid or missing post in request body.");
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let (channel, root, message) = (text("channel_id"), text("root_id"), text("message"));
        if !self.channels.contains_key(&channel) {
            return refusal(403, "You do not have the appropriate permissions.");
        }
        let root_fits = root.is_empty()
            || self
                .posts
                .iter()
                .any(|post| post.id == root && post.root.is_empty() && post.channel == channel);
        if !root_fits {
            return refusal(400, "Invalid RootId parameter.");
        }
        let file_ids: Vec<String> = serde_json::from_value(body["file_ids"].clone()).unwrap_or_default();
        if message.trim().is_empty() && file_ids.is_empty() || message.chars().count() > 16_383 {
            return refusal(400, "Invalid Message parameter.");
        }
        if file_ids.iter().any(|id| !self.files.contains_key(id)) {
            return refusal(400, "Invalid FileIds parameter.");
        }
        let post = FakeMattermostPost {
            channel,
            root,
            message,
            file_ids,
            user: BOT.to_owned(),
            props: body["props"].clone(),
            ..FakeMattermostPost::default()
        };
        let id = self.add(post);
        let shown = self.posts.iter().find(|post| post.id == id).map(|post| self.shown(post));
        EmulatedReply::json(201, &shown.unwrap_or_default())
    }

    fn patch(&mut self, id: &str, body: &Value) -> EmulatedReply {
        let Some(post) = self.posts.iter_mut().find(|post| post.id == id && post.user == BOT) else {
            return refusal(403, "You do not have the appropriate permissions.");
        };
        let message = body["message"].as_str().unwrap_or_default().to_owned();
        let before = std::mem::replace(&mut post.message, message);
        post.earlier.push(before);
        EmulatedReply::json(200, &json!({"id": id}))
    }

    fn upload(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        let parts = parse_form(request.header("content-type").unwrap_or_default(), &request.body);
        let parts = parts.unwrap_or_default();
        let channel = parts.iter().find(|part| part.name == "channel_id");
        let file = parts.iter().find(|part| part.name == "files" && part.file_name.is_some());
        let (Some(_), Some(file)) = (channel, file) else {
            return refusal(400, "Unable to upload file. Request is missing a channel or a file.");
        };
        let name = file.file_name.clone().unwrap_or_default();
        let mime = file.mime.clone().unwrap_or_default();
        let id = self.store(&name, &mime, &file.bytes);
        EmulatedReply::json(201, &json!({"file_infos": [{"id": id, "name": name}], "client_ids": []}))
    }

    fn list_posts(&self, channel: &str, target: &str) -> EmulatedReply {
        let since = query_fields(target).into_iter().find(|(name, _)| name == "since");
        let since: u64 = since.and_then(|(_, value)| value.parse().ok()).unwrap_or_default();
        let found: Vec<&FakeMattermostPost> =
            self.posts.iter().rev().filter(|post| post.channel == channel && post.created > since).collect();
        let order: Vec<&String> = found.iter().map(|post| &post.id).collect();
        let posts: serde_json::Map<String, Value> =
            found.iter().map(|post| (post.id.clone(), self.shown(post))).collect();
        EmulatedReply::json(200, &json!({"order": order, "posts": posts}))
    }

    fn react(&mut self, body: &Value) -> EmulatedReply {
        let id = body["post_id"].as_str().unwrap_or_default();
        let emoji = body["emoji_name"].as_str().unwrap_or_default().to_owned();
        match self.posts.iter_mut().find(|post| post.id == id) {
            Some(post) if body["user_id"] == BOT && !emoji.is_empty() => {
                post.reactions.push(emoji);
                EmulatedReply::json(201, body)
            }
            _ => refusal(403, "You do not have the appropriate permissions."),
        }
    }

    fn route(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let path = request.target.split('?').next().unwrap_or_default();
        let Some(path) = path.strip_prefix("/api/v4/") else {
            return refusal(404, "Sorry, we could not find the page.");
        };
        let parts: Vec<&str> = path.split('/').collect();
        match (request.method.as_str(), parts.as_slice()) {
            ("GET", ["users", "me"]) => {
                EmulatedReply::json(200, &json!({"id": BOT, "username": BOT_NAME, "is_bot": true}))
            }
            ("GET", ["users", BOT, "channels"]) => {
                let shown = |(id, channel): (&String, &FakeMattermostChannel)| {
                    json!({
                        "id": id, "type": channel.kind, "name": channel.name, "display_name": channel.name,
                        "last_post_at": channel.last_post,
                    })
                };
                EmulatedReply::json(200, &self.channels.iter().map(shown).collect())
            }
            ("GET", ["users", id]) => match self.people.get(*id) {
                Some(name) => EmulatedReply::json(200, &json!({"id": id, "username": name})),
                None => refusal(404, "Unable to find the user."),
            },
            ("POST", ["users", BOT, "typing"]) => {
                self.typing.push(body["channel_id"].as_str().unwrap_or_default().to_owned());
                EmulatedReply::json(200, &json!({"status": "OK"}))
            }
            ("POST", ["posts"]) => self.create_post(&body),
            ("PUT", ["posts", id, "patch"]) => self.patch(id, &body),
            ("POST", ["files"]) => self.upload(request),
            ("POST", ["reactions"]) => self.react(&body),
            ("DELETE", ["users", BOT, "posts", id, "reactions", emoji]) => {
                if let Some(post) = self.posts.iter_mut().find(|post| post.id == *id) {
                    post.reactions.retain(|known| known != emoji);
                }
                EmulatedReply::json(200, &json!({"status": "OK"}))
            }
            ("GET", ["channels", id, "posts"]) if self.channels.contains_key(*id) => {
                self.list_posts(id, &request.target)
            }
            ("GET", ["files", id, "info"]) => match self.files.get(*id) {
                Some((name, mime, bytes)) => EmulatedReply::json(
                    200,
                    &json!({"id": id, "name": name, "mime_type": mime, "size": bytes.len()}),
                ),
                None => refusal(404, "Unable to get the file."),
            },
            ("GET", ["files", id]) => match self.files.get(*id) {
                Some((_, _, bytes)) => EmulatedReply::bytes(200, "application/octet-stream", bytes),
                None => refusal(404, "Unable to get the file."),
            },
            _ => refusal(404, "Sorry, we could not find the page."),
        }
    }
}

impl EmulatedPlatform for FakeMattermostState {
    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        if request.header("authorization") != Some(format!("Bearer {}", self.token).as_str()) {
            return refusal(401, "Invalid or expired session, please login again.");
        }
        self.route(request)
    }

    fn is_stream(&self, request: &ReceivedRequest) -> bool {
        request.target == "/api/v4/websocket" && request.header("upgrade").is_some()
    }

    fn stream(
        shared: Arc<PlatformServerState<Self>>,
        connection: HttpConnection,
        request: ReceivedRequest,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(socket) = accept_emulated_socket(connection, &request).await else { return };
            let id = shared.world.update(|world| {
                world.count += 1;
                world.unknown.insert(world.count, VecDeque::new());
                world.count
            });
            run_emulated_socket(socket, id, shared).await;
        })
    }
}

impl EmulatedSocket for FakeMattermostState {
    fn receive(&mut self, connection: u64, frame: &Value) {
        if frame["action"] != "authentication_challenge" || !self.unknown.contains_key(&connection) {
            return;
        }
        if frame["data"]["token"] == self.token.as_str() {
            self.unknown.remove(&connection);
            let hello =
                json!({"event": "hello", "data": {"server_version": "10"}, "broadcast": {}, "seq": 0});
            let ok = json!({"status": "OK", "seq_reply": frame["seq"]});
            self.connections.insert(connection, VecDeque::from([hello, ok]));
            self.opened += 1;
        } else if let Some(frames) = self.unknown.get_mut(&connection) {
            frames.extend([json!({"status": "FAIL", "seq_reply": frame["seq"]}), Value::Null]);
        }
    }

    fn next_frame(&mut self, connection: u64) -> Option<Value> {
        let frames = self.connections.get_mut(&connection).or_else(|| self.unknown.get_mut(&connection));
        frames?.pop_front()
    }

    fn disconnected(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.unknown.remove(&connection);
    }
}

fn refusal(status: u16, message: &str) -> EmulatedReply {
    EmulatedReply::json(status, &json!({"id": "api.error", "message": message, "status_code": status}))
}
