//! Connections: plain requests, and those that become sockets.

use std::sync::Arc;

use hermes_types::Clock;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::faults::{Fault, Scope};
use super::limits::{Allowance, bucket_of};
use super::rest::{Ask, trouble};
use super::world::{Call, Id, Moment, World};
use super::{form, page, socket};
use crate::gate::Gates;
use crate::http::{Connection, Message, ReadError};
use crate::task::start_in;
use crate::watched::Watched;

const VERSION: &str = "/api/v10";

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) world: Watched<World>,
    pub(super) gates: Gates,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) heartbeat: std::time::Duration,
}

impl Shared {
    pub(super) fn moment(&self) -> Moment {
        Moment { wall: self.clock.now(), monotonic: self.clock.monotonic() }
    }
}

pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            // A failed accept concerns one client that has already gone.
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start_in(&mut clients, attend(stream, shared.clone()));
            },
            Some(_) = clients.join_next() => {}
        }
    }
}

async fn attend(stream: TcpStream, shared: Arc<Shared>) {
    let mut connection = Connection::new(stream);
    loop {
        let message = match connection.read().await {
            Ok(message) => message,
            Err(ReadError::Closed) => return,
            Err(ReadError::Refused(status, why)) => {
                let refused = Sent::json(status, &json!({"message": why, "code": 0}));
                connection.write(&refused.bytes()).await.ok();
                return;
            }
        };
        if message.header("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket")) {
            return socket::talk(connection, &message, &shared).await;
        }
        let Some(sent) = respond(&mut connection, &message, &shared).await else { return };
        if connection.write(&sent.bytes()).await.is_err() || message.wants_close() {
            return;
        }
    }
}

/// An answer on its way out.
#[derive(Debug)]
pub(super) struct Sent {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Sent {
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

/// The answer, or nothing when the connection is to end.
async fn respond(connection: &mut Connection, message: &Message, shared: &Shared) -> Option<Sent> {
    let (path, query) = message.target.split_once('?').unwrap_or((&message.target, ""));
    if let Some(rest) = path.strip_prefix("/cdn/") {
        return Some(file(rest, shared));
    }
    if path == "/" || path.starts_with("/_/") {
        return Some(page::respond(path, message, shared));
    }
    let Some(path) = path.strip_prefix(VERSION) else {
        return Some(Sent::json(404, &trouble(404, 0, "404: Not Found").json()));
    };
    let ask = match ask(message, path, query) {
        Ok(ask) => ask,
        Err(why) => return Some(Sent::json(400, &trouble(400, 50109, why).json())),
    };
    let fault = shared.world.update(|world| world.take_fault(&ask));
    match &fault {
        Some(Fault::Cut) => return None,
        Some(Fault::WaitBefore(gate)) => tokio::select! {
            () = shared.gates.pass(gate) => {}
            () = connection.until_gone() => return None,
        },
        _ => {}
    }
    let sent = shared.world.update(|world| world.take_call(&ask, message, fault.as_ref(), shared.moment()));
    match &fault {
        Some(Fault::DoAndCut) => return None,
        Some(Fault::WaitAfter(gate)) => tokio::select! {
            () = shared.gates.pass(gate) => {}
            () = connection.until_gone() => return None,
        },
        _ => {}
    }
    Some(sent)
}

fn ask(message: &Message, path: &str, query: &str) -> Result<Ask, &'static str> {
    let mut ask = Ask {
        method: message.method.clone(),
        path: path.to_owned(),
        query: query.to_owned(),
        ..Ask::default()
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

fn file(rest: &str, shared: &Shared) -> Sent {
    let id = rest.split('/').next().and_then(Id::parse);
    let found = shared.world.read(|world| world.files.get(&id?).cloned());
    match found {
        Some((mime, bytes)) => Sent::new(200, &mime, bytes),
        None => Sent::json(404, &Value::Null),
    }
}

impl World {
    fn take_fault(&mut self, ask: &Ask) -> Option<Fault> {
        let fits = |(method, part, _): &(String, String, Fault)| {
            *method == ask.method && ask.path.contains(part.as_str())
        };
        let at = self.faults.iter().position(fits)?;
        Some(self.faults.remove(at).2)
    }

    fn take_call(&mut self, ask: &Ask, message: &Message, fault: Option<&Fault>, at: Moment) -> Sent {
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
        self.calls.push(Call {
            method: ask.method.clone(),
            path,
            body: ask.body.clone(),
            status: sent.status,
        });
        sent
    }

    fn judge(
        &mut self,
        ask: &Ask,
        message: &Message,
        fault: Option<&Fault>,
        allowance: Allowance,
        at: Moment,
    ) -> Sent {
        if !message.header("user-agent").is_some_and(|agent| agent.starts_with("DiscordBot (")) {
            return Sent::json(403, &trouble(403, 40333, "internal network error").json());
        }
        let open = matches!(ask.segments().first(), Some(&("interactions" | "webhooks")));
        let authorised = message.header("authorization") == Some(format!("Bot {}", self.token).as_str());
        if !open && !authorised {
            return Sent::json(401, &trouble(401, 0, "401: Unauthorized").json());
        }
        match fault {
            Some(Fault::Refuse { status, code, message }) => {
                return Sent::json(*status, &trouble(*status, *code, message).json());
            }
            Some(Fault::Limit { after, scope }) => return limited(*after, *scope),
            Some(Fault::Garbage) => return Sent::new(200, "application/json", b"<html>".to_vec()),
            _ => {}
        }
        if !allowance.allowed {
            return limited(allowance.reset_after.as_secs_f64(), Scope::Route);
        }
        match self.answer(ask, at) {
            Ok((status, body)) => Sent::json(status, &body),
            Err(trouble) => Sent::json(trouble.status, &trouble.json()),
        }
    }
}

fn limited(after: f64, scope: Scope) -> Sent {
    let global = scope == Scope::Everything;
    let body = json!({"message": "You are being rate limited.", "retry_after": after, "global": global});
    let mut sent = Sent::json(429, &body);
    sent.headers.push(("retry-after", format!("{}", after.ceil())));
    sent.headers.push(("x-ratelimit-scope", if global { "global" } else { "user" }.to_owned()));
    if global {
        sent.headers.push(("x-ratelimit-global", "true".to_owned()));
    }
    sent
}
