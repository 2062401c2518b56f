//! An emulated WhatsApp bridge: the HTTP side of its contract, with acknowledgements.
//!
//! Written from the contract of the bridge; it shares no code with the channel. A handed-out message comes again until it is
//! acknowledged, also to the next bridge: the queue belongs to the session, not to the process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hermes_types::BoxFuture;
use serde_json::{Value, json};

use crate::Error;
use crate::http::{HttpConnection, ReceivedRequest};
use crate::platform::{
    EmulatedPlatform, EmulatedReply, PlatformCall, PlatformFault, PlatformServer, PlatformServerState,
    query_fields, seconds_now,
};

/// A message that was sent through the bridge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FakeBridgeMessage {
    pub id: String,
    pub to: String,
    pub text: String,
    /// The media type, the name and the bytes of its file.
    pub file: Option<(String, String, Vec<u8>)>,
    pub quoted: Option<String>,
}

#[derive(Debug, Default)]
struct FakeBridgeState {
    queue: VecDeque<Value>,
    sent: Vec<FakeBridgeMessage>,
    /// The texts before an edit, by the ids.
    edits: BTreeMap<String, usize>,
    typing: Vec<String>,
    /// Set once a program has given its token; others are refused.
    token: Option<String>,
    is_away: bool,
    acknowledged: usize,
    count: u64,
}

/// A running bridge.
#[derive(Debug)]
pub struct FakeWhatsAppBridge(PlatformServer<FakeBridgeState>);

impl FakeWhatsAppBridge {
    pub fn start() -> Result<Self, Error> {
        Ok(Self(PlatformServer::start("whatsapp", 0, FakeBridgeState::default())?))
    }

    pub fn port(&self) -> u16 {
        self.0.base_url().rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or_default()
    }

    /// Accepts only this token from now on.
    pub fn set_token(&self, token: &str) {
        self.0.update(|world| world.token = Some(token.to_owned()));
    }

    /// Receives a message of a number, and returns its id.
    pub fn says(&self, from: &str, text: &str) -> String {
        self.sends(from, &json!({"body": text}))
    }

    /// Receives a message with a file that lies at this path.
    pub fn shares(
        &self,
        from: &str,
        caption: &str,
        kind: &str,
        (name, mime, path): (&str, &str, &str),
    ) -> String {
        let body = if caption.is_empty() { format!("[{kind} received]") } else { caption.to_owned() };
        let mut fields = json!({
            "body": body, "hasMedia": true, "mediaType": kind, "mediaUrls": [path], "mimeType": mime, "fileName": name,
        });
        if !caption.is_empty() {
            fields["caption"] = json!(caption);
        }
        self.sends(from, &fields)
    }

    /// Receives a message with these fields.
    pub fn sends(&self, from: &str, fields: &Value) -> String {
        self.0.update(|world| {
            world.count += 1;
            let id = format!("3A{:06}", world.count);
            let address = format!("{from}@s.whatsapp.net");
            let mut item = json!({
                "ackId": format!("ack-{}", world.count), "messageId": id, "chatId": address, "senderId": address,
                "senderName": format!("Name of {from}"), "chatName": format!("Name of {from}"), "isGroup": false,
                "body": "", "hasMedia": false, "mediaType": "", "mediaUrls": [], "timestamp": seconds_now(),
                "event": "message",
            });
            for (key, value) in fields.as_object().into_iter().flatten() {
                item[key] = value.clone();
            }
            world.queue.push_back(item);
            id
        })
    }

    /// Hands out the newest message once more under another id of the queue, as after a lost acknowledgement.
    pub fn repeat_last(&self) {
        self.0.update(|world| {
            world.count += 1;
            if let Some(mut item) = world.queue.back().cloned() {
                item["ackId"] = json!(format!("ack-{}", world.count));
                world.queue.push_back(item);
            }
        });
    }

    /// Returns the messages to a number, oldest first.
    pub fn sent(&self, to: &str) -> Vec<FakeBridgeMessage> {
        let address = format!("{to}@s.whatsapp.net");
        let to_it = |message: &&FakeBridgeMessage| message.to == address || message.to == to;
        self.0.read(|world| world.sent.iter().filter(to_it).cloned().collect())
    }

    pub fn typing(&self) -> Vec<String> {
        self.0.read(|world| world.typing.clone())
    }

    /// Returns how often a message was edited.
    pub fn edits(&self, id: &str) -> usize {
        self.0.read(|world| world.edits.get(id).copied().unwrap_or_default())
    }

    /// Waits until that many messages were acknowledged.
    pub async fn until_acknowledged(&self, count: usize) {
        self.0.until(|world| (world.acknowledged >= count).then_some(())).await;
    }

    pub fn queued(&self) -> usize {
        self.0.read(|world| world.queue.len())
    }

    /// Loses or regains the connection to WhatsApp.
    pub fn set_away(&self, is_away: bool) {
        self.0.update(|world| world.is_away = is_away);
    }

    pub fn fault(&self, method: &str, part: &str, fault: PlatformFault) {
        self.0.fault(method, part, fault);
    }

    pub fn calls(&self, part: &str) -> Vec<PlatformCall> {
        self.0.calls(part)
    }
}

impl FakeBridgeState {
    fn send(&mut self, body: &Value, file: Option<(String, String, Vec<u8>)>) -> EmulatedReply {
        let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
        if self.is_away {
            return EmulatedReply::json(503, &json!({"error": "Not connected to WhatsApp"}));
        }
        let given = text("messageId");
        if !given.is_empty() && self.sent.iter().any(|message| message.id == given) {
            return EmulatedReply::json(
                200,
                &json!({"success": true, "messageId": given, "duplicate": true}),
            );
        }
        self.count += 1;
        let id = if given.is_empty() { format!("3EB0{:018}", self.count) } else { given };
        let said = if file.is_some() { text("caption") } else { text("message") };
        if text("chatId").is_empty() || (said.is_empty() && file.is_none()) {
            return EmulatedReply::json(400, &json!({"error": "chatId and message are required"}));
        }
        let quoted = body["replyTo"].as_str().map(str::to_owned);
        self.sent.push(FakeBridgeMessage { id: id.clone(), to: text("chatId"), text: said, file, quoted });
        EmulatedReply::json(200, &json!({"success": true, "messageId": id}))
    }

    fn acknowledge(&mut self, body: &Value) -> EmulatedReply {
        let ids: Vec<&str> = body["ids"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let before = self.queue.len();
        self.queue.retain(|item| !item["ackId"].as_str().is_some_and(|id| ids.contains(&id)));
        let count = before - self.queue.len();
        self.acknowledged += count;
        EmulatedReply::json(
            200,
            &json!({"success": true, "acknowledged": count, "queueLength": self.queue.len()}),
        )
    }

    fn edit(&mut self, body: &Value) -> EmulatedReply {
        let id = body["messageId"].as_str().unwrap_or_default().to_owned();
        let Some(message) = self.sent.iter_mut().find(|message| message.id == id) else {
            return EmulatedReply::json(500, &json!({"error": "no such message"}));
        };
        body["message"].as_str().unwrap_or_default().clone_into(&mut message.text);
        *self.edits.entry(id.clone()).or_default() += 1;
        EmulatedReply::json(200, &json!({"success": true, "messageId": id}))
    }
}

impl EmulatedPlatform for FakeBridgeState {
    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        let given = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let right = self.token.as_ref().map(|token| format!("Bearer {token}"));
        if right.is_some() && given.map(|(_, value)| value) != right.as_ref() {
            return EmulatedReply::json(401, &json!({"error": "a token is needed"}));
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let path = request.target.split('?').next().unwrap_or_default();
        match (request.method.as_str(), path) {
            ("GET", "/messages") => {
                if !query_fields(&request.target).iter().any(|(name, value)| name == "ack" && value == "1") {
                    return EmulatedReply::json(200, &self.queue.drain(..).collect());
                }
                EmulatedReply::json(200, &self.queue.iter().take(100).cloned().collect())
            }
            ("GET", "/health") => {
                let status = if self.is_away { "disconnected" } else { "connected" };
                EmulatedReply::json(
                    200,
                    &json!({"status": status, "queueLength": self.queue.len(), "uptime": 1}),
                )
            }
            ("POST", "/ack") => self.acknowledge(&body),
            ("POST", "/send") => self.send(&body, None),
            ("POST", "/send-media") => {
                let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
                match std::fs::read(text("filePath")) {
                    Ok(bytes) => self.send(&body, Some((text("mediaType"), text("fileName"), bytes))),
                    Err(error) => EmulatedReply::json(404, &json!({"error": error.to_string()})),
                }
            }
            ("POST", "/edit") => self.edit(&body),
            ("POST", "/typing") => {
                self.typing.push(body["chatId"].as_str().unwrap_or_default().to_owned());
                EmulatedReply::json(200, &json!({"success": true}))
            }
            _ => EmulatedReply::json(404, &json!({"error": "no such endpoint"})),
        }
    }

    /// A request that waits for a message is answered when there is one.
    fn is_stream(&self, request: &ReceivedRequest) -> bool {
        let waits = query_fields(&request.target).iter().any(|(name, _)| name == "wait");
        request.target.starts_with("/messages?") && waits && self.queue.is_empty()
    }

    fn stream(
        shared: Arc<PlatformServerState<Self>>,
        mut connection: HttpConnection,
        request: ReceivedRequest,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let there = shared.world.until(|world| (!world.queue.is_empty()).then_some(()));
            tokio::select! {
                () = there => {}
                () = connection.until_gone() => return,
            }
            let reply = shared.world.update(|world| world.respond(&request));
            let head = format!(
                "HTTP/1.1 {} -\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                reply.status,
                reply.body.len()
            );
            // The client may have gone meanwhile.
            connection.write(&[head.as_bytes(), &reply.body].concat()).await.ok();
        })
    }
}
