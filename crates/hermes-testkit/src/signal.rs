//! An emulated signal-cli daemon: its health check, its stream of events and its JSON-RPC, for one account.
//!
//! Written from the daemon's documentation; it shares no code with the channel. Events wait until a client is
//! connected, as with `--receive-mode on-connection`; one that was written to a connection is gone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use data_encoding::BASE64;
use hermes_types::BoxFuture;
use serde_json::{Value, json};

use crate::Error;
use crate::http::{HttpConnection, ReceivedRequest};
use crate::platform::{
    EmulatedPlatform, EmulatedReply, PlatformCall, PlatformFault, PlatformServer, PlatformServerState,
    query_fields, seconds_now,
};

/// The number of the account.
pub const ACCOUNT: &str = "+15550009999";
/// The account's other id.
pub const ACCOUNT_UUID: &str = "00000000-0000-4000-8000-00000000000a";

/// A message that the account sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FakeSignalMessage {
    pub timestamp: u64,
    /// The number, or `group:` and the id of a group.
    pub to: String,
    pub text: String,
    pub styles: Vec<String>,
    /// The bytes of its files.
    pub files: Vec<Vec<u8>>,
    /// The time and author of the quoted message.
    pub quote: Option<(u64, String)>,
}

/// An error of the daemon, by its code and message.
type RpcRefusal = (i64, String);

#[derive(Debug, Default)]
struct FakeSignalState {
    events: VecDeque<Value>,
    sent: Vec<FakeSignalMessage>,
    files: BTreeMap<String, Vec<u8>>,
    groups: BTreeMap<String, String>,
    reactions: Vec<(u64, String, String)>,
    typing: Vec<String>,
    refusals: Vec<(String, RpcRefusal)>,
    opened: usize,
    /// The number of streams to end.
    drops: usize,
    broken: bool,
    /// True while no event is handed out.
    paused: bool,
    /// The events that were written to a stream.
    handed_out: BTreeSet<String>,
    last: Option<Value>,
    clock: u64,
    count: u64,
}

/// A running daemon.
#[derive(Debug)]
pub struct FakeSignal(PlatformServer<FakeSignalState>);

impl FakeSignal {
    pub fn start() -> Result<Self, Error> {
        Ok(Self(PlatformServer::start("signal", 0, FakeSignalState::default())?))
    }

    pub fn base_url(&self) -> String {
        self.0.base_url()
    }

    pub fn group(&self, id: &str, name: &str) {
        self.0.update(|world| world.groups.insert(id.to_owned(), name.to_owned()));
    }

    /// Sends a message from a number, and returns its time.
    pub fn says(&self, from: &str, text: &str) -> u64 {
        self.sends(from, json!({"message": text}))
    }

    pub fn says_in_group(&self, from: &str, group: &str, text: &str) -> u64 {
        let name = self.0.read(|world| world.groups.get(group).cloned());
        self.sends(
            from,
            json!({"message": text, "groupInfo": {"groupId": group, "groupName": name, "type": "DELIVER"}}),
        )
    }

    /// Shares a file.
    pub fn shares(&self, from: &str, text: &str, mime: &str, bytes: &[u8]) -> u64 {
        let id = self.0.update(|world| {
            world.count += 1;
            let id = format!("file{}", world.count);
            world.files.insert(id.clone(), bytes.to_vec());
            id
        });
        let file = json!({"id": id, "contentType": mime, "size": bytes.len(), "filename": null});
        self.sends(from, json!({"message": text, "attachments": [file]}))
    }

    /// Sends a message with these fields.
    pub fn sends(&self, from: &str, mut data: Value) -> u64 {
        self.0.update(|world| {
            let timestamp = world.now();
            data["timestamp"] = json!(timestamp);
            world.push(from, timestamp, "dataMessage", &data);
            timestamp
        })
    }

    /// Reacts to a message of the account, as people who know its number do.
    pub fn reacts(&self, from: &str, timestamp: u64, emoji: &str) -> u64 {
        let reaction = json!({
            "emoji": emoji, "targetAuthor": ACCOUNT, "targetAuthorNumber": ACCOUNT, "targetAuthorUuid": ACCOUNT_UUID,
            "targetSentTimestamp": timestamp, "isRemove": false,
        });
        self.sends(from, json!({"message": null, "reaction": reaction}))
    }

    /// Writes a note to self on another device.
    pub fn notes(&self, text: &str) -> u64 {
        self.0.update(|world| {
            let timestamp = world.now();
            world.push_note(timestamp, text);
            timestamp
        })
    }

    /// Repeats a message of the account as a note to self, as the other devices are told.
    pub fn echoes(&self, message: &FakeSignalMessage) {
        self.0.update(|world| world.push_note(message.timestamp, &message.text));
    }

    /// Sends an event as it is.
    pub fn event(&self, event: Value) {
        self.0.update(|world| world.events.push_back(event));
    }

    /// Returns what the account sent to a number or group.
    pub fn sent(&self, to: &str) -> Vec<FakeSignalMessage> {
        self.0.read(|world| world.sent.iter().filter(|message| message.to == to).cloned().collect())
    }

    /// Returns the reactions: time, author and emoji.
    pub fn reactions(&self) -> Vec<(u64, String, String)> {
        self.0.read(|world| world.reactions.clone())
    }

    pub fn typing(&self) -> Vec<String> {
        self.0.read(|world| world.typing.clone())
    }

    /// Waits until that many streams were opened since the start.
    pub async fn until_opened(&self, count: usize) {
        self.0.until(|world| (world.opened >= count).then_some(())).await;
    }

    #[track_caller]
    pub fn until_sent_blocking(&self, to: &str, part: &str) -> FakeSignalMessage {
        self.0.until_blocking(part, |world| {
            world.sent.iter().find(|message| message.to == to && message.text.contains(part)).cloned()
        })
    }

    /// Makes the next call of that method fail with this code and message.
    pub fn refuse(&self, method: &str, code: i64, message: &str) {
        self.0.update(|world| world.refusals.push((method.to_owned(), (code, message.to_owned()))));
    }

    /// Stops handing out events, or goes on.
    pub fn set_paused(&self, paused: bool) {
        self.0.update(|world| world.paused = paused);
    }

    /// Returns how many different events were written to a stream.
    pub fn handed_out(&self) -> usize {
        self.0.read(|world| world.handed_out.len())
    }

    /// Sends the last event again.
    pub fn repeat_last(&self) {
        self.0.update(|world| world.events.extend(world.last.clone()));
    }

    /// Ends the stream.
    pub fn drop_stream(&self) {
        self.0.update(|world| world.drops += 1);
    }

    pub fn fault(&self, method: &str, part: &str, fault: PlatformFault) {
        self.0.fault(method, part, fault);
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

impl FakeSignalState {
    /// Returns a time in milliseconds that is later than every other.
    fn now(&mut self) -> u64 {
        self.clock = (self.clock + 1).max(seconds_now() * 1000);
        self.clock
    }

    fn push(&mut self, from: &str, timestamp: u64, kind: &str, data: &Value) {
        let uuid = format!("00000000-0000-4000-8000-{:0>12}", from.trim_start_matches('+'));
        let envelope = json!({
            "source": from, "sourceNumber": from, "sourceUuid": uuid, "sourceName": format!("Name of {from}"),
            "sourceDevice": 1, "timestamp": timestamp, kind: data,
        });
        let event = json!({"envelope": envelope, "account": ACCOUNT});
        self.last = Some(event.clone());
        self.events.push_back(event);
    }

    fn push_note(&mut self, timestamp: u64, text: &str) {
        let sent = json!({
            "destination": ACCOUNT, "destinationNumber": ACCOUNT, "timestamp": timestamp, "message": text,
        });
        self.push(ACCOUNT, timestamp, "syncMessage", &json!({"sentMessage": sent}));
    }

    fn call(&mut self, body: &Value) -> Result<Value, RpcRefusal> {
        let method = body["method"].as_str().unwrap_or_default();
        if let Some(at) = self.refusals.iter().position(|(wanted, _)| wanted == method) {
            return Err(self.refusals.remove(at).1);
        }
        let parameters = &body["params"];
        if parameters["account"] != ACCOUNT {
            return Err((-1, "Specified account does not exist".to_owned()));
        }
        match method {
            "send" => self.send(parameters),
            "sendTyping" => {
                let to = self.recipient(parameters)?;
                self.typing.push(to);
                Ok(json!({}))
            }
            "sendReaction" => {
                self.recipient(parameters)?;
                let text = |key: &str| parameters[key].as_str().unwrap_or_default().to_owned();
                let at = parameters["targetTimestamp"].as_u64().ok_or((-1, "No timestamp".to_owned()))?;
                self.reactions.push((at, text("targetAuthor"), text("emoji")));
                Ok(json!({"timestamp": self.now()}))
            }
            "getAttachment" => {
                // Newer releases also want to know whose file it is.
                if parameters["recipient"].is_null() && parameters["groupId"].is_null() {
                    return Err((-1, "Either recipient or groupId is needed".to_owned()));
                }
                let id = parameters["id"].as_str().unwrap_or_default();
                let bytes = self.files.get(id).ok_or((-1, "Could not find attachment".to_owned()))?;
                Ok(json!({"data": BASE64.encode(bytes)}))
            }
            "getUserStatus" => Ok(
                json!([{"recipient": ACCOUNT, "number": ACCOUNT, "uuid": ACCOUNT_UUID, "isRegistered": true}]),
            ),
            "listGroups" => {
                let group =
                    |(id, name): (&String, &String)| json!({"id": id, "name": name, "isMember": true});
                Ok(self.groups.iter().map(group).collect())
            }
            _ => Err((-32601, "Method not implemented".to_owned())),
        }
    }

    fn recipient(&self, parameters: &Value) -> Result<String, RpcRefusal> {
        match (parameters["recipient"][0].as_str(), parameters["groupId"].as_str()) {
            (Some(to), None) if to.starts_with('+') => Ok(to.to_owned()),
            (None, Some(group)) if self.groups.contains_key(group) => Ok(format!("group:{group}")),
            (None, Some(_)) => Err((-1, "Invalid group id".to_owned())),
            _ => Err((-1, "Unregistered user".to_owned())),
        }
    }

    fn send(&mut self, parameters: &Value) -> Result<Value, RpcRefusal> {
        let to = self.recipient(parameters)?;
        let text = parameters["message"].as_str().unwrap_or_default().to_owned();
        let length = text.encode_utf16().count();
        let styles: Vec<String> = serde_json::from_value(parameters["textStyle"].clone()).unwrap_or_default();
        let style_fits = |style: &String| {
            let parts: Vec<&str> = style.split(':').collect();
            let [start, count, name] = parts.as_slice() else { return false };
            let end = start
                .parse::<usize>()
                .ok()
                .zip(count.parse::<usize>().ok())
                .map(|(start, count)| start + count);
            let known = ["BOLD", "ITALIC", "STRIKETHROUGH", "SPOILER", "MONOSPACE"];
            end.is_some_and(|end| end <= length) && known.contains(name)
        };
        if !styles.iter().all(style_fits) {
            return Err((-1, "Invalid style".to_owned()));
        }
        let paths: Vec<String> =
            serde_json::from_value(parameters["attachments"].clone()).unwrap_or_default();
        let mut files = Vec::new();
        for path in paths {
            files.push(std::fs::read(&path).map_err(|error| (-1, format!("{path}: {error}")))?);
        }
        if text.is_empty() && files.is_empty() {
            return Err((-1, "Message body or attachment is needed".to_owned()));
        }
        let timestamp = self.now();
        let quote = parameters["quoteTimestamp"].as_u64();
        let quote = quote.map(|at| (at, parameters["quoteAuthor"].as_str().unwrap_or_default().to_owned()));
        self.sent.push(FakeSignalMessage { timestamp, to, text, styles, files, quote });
        Ok(json!({"timestamp": timestamp, "results": [{"type": "SUCCESS"}]}))
    }
}

impl EmulatedPlatform for FakeSignalState {
    fn respond(&mut self, request: &ReceivedRequest) -> EmulatedReply {
        match (request.method.as_str(), request.target.as_str()) {
            ("GET", "/api/v1/check") => {
                EmulatedReply::bytes(if self.broken { 500 } else { 200 }, "text/plain", b"")
            }
            ("POST", "/api/v1/rpc") => {
                let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
                if body["jsonrpc"] != "2.0" || body["id"].is_null() {
                    return EmulatedReply::bytes(400, "text/plain", b"");
                }
                let answer = match self.call(&body) {
                    Ok(result) => json!({"jsonrpc": "2.0", "id": body["id"], "result": result}),
                    Err((code, message)) => {
                        json!({"jsonrpc": "2.0", "id": body["id"], "error": {"code": code, "message": message}})
                    }
                };
                EmulatedReply::json(200, &answer)
            }
            ("GET", target) if target.starts_with("/api/v1/events") => {
                EmulatedReply::bytes(400, "text/plain", b"")
            }
            _ => EmulatedReply::bytes(404, "text/plain", b""),
        }
    }

    fn is_stream(&self, request: &ReceivedRequest) -> bool {
        let right =
            query_fields(&request.target).iter().any(|(name, value)| name == "account" && value == ACCOUNT);
        request.target.starts_with("/api/v1/events?") && right
    }

    fn stream(
        shared: Arc<PlatformServerState<Self>>,
        mut connection: HttpConnection,
        _: ReceivedRequest,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: alive\n\n";
            if connection.write(head.as_bytes()).await.is_err() {
                return;
            }
            shared.world.update(|world| world.opened += 1);
            loop {
                let next = shared.world.until(|world| {
                    if world.drops > 0 {
                        world.drops -= 1;
                        return Some(None);
                    }
                    if world.paused {
                        return None;
                    }
                    let event = world.events.pop_front()?;
                    world.handed_out.insert(event.to_string());
                    Some(Some(event))
                });
                let event = tokio::select! {
                    event = next => event,
                    () = connection.until_gone() => return,
                };
                let Some(event) = event else { return };
                let text = format!("event:receive\ndata:{event}\n\n");
                if connection.write(text.as_bytes()).await.is_err() {
                    return;
                }
            }
        })
    }
}
