//! An emulated Graph API with one WhatsApp number, and signed webhooks for what people send.
//!
//! Written from Meta's documentation; it shares no code with the channel. Sends fail when the person has not written
//! for a day.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::Error;
use crate::http::{ReceivedRequest, parse_form};
use crate::platform::{
    EmulatedPlatform, EmulatedReply, PlatformCall, PlatformFault, PlatformServer, SentWebhook, seconds_now,
};

/// The id of the number, the token and the app secret.
pub const PHONE_NUMBER_ID: &str = "106540352242922";
pub const ACCESS_TOKEN: &str = "EAAtest-token";
pub const APP_SECRET: &str = "app-secret";
pub const VERIFY_TOKEN: &str = "verify-me";
const VERSION: &str = "/v20.0/";

/// A message that the agent sent.
#[derive(Debug, Clone, PartialEq)]
pub struct FakeWhatsAppMessage {
    pub id: String,
    pub to: String,
    /// `text`, `interactive`, `image`, …
    pub kind: String,
    pub content: Value,
    pub quotes: Option<String>,
    /// The name and bytes of its file.
    pub file: Option<(String, Vec<u8>)>,
}

impl FakeWhatsAppMessage {
    /// Returns its text, or that above its buttons.
    pub fn text(&self) -> String {
        let text = self.content["body"].as_str().or_else(|| self.content["body"]["text"].as_str());
        text.or_else(|| self.content["caption"].as_str()).unwrap_or_default().to_owned()
    }

    /// Returns the ids and titles of its buttons or rows.
    pub fn choices(&self) -> Vec<(String, String)> {
        let action = &self.content["action"];
        let buttons = action["buttons"].as_array().into_iter().flatten().map(|button| &button["reply"]);
        let rows = action["sections"][0]["rows"].as_array().into_iter().flatten();
        let pair = |value: &Value| {
            (
                value["id"].as_str().unwrap_or_default().to_owned(),
                value["title"].as_str().unwrap_or_default().to_owned(),
            )
        };
        buttons.chain(rows).map(pair).collect()
    }
}

#[derive(Debug, Default)]
struct FakeGraphState {
    port: u16,
    token: String,
    hook: String,
    sent: Vec<FakeWhatsAppMessage>,
    /// Uploaded and received files: name, type, bytes.
    media: BTreeMap<String, (String, String, Vec<u8>)>,
    /// The people whose last message is more than a day old.
    silent: BTreeSet<String>,
    /// The messages that were marked as read, with a typing indicator.
    typing: Vec<String>,
    waiting: VecDeque<(u64, String)>,
    answers: Vec<u16>,
    last: Option<String>,
    forge_next: bool,
    swap_next: bool,
    /// True when webhooks that were not answered with a success are sent again.
    retries: bool,
    /// The webhook that waits for its answer.
    asked: Option<(u64, String)>,
    count: u64,
}

/// A running server.
#[derive(Debug)]
pub struct FakeWhatsAppCloud(PlatformServer<FakeGraphState>);

impl FakeWhatsAppCloud {
    pub fn start() -> Result<Self, Error> {
        let world = FakeGraphState { token: ACCESS_TOKEN.to_owned(), ..FakeGraphState::default() };
        Ok(Self(PlatformServer::start("graph", 0, world)?))
    }

    pub fn base_url(&self) -> String {
        self.0.base_url()
    }

    pub fn set_webhook(&self, url: &str) {
        self.0.update(|world| url.clone_into(&mut world.hook));
    }

    /// Sends a text from a number, and returns its id.
    pub fn says(&self, from: &str, text: &str) -> String {
        self.sends(from, "text", &json!({"body": text}), None)
    }

    /// Sends a message of that type, as a reply if there is an id.
    pub fn sends(&self, from: &str, kind: &str, content: &Value, reply_to: Option<&str>) -> String {
        self.0.update(|world| {
            world.count += 1;
            world.silent.remove(from);
            let id = format!("wamid.{:06}", world.count);
            let mut message = json!({"from": from, "id": id, "timestamp": seconds_now().to_string(), "type": kind, kind: content});
            if let Some(replied) = reply_to {
                message["context"] = json!({"from": "15550001111", "id": replied});
            }
            let value = json!({
                "messaging_product": "whatsapp",
                "metadata": {"display_phone_number": "15550001111", "phone_number_id": PHONE_NUMBER_ID},
                "contacts": [{"profile": {"name": format!("Person {from}")}, "wa_id": from}],
                "messages": [message],
            });
            world.enqueue(&value);
            id
        })
    }

    /// Sends a file of that type with a caption.
    pub fn sends_file(
        &self,
        from: &str,
        kind: &str,
        file: (&str, &str, &[u8]),
        caption: Option<&str>,
    ) -> String {
        let (name, mime, bytes) = file;
        let id = self.0.update(|world| {
            world.count += 1;
            let id = format!("9{:08}", world.count);
            world.media.insert(id.clone(), (name.to_owned(), mime.to_owned(), bytes.to_vec()));
            id
        });
        let mut content = json!({"id": id, "mime_type": mime, "sha256": "x"});
        if kind == "document" {
            content["filename"] = json!(name);
        }
        if let Some(caption) = caption {
            content["caption"] = json!(caption);
        }
        if kind == "audio" {
            content["voice"] = json!(true);
        }
        self.sends(from, kind, &content, None)
    }

    /// Presses a button of a message.
    pub fn presses(&self, from: &str, message: &FakeWhatsAppMessage, title: &str) -> String {
        let choices = message.choices();
        let Some((id, title)) = choices.iter().find(|(_, label)| label == title) else {
            panic!("there is no button `{title}`: {choices:?}");
        };
        let kind = if message.content["type"] == "list" { "list_reply" } else { "button_reply" };
        self.sends(
            from,
            "interactive",
            &json!({"type": kind, kind: {"id": id, "title": title}}),
            Some(&message.id),
        )
    }

    /// Reports that a message did not arrive.
    pub fn reports_failure(&self, code: u64) {
        self.0.update(|world| {
            let status =
                json!({"id": "wamid.x", "status": "failed", "errors": [{"code": code, "title": "failed"}]});
            world.enqueue(&json!({"metadata": {"phone_number_id": PHONE_NUMBER_ID}, "statuses": [status]}));
        });
    }

    /// Lets a day pass since that person wrote.
    pub fn becomes_silent(&self, person: &str) {
        self.0.update(|world| world.silent.insert(person.to_owned()));
    }

    /// Sends the last webhook again.
    pub fn repeat_last(&self) {
        self.0.update(|world| {
            if let Some(body) = world.last.clone() {
                world.count += 1;
                world.waiting.push_back((world.count, body));
            }
        });
    }

    /// Swaps the order of the next two webhooks.
    pub fn swap_next(&self) {
        self.0.update(|world| world.swap_next = true);
    }

    /// Sends webhooks again until they are answered with a success, as the real one does for days.
    pub fn retry_webhooks(&self) {
        self.0.update(|world| world.retries = true);
    }

    /// Signs the next webhook with another secret.
    pub fn forge_next(&self) {
        self.0.update(|world| world.forge_next = true);
    }

    pub fn change_token(&self, token: &str) {
        self.0.update(|world| token.clone_into(&mut world.token));
    }

    pub fn sent(&self, to: &str) -> Vec<FakeWhatsAppMessage> {
        self.0.read(|world| world.sent.iter().filter(|message| message.to == to).cloned().collect())
    }

    /// Returns the messages that were marked as read.
    pub fn typing(&self) -> Vec<String> {
        self.0.read(|world| world.typing.clone())
    }

    /// Returns the statuses with which webhooks were answered.
    pub fn answers(&self) -> Vec<u16> {
        self.0.read(|world| world.answers.clone())
    }

    pub async fn until_answered(&self, count: usize) -> Vec<u16> {
        self.0.until(|world| (world.answers.len() >= count).then(|| world.answers.clone())).await
    }

    #[track_caller]
    pub fn until_sent_blocking(&self, to: &str, part: &str) -> FakeWhatsAppMessage {
        self.0.until_blocking(part, |world| {
            world.sent.iter().find(|message| message.to == to && message.text().contains(part)).cloned()
        })
    }

    pub fn fault(&self, method: &str, part: &str, fault: PlatformFault) {
        self.0.fault(method, part, fault);
    }

    pub fn calls(&self, part: &str) -> Vec<PlatformCall> {
        self.0.calls(part)
    }

    pub fn stop(&mut self) {
        self.0.stop();
        // What was being sent is sent again.
        self.0.update(|world| {
            let asked = world.asked.take();
            world.waiting.extend(asked);
            world.waiting.rotate_right(1.min(world.waiting.len()));
        });
    }

    pub fn start_again(&mut self) -> Result<(), Error> {
        self.0.start_again()
    }
}

impl FakeGraphState {
    fn enqueue(&mut self, value: &Value) {
        self.count += 1;
        let change = json!({"field": "messages", "value": value});
        let body =
            json!({"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]});
        self.last = Some(body.to_string());
        let held = std::mem::take(&mut self.swap_next);
        self.waiting.push_back((self.count, body.to_string()));
        if held && self.waiting.len() > 1 {
            self.waiting.rotate_right(1);
        }
    }

    fn send(&mut self, body: &Value) -> EmulatedReply {
        if body["messaging_product"] != "whatsapp" {
            return refusal(400, 100, "The parameter messaging_product is required.");
        }
        if body["status"] == "read" {
            self.typing.push(body["message_id"].as_str().unwrap_or_default().to_owned());
            return EmulatedReply::json(200, &json!({"success": true}));
        }
        let (Some(to), Some(kind)) = (body["to"].as_str(), body["type"].as_str()) else {
            return refusal(400, 100, "The parameter to is required.");
        };
        if to.is_empty() || !to.chars().all(|c| c.is_ascii_digit()) {
            return refusal(400, 131_026, "Message undeliverable");
        }
        if self.silent.contains(to) {
            return refusal(400, 131_047, "Re-engagement message");
        }
        let content = body[kind].clone();
        let file = match self.check(kind, &content) {
            Ok(file) => file,
            Err(why) => return refusal(400, 100, why),
        };
        self.count += 1;
        let id = format!("wamid.{:06}", self.count);
        let quotes = body["context"]["message_id"].as_str().map(str::to_owned);
        let (to, kind) = (to.to_owned(), kind.to_owned());
        let contacts = json!([{"input": to, "wa_id": to}]);
        self.sent.push(FakeWhatsAppMessage { id: id.clone(), to, kind, content, quotes, file });
        EmulatedReply::json(
            200,
            &json!({"messaging_product": "whatsapp", "contacts": contacts, "messages": [{"id": id}]}),
        )
    }

    /// Checks the content of a message; returns its file.
    fn check(&self, kind: &str, content: &Value) -> Result<Option<(String, Vec<u8>)>, &'static str> {
        let within = |value: &Value, most: usize| {
            value.as_str().is_some_and(|text| !text.is_empty() && text.chars().count() <= most)
        };
        match kind {
            "text" if within(&content["body"], 4096) => Ok(None),
            "text" => Err("Param text['body'] must be at most 4096 characters long."),
            "interactive" => {
                let action = &content["action"];
                let buttons = action["buttons"].as_array().map(Vec::len).unwrap_or_default();
                let rows = action["sections"][0]["rows"].as_array().map(Vec::len).unwrap_or_default();
                let replies =
                    action["buttons"].as_array().into_iter().flatten().map(|button| &button["reply"]);
                let listed = action["sections"][0]["rows"].as_array().into_iter().flatten();
                let titles_fit =
                    replies.clone().all(|reply| within(&reply["title"], 20) && within(&reply["id"], 256))
                        && listed.clone().all(|row| within(&row["title"], 24) && within(&row["id"], 200));
                let count_fits = match content["type"].as_str() {
                    Some("button") => (1..=3).contains(&buttons),
                    Some("list") => (1..=10).contains(&rows) && within(&action["button"], 20),
                    _ => false,
                };
                if titles_fit && count_fits && within(&content["body"]["text"], 1024) {
                    Ok(None)
                } else {
                    Err("Invalid interactive message")
                }
            }
            "image" | "video" | "audio" | "document" => {
                let id = content["id"].as_str().unwrap_or_default();
                let Some((name, mime, bytes)) = self.media.get(id) else { return Err("Media not found") };
                let right = match kind {
                    "image" => ["image/jpeg", "image/png"].contains(&mime.as_str()),
                    "audio" => mime.starts_with("audio/"),
                    "video" => mime == "video/mp4",
                    _ => true,
                };
                let captioned =
                    content.get("caption").is_none_or(|text| within(text, 1024) && kind != "audio");
                if !right || !captioned {
                    return Err("Unsupported media");
                }
                Ok(Some((content["filename"].as_str().unwrap_or(name).to_owned(), bytes.clone())))
            }
            _ => Err("Unsupported message type"),
        }
    }

    fn upload(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        let Some(parts) = parse_form(request.header("content-type").unwrap_or_default(), &request.body)
        else {
            return refusal(400, 100, "Not a form");
        };
        let text = |name: &str| {
            let part = parts.iter().find(|part| part.name == name && part.file_name.is_none());
            part.map(|part| String::from_utf8_lossy(&part.bytes).into_owned()).unwrap_or_default()
        };
        let Some(file) = parts.iter().find(|part| part.name == "file" && part.file_name.is_some()) else {
            return refusal(400, 100, "The parameter file is required.");
        };
        if text("messaging_product") != "whatsapp" || file.bytes.is_empty() || text("type").is_empty() {
            return refusal(400, 100, "A parameter is missing.");
        }
        self.count += 1;
        let id = format!("9{:08}", self.count);
        let name = file.file_name.clone().unwrap_or_default();
        self.media.insert(id.clone(), (name, text("type"), file.bytes.clone()));
        EmulatedReply::json(200, &json!({"id": id}))
    }
}

impl EmulatedPlatform for FakeGraphState {
    fn listens_on(&mut self, port: u16) {
        self.port = port;
    }

    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        if request.header("authorization") != Some(format!("Bearer {}", self.token).as_str()) {
            return refusal(401, 190, "Error validating access token: Session has expired");
        }
        let path = request.target.split('?').next().unwrap_or_default();
        if let Some(id) = path.strip_prefix("/lookaside/") {
            return match self.media.get(id) {
                Some((_, _, bytes)) => EmulatedReply::bytes(200, "application/octet-stream", bytes),
                None => EmulatedReply::bytes(404, "text/plain", b""),
            };
        }
        let Some(path) = path.strip_prefix(VERSION) else {
            return refusal(404, 2500, "Unknown path components");
        };
        match (request.method.as_str(), path.split_once('/')) {
            ("POST", Some((PHONE_NUMBER_ID, "messages"))) => {
                self.send(&serde_json::from_slice(&request.body).unwrap_or_default())
            }
            ("POST", Some((PHONE_NUMBER_ID, "media"))) => self.upload(request),
            ("GET", None) if path == PHONE_NUMBER_ID => {
                EmulatedReply::json(200, &json!({"id": path, "display_phone_number": "+1 555-000-1111"}))
            }
            ("GET", None) => match self.media.get(path) {
                Some((_, mime, bytes)) => {
                    let url = format!("http://127.0.0.1:{}/lookaside/{path}", self.port);
                    let facts = json!({"url": url, "mime_type": mime, "file_size": bytes.len(), "id": path});
                    EmulatedReply::json(200, &facts)
                }
                None => refusal(400, 100, "Unsupported get request."),
            },
            _ => refusal(400, 100, "Unsupported request."),
        }
    }

    fn next_webhook(&mut self) -> Option<SentWebhook> {
        if self.hook.is_empty() {
            return None;
        }
        let (id, body) = self.waiting.pop_front()?;
        self.asked = Some((id, body.clone()));
        let secret = if std::mem::take(&mut self.forge_next) { "another" } else { APP_SECRET };
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
            panic!("a key may have any length")
        };
        mac.update(body.as_bytes());
        let signature = format!("sha256={}", HEXLOWER.encode(&mac.finalize().into_bytes()));
        Some(SentWebhook {
            id,
            url: self.hook.clone(),
            mime: "application/json",
            headers: vec![("x-hub-signature-256", signature)],
            body: body.into_bytes(),
        })
    }

    fn webhook_answered(&mut self, _: u64, status: u16, _: &str) {
        let asked = self.asked.take();
        if self.retries && !(200..300).contains(&status) {
            self.waiting.extend(asked);
            self.waiting.rotate_right(1.min(self.waiting.len()));
        } else {
            self.answers.push(status);
        }
    }
}

fn refusal(status: u16, code: u64, message: &str) -> EmulatedReply {
    let error = json!({"message": format!("(#{code}) {message}"), "type": "OAuthException", "code": code, "fbtrace_id": "A1"});
    EmulatedReply::json(status, &json!({"error": error}))
}
