//! Connections: Web API calls, files, the web page, and WebSocket upgrades.

use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use hermes_types::Clock;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message as Frame, Role};

use super::faults::{SlackFault, SlackSocketAction};
use super::page;
use super::state::{ACK_WITHIN, FakeSlackCall, FakeSlackState};
use crate::gate::Gates;
use crate::http::{HttpConnection, ReceivedRequest, RequestReadError};
use crate::task::start_in;
use crate::watched_value::WatchedValue;

/// The state all connections share.
#[derive(Debug)]
pub(super) struct FakeSlackServer {
    pub(super) world: WatchedValue<FakeSlackState>,
    pub(super) gates: Gates,
    pub(super) clock: Arc<dyn Clock>,
}

pub(super) async fn serve(listener: TcpListener, shared: Arc<FakeSlackServer>) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            // A failed accept concerns one client that has already disconnected.
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start_in(&mut clients, serve_connection(stream, shared.clone()));
            },
            Some(_) = clients.join_next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, shared: Arc<FakeSlackServer>) {
    let mut connection = HttpConnection::new(stream);
    loop {
        let message = match connection.read().await {
            Ok(message) => message,
            Err(RequestReadError::Closed) => return,
            Err(RequestReadError::Refused(status, why)) => {
                connection.write(&answer(status, "text/plain", &[], why.as_bytes())).await.ok();
                return;
            }
        };
        if message.header("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket")) {
            return accept_socket(connection, &message, &shared).await;
        }
        let Some(sent) = respond(&mut connection, &message, &shared).await else { return };
        if connection.write(&sent).await.is_err() || message.wants_close() {
            return;
        }
    }
}

pub(super) fn answer(status: u16, mime: &str, headers: &[(&str, String)], body: &[u8]) -> Vec<u8> {
    let mut head =
        format!("HTTP/1.1 {status} -\r\ncontent-type: {mime}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        // Writing to a `String` cannot fail.
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

pub(super) fn json_answer(status: u16, body: &Value) -> Vec<u8> {
    answer(status, "application/json", &[], body.to_string().as_bytes())
}

async fn respond(
    connection: &mut HttpConnection,
    message: &ReceivedRequest,
    shared: &FakeSlackServer,
) -> Option<Vec<u8>> {
    let path = message.target.split('?').next().unwrap_or_default();
    if path == "/" || path.starts_with("/_/") {
        return Some(page::respond(path, message, shared));
    }
    if let Some(id) = path.strip_prefix("/upload/") {
        let done = shared.world.update(|world| world.take_upload(id, &message.body));
        return Some(answer(if done { 200 } else { 404 }, "text/plain", &[], b"OK"));
    }
    if let Some(path) = path.strip_prefix("/files/") {
        return Some(shared.world.read(|world| world.file(path, message)));
    }
    let Some(method) = path.strip_prefix("/api/") else { return Some(answer(404, "text/plain", &[], b"")) };
    call(connection, method, message, shared).await
}

async fn call(
    connection: &mut HttpConnection,
    method: &str,
    message: &ReceivedRequest,
    shared: &FakeSlackServer,
) -> Option<Vec<u8>> {
    let fault = shared.world.update(|world| world.take_fault(method));
    if let Some(SlackFault::WaitBefore(gate)) = &fault {
        tokio::select! {
            () = shared.gates.pass(gate) => {}
            () = connection.until_gone() => return None,
        }
    }
    let outcome = shared.world.update(|world| world.take_call(method, message, fault.as_ref()));
    match fault {
        Some(SlackFault::Cut | SlackFault::DoAndCut) => return None,
        Some(SlackFault::WaitAfter(gate)) => tokio::select! {
            () = shared.gates.pass(&gate) => {}
            () = connection.until_gone() => return None,
        },
        _ => {}
    }
    Some(outcome)
}

impl FakeSlackState {
    fn take_fault(&mut self, method: &str) -> Option<SlackFault> {
        let at = self.faults.iter().position(|(wanted, _)| wanted == method)?;
        Some(self.faults.remove(at).1)
    }

    fn take_call(&mut self, method: &str, message: &ReceivedRequest, fault: Option<&SlackFault>) -> Vec<u8> {
        let kind = message.header("content-type").unwrap_or_default();
        let as_json = kind.starts_with("application/json");
        let arguments = if as_json {
            serde_json::from_slice(&message.body).unwrap_or(Value::Null)
        } else {
            read_form(&message.body)
        };
        let token = message.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let said = match fault {
            Some(SlackFault::Cut) => return Vec::new(),
            Some(SlackFault::Limit(after)) => {
                self.note(method, arguments, "ratelimited");
                let body = json!({"ok": false, "error": "ratelimited"}).to_string();
                return answer(
                    429,
                    "application/json",
                    &[("retry-after", after.to_string())],
                    body.as_bytes(),
                );
            }
            Some(SlackFault::Status(status)) => {
                self.note(method, arguments, "status");
                return answer(*status, "text/html", &[], b"<html>");
            }
            Some(SlackFault::Garbage) => {
                self.note(method, arguments, "garbage");
                return answer(200, "application/json", &[], b"<html>");
            }
            Some(SlackFault::Refuse(code)) => Err(code.clone()),
            _ => self.answer(method, token, &arguments, as_json).map_err(str::to_owned),
        };
        let body = match said {
            Ok(mut body) => {
                body["ok"] = json!(true);
                self.note(method, arguments, "ok");
                body
            }
            Err(code) => {
                self.note(method, arguments, &code);
                json!({"ok": false, "error": code})
            }
        };
        json_answer(200, &body)
    }

    fn note(&mut self, method: &str, arguments: Value, outcome: &str) {
        self.calls.push(FakeSlackCall { method: method.to_owned(), arguments, outcome: outcome.to_owned() });
    }

    fn take_upload(&mut self, id: &str, bytes: &[u8]) -> bool {
        let Some((_, slot)) = self.uploads.get_mut(id) else { return false };
        *slot = Some(bytes.to_vec());
        true
    }

    /// Returns a private file, which needs the token; without it, a sign-in page as on the real one.
    fn file(&self, path: &str, message: &ReceivedRequest) -> Vec<u8> {
        let authorised =
            message.header("authorization") == Some(format!("Bearer {}", self.bot_token).as_str());
        match self.files.get(path) {
            Some((mime, bytes)) if authorised => answer(200, mime, &[], bytes),
            Some(_) => answer(403, "text/html", &[], b"<html>sign in</html>"),
            None => answer(404, "text/html", &[], b""),
        }
    }
}

fn read_form(body: &[u8]) -> Value {
    let mut fields = serde_json::Map::new();
    for pair in String::from_utf8_lossy(body).split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = unescape(value);
        // Lists and objects are written as JSON inside a form.
        let nested = value.starts_with(['[', '{']).then(|| serde_json::from_str(&value).ok()).flatten();
        fields.insert(unescape(name), nested.unwrap_or_else(|| json!(value)));
    }
    Value::Object(fields)
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                let number =
                    std::str::from_utf8(&digits).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok());
                bytes.push(number.unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Accepts a Socket Mode connection, whose ticket is valid once.
async fn accept_socket(mut connection: HttpConnection, request: &ReceivedRequest, shared: &FakeSlackServer) {
    let ticket =
        request.target.split(['?', '&']).find_map(|part| part.strip_prefix("ticket=")).unwrap_or_default();
    let good = shared.world.update(|world| {
        let at = world.tickets.iter().position(|known| known == ticket)?;
        Some(world.tickets.remove(at))
    });
    let (Some(_), Some(key)) = (good, request.header("sec-websocket-key")) else {
        connection.write(&answer(404, "text/plain", &[], b"")).await.ok();
        return;
    };
    let accepted = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    if connection.write(accepted.as_bytes()).await.is_err() {
        return;
    }
    let (stream, rest) = connection.into_parts();
    let mut socket = WebSocketStream::from_partially_read(stream, rest, Role::Server, None).await;
    let hello = json!({
        "type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"},
        "debug_info": {"host": "applink-1", "approximate_connection_time": 18060},
    });
    if socket.send(Frame::text(hello.to_string())).await.is_err() {
        return;
    }
    let id = shared.world.update(|world| {
        world.opened += 1;
        world.connections.insert(world.opened, std::collections::VecDeque::new());
        world.opened
    });
    run_socket(&mut socket, id, shared).await;
    shared.world.update(|world| {
        world.connections.remove(&id);
        world.redeliver_unacknowledged(shared.clock.monotonic());
    });
}

async fn run_socket(socket: &mut WebSocketStream<TcpStream>, id: u64, shared: &FakeSlackServer) {
    loop {
        tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Frame::Text(text))) => {
                    let said: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
                    if let Some(envelope) = said["envelope_id"].as_str() {
                        shared.world.update(|world| world.acknowledge(envelope));
                    }
                }
                Some(Ok(Frame::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
            order = shared.world.until(|world| world.next_for(id, shared.clock.monotonic())) => {
                let sent = match order {
                    SlackSocketAction::Send(frame) => socket.send(Frame::text(frame.to_string())).await,
                    SlackSocketAction::SendText(text) => socket.send(Frame::text(text)).await,
                    SlackSocketAction::Disconnect(reason) => {
                        let frame = json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink-1"}});
                        socket.send(Frame::text(frame.to_string())).await.ok();
                        // Either side may close first; unacknowledged envelopes are delivered on another
                        // connection.
                        while let Some(Ok(_)) = socket.next().await {}
                        return;
                    }
                    SlackSocketAction::Drop => return,
                };
                if sent.is_err() {
                    return;
                }
            },
            () = shared.clock.sleep(ACK_WITHIN) => {
                shared.world.update(|world| world.redeliver_unacknowledged(shared.clock.monotonic()));
            }
        }
    }
}
