//! An emulated DingTalk: streams with callbacks, webhooks of conversations, and the robot API, for one app.
//!
//! Written from the open platform's documentation and checked with its published Python client; it shares no code with
//! the channel. A callback is sent again until it is acknowledged.

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

pub const CLIENT_ID: &str = "dingtest";
pub const CLIENT_SECRET: &str = "ding-test-secret";
const ACCESS_TOKEN: &str = "ding-access-token";
/// The deliveries of a callback.
const DELIVERIES: u32 = 5;

/// A message that the robot sent.
#[derive(Debug, Clone, PartialEq)]
pub struct FakeDingTalkMessage {
    /// The conversation, or the staff id of a person.
    pub to: String,
    /// `session` for the webhook of a conversation, or `robot`.
    pub way: &'static str,
    pub kind: String,
    pub text: String,
    /// The name and bytes of its file.
    pub file: Option<(String, Vec<u8>)>,
}

#[derive(Debug)]
struct WaitingCallback {
    id: String,
    data: Value,
    attempts: u32,
    /// The connection it was sent on.
    sent: Option<u64>,
}

#[derive(Debug, Default)]
struct FakeDingTalkState {
    port: u16,
    secret: String,
    tickets: Vec<String>,
    /// The open streams, and further frames for them.
    streams: BTreeMap<u64, VecDeque<Value>>,
    opened: u64,
    waiting: Vec<WaitingCallback>,
    acknowledged: Vec<Value>,
    sent: Vec<FakeDingTalkMessage>,
    files: BTreeMap<String, (String, Vec<u8>)>,
    /// The webhooks of conversations that ended before their time.
    ended_webhooks: Vec<String>,
    last: Option<Value>,
    swap_next: bool,
    held: Option<Value>,
    count: u64,
    tokens: u64,
}

/// A running server.
#[derive(Debug)]
pub struct FakeDingTalk(PlatformServer<FakeDingTalkState>);

impl FakeDingTalk {
    pub fn start() -> Result<Self, Error> {
        let world = FakeDingTalkState { secret: CLIENT_SECRET.to_owned(), ..FakeDingTalkState::default() };
        Ok(Self(PlatformServer::start("dingtalk", 0, world)?))
    }

    pub fn base_url(&self) -> String {
        self.0.base_url()
    }

    /// Sends a text from a person, in a conversation that begins with `cid`; returns its id. The conversation of a group
    /// has a title.
    pub fn says(&self, staff: &str, conversation: &str, title: Option<&str>, text: &str) -> String {
        self.sends(
            staff,
            conversation,
            title,
            &json!({"msgtype": "text", "text": {"content": format!(" {text} ")}}),
        )
    }

    /// Sends a message with these fields.
    pub fn sends(&self, staff: &str, conversation: &str, title: Option<&str>, fields: &Value) -> String {
        self.0.update(|world| {
            world.count += 1;
            let id = format!("msg{:08}", world.count);
            let mut data = json!({
                "msgId": id, "senderId": format!("$:LWCP_v1:${staff}"), "senderStaffId": staff,
                "senderNick": format!("Nick of {staff}"), "conversationId": conversation,
                "conversationType": if title.is_some() { "2" } else { "1" }, "createAt": seconds_now() * 1000,
                "sessionWebhook": format!("http://127.0.0.1:{}/robot/sendBySession?session={conversation}", world.port),
                "sessionWebhookExpiredTime": (seconds_now() + 5400) * 1000, "isAdmin": false,
                "chatbotUserId": "$:LWCP_v1:$bot", "isInAtList": title.is_some(), "robotCode": CLIENT_ID,
                "atUsers": [],
            });
            if let Some(title) = title {
                data["conversationTitle"] = json!(title);
            }
            for (name, value) in fields.as_object().into_iter().flatten() {
                data[name] = value.clone();
            }
            world.enqueue(data);
            id
        })
    }

    /// Stores a file that a message can name by the code that is returned.
    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        self.0.update(|world| world.store(name, bytes))
    }

    /// Returns what the robot sent to a conversation or person.
    pub fn sent(&self, to: &str) -> Vec<FakeDingTalkMessage> {
        self.0.read(|world| world.sent.iter().filter(|message| message.to == to).cloned().collect())
    }

    /// Returns the acknowledgements.
    pub fn acknowledged(&self) -> Vec<Value> {
        self.0.read(|world| world.acknowledged.clone())
    }

    pub async fn until_acknowledged(&self, count: usize) -> Vec<Value> {
        self.0.until(|world| (world.acknowledged.len() >= count).then(|| world.acknowledged.clone())).await
    }

    #[track_caller]
    pub fn until_acknowledged_blocking(&self, count: usize) {
        self.0.until_blocking("acknowledgements", |world| (world.acknowledged.len() >= count).then_some(()));
    }

    /// Waits until that many streams were opened since the start.
    pub async fn until_opened(&self, count: u64) {
        self.0.until(|world| (world.opened >= count).then_some(())).await;
    }

    #[track_caller]
    pub fn until_opened_blocking(&self, count: u64) {
        self.0.until_blocking("a stream", |world| (world.opened >= count).then_some(()));
    }

    #[track_caller]
    pub fn until_sent_blocking(&self, to: &str, part: &str) -> FakeDingTalkMessage {
        self.0.until_blocking(part, |world| {
            world.sent.iter().find(|message| message.to == to && message.text.contains(part)).cloned()
        })
    }

    /// Returns how many access tokens were given out.
    pub fn tokens(&self) -> u64 {
        self.0.read(|world| world.tokens)
    }

    /// Sends a frame of the system: `ping` or `disconnect`.
    pub fn system(&self, topic: &str) {
        self.0.update(|world| {
            let frame =
                world.frame("SYSTEM", topic, &json!({"opaque": "o1", "reason": "renewal"}).to_string());
            world.streams.values_mut().for_each(|frames| frames.push_back(frame.clone()));
        });
    }

    /// Ends every stream.
    pub fn drop_streams(&self) {
        self.0.update(|world| world.streams.values_mut().for_each(|frames| frames.push_back(Value::Null)));
    }

    /// Ends the webhook of a conversation before its time.
    pub fn end_webhook(&self, conversation: &str) {
        self.0.update(|world| world.ended_webhooks.push(conversation.to_owned()));
    }

    /// Delivers the last callback again.
    pub fn repeat_last(&self) {
        self.0.update(|world| {
            if let Some(data) = world.last.clone() {
                world.push(data);
            }
        });
    }

    /// Swaps the order of the next two callbacks.
    pub fn swap_next(&self) {
        self.0.update(|world| world.swap_next = true);
    }

    pub fn change_secret(&self, secret: &str) {
        self.0.update(|world| secret.clone_into(&mut world.secret));
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
            world.streams.clear();
            world.waiting.iter_mut().for_each(|callback| callback.sent = None);
        });
    }

    pub fn start_again(&mut self) -> Result<(), Error> {
        self.0.start_again()
    }
}

impl FakeDingTalkState {
    fn enqueue(&mut self, data: Value) {
        self.last = Some(data.clone());
        if std::mem::take(&mut self.swap_next) {
            self.held = Some(data);
            return;
        }
        self.push(data);
        if let Some(held) = self.held.take() {
            self.push(held);
        }
    }

    fn push(&mut self, data: Value) {
        self.count += 1;
        let id = format!("callback{}", self.count);
        self.waiting.push(WaitingCallback { id, data, attempts: 0, sent: None });
    }

    fn store(&mut self, name: &str, bytes: &[u8]) -> String {
        self.count += 1;
        let code = format!("@file{}", self.count);
        self.files.insert(code.clone(), (name.to_owned(), bytes.to_vec()));
        code
    }

    fn frame(&mut self, kind: &str, topic: &str, data: &str) -> Value {
        self.count += 1;
        json!({
            "specVersion": "1.0", "type": kind, "data": data,
            "headers": {
                "appId": "app", "connectionId": "connection", "contentType": "application/json",
                "messageId": format!("frame{}", self.count), "time": "1767323045000", "topic": topic,
            },
        })
    }

    fn open_connection(&mut self, body: &Value) -> EmulatedReply {
        if body["clientId"] != CLIENT_ID || body["clientSecret"] != self.secret.as_str() {
            return refusal(401, "authFailed", "the client id or the secret is wrong");
        }
        let wanted = json!({"type": "CALLBACK", "topic": "/v1.0/im/bot/messages/get"});
        if !body["subscriptions"].as_array().is_some_and(|list| list.contains(&wanted)) {
            return refusal(400, "subscriptionsInvalid", "no subscription");
        }
        self.count += 1;
        let ticket = format!("ticket+{}=", self.count);
        self.tickets.push(ticket.clone());
        let endpoint = format!("ws://127.0.0.1:{}/connect", self.port);
        EmulatedReply::json(200, &json!({"endpoint": endpoint, "ticket": ticket}))
    }

    fn send_by_session(&mut self, target: &str, body: &Value) -> EmulatedReply {
        let session = query_fields(target).into_iter().find(|(name, _)| name == "session");
        let to = session.map(|(_, value)| value).unwrap_or_default();
        if self.ended_webhooks.contains(&to) {
            return EmulatedReply::json(200, &json!({"errcode": 300_001, "errmsg": "session is not exist"}));
        }
        let kind = body["msgtype"].as_str().unwrap_or_default().to_owned();
        let text = match kind.as_str() {
            "markdown" if body["markdown"]["title"].is_string() => body["markdown"]["text"].as_str(),
            "text" => body["text"]["content"].as_str(),
            _ => None,
        };
        let Some(text) = text.filter(|text| !text.is_empty() && text.chars().count() <= 20_000) else {
            return EmulatedReply::json(200, &json!({"errcode": 400_105, "errmsg": "unsupported message"}));
        };
        self.sent.push(FakeDingTalkMessage { to, way: "session", kind, text: text.to_owned(), file: None });
        EmulatedReply::json(200, &json!({"errcode": 0, "errmsg": "ok"}))
    }

    fn send_by_robot(&mut self, to: Option<&str>, body: &Value) -> EmulatedReply {
        let parameters: Value =
            serde_json::from_str(body["msgParam"].as_str().unwrap_or_default()).unwrap_or_default();
        let kind = body["msgKey"].as_str().unwrap_or_default().to_owned();
        let media = parameters["mediaId"].as_str().or_else(|| parameters["photoURL"].as_str());
        let file = media.and_then(|id| self.files.get(id).cloned());
        let right = match kind.as_str() {
            "sampleMarkdown" => parameters["text"].is_string() && parameters["title"].is_string(),
            "sampleImageMsg" => file.is_some(),
            "sampleFile" => file.is_some() && parameters["fileName"].is_string(),
            _ => false,
        };
        let (Some(to), true) = (to, right && body["robotCode"] == CLIENT_ID) else {
            return refusal(400, "invalidParameter", "a parameter is missing or wrong");
        };
        if to == "nobody" {
            return EmulatedReply::json(200, &json!({"invalidStaffIdList": [to], "processQueryKey": ""}));
        }
        let text = parameters["text"].as_str().unwrap_or_default().to_owned();
        self.sent.push(FakeDingTalkMessage { to: to.to_owned(), way: "robot", kind, text, file });
        self.count += 1;
        EmulatedReply::json(200, &json!({"processQueryKey": format!("query{}", self.count)}))
    }

    fn upload(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        let query = query_fields(&request.target);
        let has =
            |name: &str, value: &str| query.iter().any(|(known, given)| known == name && given == value);
        let parts =
            parse_form(request.header("content-type").unwrap_or_default(), &request.body).unwrap_or_default();
        let file = parts.iter().find(|part| part.name == "media" && part.file_name.is_some());
        let (Some(file), true) = (file, has("access_token", ACCESS_TOKEN)) else {
            return EmulatedReply::json(
                200,
                &json!({"errcode": 40_014, "errmsg": "invalid access token or file"}),
            );
        };
        let id = self.store(&file.file_name.clone().unwrap_or_default(), &file.bytes);
        EmulatedReply::json(200, &json!({"errcode": 0, "errmsg": "ok", "media_id": id, "type": "file"}))
    }
}

impl EmulatedPlatform for FakeDingTalkState {
    fn listens_on(&mut self, port: u16) {
        self.port = port;
    }

    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let path = request.target.split('?').next().unwrap_or_default();
        let allowed = request.header("x-acs-dingtalk-access-token") == Some(ACCESS_TOKEN);
        match (request.method.as_str(), path) {
            ("POST", "/v1.0/gateway/connections/open") => self.open_connection(&body),
            ("POST", "/v1.0/oauth2/accessToken") => {
                if body["appKey"] != CLIENT_ID || body["appSecret"] != self.secret.as_str() {
                    return refusal(400, "invalidClientIdOrSecret", "the client id or the secret is wrong");
                }
                self.tokens += 1;
                EmulatedReply::json(200, &json!({"accessToken": ACCESS_TOKEN, "expireIn": 7200}))
            }
            ("POST", "/robot/sendBySession") => self.send_by_session(&request.target, &body),
            ("POST", "/media/upload") => self.upload(request),
            ("GET", path) if path.starts_with("/storage/") => {
                match self.files.get(path.trim_start_matches("/storage/")) {
                    Some((_, bytes)) => EmulatedReply::bytes(200, "application/octet-stream", bytes),
                    None => EmulatedReply::bytes(404, "text/plain", b""),
                }
            }
            (_, path) if path.starts_with("/v1.0/robot/") && !allowed => {
                refusal(401, "InvalidAuthentication", "the access token is not valid")
            }
            ("POST", "/v1.0/robot/groupMessages/send") => {
                self.send_by_robot(body["openConversationId"].as_str(), &body)
            }
            ("POST", "/v1.0/robot/oToMessages/batchSend") => {
                self.send_by_robot(body["userIds"][0].as_str(), &body)
            }
            ("POST", "/v1.0/robot/messageFiles/download") => {
                let code = body["downloadCode"].as_str().unwrap_or_default();
                if !self.files.contains_key(code) || body["robotCode"] != CLIENT_ID {
                    return refusal(400, "invalidDownloadCode", "there is no such file");
                }
                let url = format!("http://127.0.0.1:{}/storage/{code}", self.port);
                EmulatedReply::json(200, &json!({"downloadUrl": url}))
            }
            _ => refusal(404, "InvalidAction.NotFound", "there is no such method"),
        }
    }

    fn is_stream(&self, request: &ReceivedRequest) -> bool {
        let ticket = query_fields(&request.target).into_iter().find(|(name, _)| name == "ticket");
        let known = ticket.is_some_and(|(_, ticket)| self.tickets.contains(&ticket));
        request.target.starts_with("/connect?") && known
    }

    fn stream(
        shared: Arc<PlatformServerState<Self>>,
        connection: HttpConnection,
        request: ReceivedRequest,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let ticket = query_fields(&request.target).into_iter().find(|(name, _)| name == "ticket");
            let Some(socket) = accept_emulated_socket(connection, &request).await else { return };
            let id = shared.world.update(|world| {
                // A ticket is valid once.
                world.tickets.retain(|known| Some(known) != ticket.as_ref().map(|(_, ticket)| ticket));
                world.opened += 1;
                world.streams.insert(world.opened, VecDeque::new());
                world.opened
            });
            run_emulated_socket(socket, id, shared).await;
        })
    }
}

impl EmulatedSocket for FakeDingTalkState {
    fn receive(&mut self, _: u64, frame: &Value) {
        let id = frame["headers"]["messageId"].as_str().unwrap_or_default();
        let complete = frame["code"] == 200 && frame["data"].is_string() && frame["message"].is_string();
        if complete {
            self.waiting.retain(|callback| callback.id != id);
            self.acknowledged.push(frame.clone());
        }
    }

    fn next_frame(&mut self, connection: u64) -> Option<Value> {
        let frames = self.streams.get_mut(&connection)?;
        if let Some(frame) = frames.pop_front() {
            return Some(frame);
        }
        let at = self.waiting.iter().position(|callback| callback.sent.is_none())?;
        let mut frame = self.frame("CALLBACK", "/v1.0/im/bot/messages/get", "");
        let callback = self.waiting.get_mut(at)?;
        callback.sent = Some(connection);
        callback.attempts += 1;
        frame["data"] = json!(callback.data.to_string());
        frame["headers"]["messageId"] = json!(callback.id);
        Some(frame)
    }

    fn disconnected(&mut self, connection: u64) {
        self.streams.remove(&connection);
        for callback in self.waiting.iter_mut().filter(|callback| callback.sent == Some(connection)) {
            callback.sent = None;
        }
        self.waiting.retain(|callback| callback.attempts < DELIVERIES);
    }
}

fn refusal(status: u16, code: &str, message: &str) -> EmulatedReply {
    EmulatedReply::json(status, &json!({"code": code, "message": message, "requestid": "R1"}))
}
