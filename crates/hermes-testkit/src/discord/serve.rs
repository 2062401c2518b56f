//! Connections: plain requests, and WebSocket upgrades.

use std::sync::Arc;

use hermes_types::Clock;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::faults::{DiscordFault, RateLimitScope};
use super::limits::{RateAllowance, bucket_of};
use super::rest::{FakeDiscordRequest, trouble};
use super::state::{EventTime, FakeDiscordCall, FakeDiscordId, FakeDiscordState};
use super::{form, page, socket};
use crate::gate::Gates;
use crate::http::{HttpConnection, ReceivedRequest, RequestReadError};
use crate::task::start_in;
use crate::watched_value::WatchedValue;

const VERSION: &str = "/api/v10";

/// The state all connections share.
#[derive(Debug)]
pub(super) struct FakeDiscordServer {
    pub(super) world: WatchedValue<FakeDiscordState>,
    pub(super) gates: Gates,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) heartbeat: std::time::Duration,
}

impl FakeDiscordServer {
    pub(super) fn moment(&self) -> EventTime {
        EventTime { wall: self.clock.now(), monotonic: self.clock.monotonic() }
    }
}

pub(super) async fn serve(listener: TcpListener, shared: Arc<FakeDiscordServer>) {
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

async fn serve_connection(stream: TcpStream, shared: Arc<FakeDiscordServer>) {
    let mut connection = HttpConnection::new(stream);
    loop {
        let message = match connection.read().await {
            Ok(message) => message,
            Err(RequestReadError::Closed) => return,
            Err(RequestReadError::Refused(status, why)) => {
                let refused = RawHttpResponse::json(status, &json!({"message": why, "code": 0}));
                connection.write(&refused.bytes()).await.ok();
                return;
            }
        };
        if message.header("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket")) {
            return socket::accept_socket(connection, &message, &shared).await;
        }
        let Some(sent) = respond(&mut connection, &message, &shared).await else { return };
        if connection.write(&sent.bytes()).await.is_err() || message.wants_close() {
            return;
        }
    }
}

/// A response to send.
#[derive(Debug)]
pub(super) struct RawHttpResponse {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl RawHttpResponse {
    pub(super) fn new(status: u16, mime: &str, body: Vec<u8>) -> Self {
        Self { status, headers: vec![("content-type", mime.to_owned())], body }
    }

    pub(super) fn json(status: u16, body: &Value) -> Self {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        Self::new(status, "application/json", body)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut lines = vec![format!("HTTP/1.1 {} -", self.status)];
        lines.extend(self.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        if self.status != 204 {
            lines.push(format!("content-length: {}", self.body.len()));
        }
        let head = format!("{}\r\n\r\n", lines.join("\r\n"));
        [head.as_bytes(), &self.body].concat()
    }
}

/// Returns the response, or `None` when the connection is to end.
async fn respond(
    connection: &mut HttpConnection,
    message: &ReceivedRequest,
    shared: &FakeDiscordServer,
) -> Option<RawHttpResponse> {
    let (path, query) = message.target.split_once('?').unwrap_or((&message.target, ""));
    if let Some(rest) = path.strip_prefix("/cdn/") {
        return Some(file(rest, shared));
    }
    if path == "/" || path.starts_with("/_/") {
        return Some(page::respond(path, message, shared));
    }
    let Some(path) = path.strip_prefix(VERSION) else {
        return Some(RawHttpResponse::json(404, &trouble(404, 0, "404: Not Found").json()));
    };
    let ask = match ask(message, path, query) {
        Ok(ask) => ask,
        Err(why) => return Some(RawHttpResponse::json(400, &trouble(400, 50109, why).json())),
    };
    let fault = shared.world.update(|world| world.take_fault(&ask));
    match &fault {
        Some(DiscordFault::Cut) => return None,
        Some(DiscordFault::WaitBefore(gate)) => tokio::select! {
            () = shared.gates.pass(gate) => {}
            () = connection.until_gone() => return None,
        },
        _ => {}
    }
    let sent = shared.world.update(|world| world.take_call(&ask, message, fault.as_ref(), shared.moment()));
    match &fault {
        Some(DiscordFault::DoAndCut) => return None,
        Some(DiscordFault::WaitAfter(gate)) => tokio::select! {
            () = shared.gates.pass(gate) => {}
            () = connection.until_gone() => return None,
        },
        _ => {}
    }
    Some(sent)
}

fn ask(message: &ReceivedRequest, path: &str, query: &str) -> Result<FakeDiscordRequest, &'static str> {
    let mut ask = FakeDiscordRequest {
        method: message.method.clone(),
        path: path.to_owned(),
        query: query.to_owned(),
        ..FakeDiscordRequest::default()
    };
    let kind = message.header("content-type").unwrap_or_default();
    if kind.starts_with("multipart/form-data") {
        let parts = form::parse(kind, &message.body).ok_or("The form is not well-formed.")?;
        for part in parts {
            if part.name == "payload_json" {
                ask.body = serde_json::from_slice(&part.bytes).map_err(|_| "payload_json is no JSON.")?;
            } else if part.name == format!("files[{}]", ask.files.len()) && part.file_name.is_some() {
                ask.files.push(part);
            } else {
                return Err("The form has a part that is not documented.");
            }
        }
    } else if !message.body.is_empty() {
        if !kind.starts_with("application/json") {
            return Err("Expected \"Content-Type\" header to be one of {'application/json'}.");
        }
        ask.body =
            serde_json::from_slice(&message.body).map_err(|_| "The request body contains invalid JSON.")?;
    }
    Ok(ask)
}

fn file(rest: &str, shared: &FakeDiscordServer) -> RawHttpResponse {
    let id = rest.split('/').next().and_then(FakeDiscordId::parse);
    let found = shared.world.read(|world| world.files.get(&id?).cloned());
    match found {
        Some((mime, bytes)) => RawHttpResponse::new(200, &mime, bytes),
        None => RawHttpResponse::json(404, &Value::Null),
    }
}

impl FakeDiscordState {
    fn take_fault(&mut self, ask: &FakeDiscordRequest) -> Option<DiscordFault> {
        let fits = |(method, part, _): &(String, String, DiscordFault)| {
            *method == ask.method && ask.path.contains(part.as_str())
        };
        let at = self.faults.iter().position(fits)?;
        Some(self.faults.remove(at).2)
    }

    fn take_call(
        &mut self,
        ask: &FakeDiscordRequest,
        message: &ReceivedRequest,
        fault: Option<&DiscordFault>,
        at: EventTime,
    ) -> RawHttpResponse {
        let allowance = self.limits.take(&bucket_of(&ask.method, &ask.segments()), at.monotonic);
        let mut sent = self.judge(ask, message, fault, allowance, at);
        let reset = allowance.reset_after.as_secs_f64();
        sent.headers.extend([
            ("x-ratelimit-limit", allowance.limit.to_string()),
            ("x-ratelimit-remaining", allowance.remaining.to_string()),
            ("x-ratelimit-reset", format!("{:.3}", at.wall.seconds() + reset)),
            ("x-ratelimit-reset-after", format!("{reset:.3}")),
            ("x-ratelimit-bucket", "bucket".to_owned()),
        ]);
        let query = if ask.query.is_empty() { String::new() } else { format!("?{}", ask.query) };
        let path = format!("{}{query}", ask.path);
        self.calls.push(FakeDiscordCall {
            method: ask.method.clone(),
            path,
            body: ask.body.clone(),
            status: sent.status,
        });
        sent
    }

    fn judge(
        &mut self,
        ask: &FakeDiscordRequest,
        message: &ReceivedRequest,
        fault: Option<&DiscordFault>,
        allowance: RateAllowance,
        at: EventTime,
    ) -> RawHttpResponse {
        if !message.header("user-agent").is_some_and(|agent| agent.starts_with("DiscordBot (")) {
            return RawHttpResponse::json(403, &trouble(403, 40333, "internal network error").json());
        }
        let open = matches!(ask.segments().first(), Some(&("interactions" | "webhooks")));
        let authorised = message.header("authorization") == Some(format!("Bot {}", self.token).as_str());
        if !open && !authorised {
            return RawHttpResponse::json(401, &trouble(401, 0, "401: Unauthorized").json());
        }
        match fault {
            Some(DiscordFault::Refuse { status, code, message }) => {
                return RawHttpResponse::json(*status, &trouble(*status, *code, message).json());
            }
            Some(DiscordFault::Limit { after, scope }) => return limited(*after, *scope),
            Some(DiscordFault::Garbage) => {
                return RawHttpResponse::new(200, "application/json", b"<html>".to_vec());
            }
            _ => {}
        }
        if !allowance.allowed {
            return limited(allowance.reset_after.as_secs_f64(), RateLimitScope::Route);
        }
        match self.answer(ask, at) {
            Ok((status, body)) => RawHttpResponse::json(status, &body),
            Err(trouble) => RawHttpResponse::json(trouble.status, &trouble.json()),
        }
    }
}

fn limited(after: f64, scope: RateLimitScope) -> RawHttpResponse {
    let global = scope == RateLimitScope::Everything;
    let body = json!({"message": "You are being rate limited.", "retry_after": after, "global": global});
    let mut sent = RawHttpResponse::json(429, &body);
    sent.headers.push(("retry-after", format!("{}", after.ceil())));
    sent.headers.push(("x-ratelimit-scope", if global { "global" } else { "user" }.to_owned()));
    if global {
        sent.headers.push(("x-ratelimit-global", "true".to_owned()));
    }
    sent
}
