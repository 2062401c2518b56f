//! The gateway: a socket from hello to close.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role};

use super::faults::{DiscordSocketAction, SessionResumption};
use super::serve::FakeDiscordServer;
use super::state::{FakeDiscordConnection, FakeDiscordSession, FakeDiscordState};
use crate::http;

/// Says whether the connection continues.
enum SocketStep {
    On,
    Close(u16),
    Drop,
}

pub(super) async fn accept_socket(
    mut connection: http::HttpConnection,
    request: &http::ReceivedRequest,
    shared: &FakeDiscordServer,
) {
    let Some(key) = request.header("sec-websocket-key") else { return };
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    if connection.write(answer.as_bytes()).await.is_err() {
        return;
    }
    let (stream, rest) = connection.into_parts();
    let mut socket = WebSocketStream::from_partially_read(stream, rest, Role::Server, None).await;
    let query = request.target.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let parameters: Vec<&str> = query.split('&').collect();
    if !parameters.contains(&"v=10") || !parameters.contains(&"encoding=json") {
        return close(&mut socket, 4012).await;
    }
    let id = shared.world.update(FakeDiscordState::open_connection);
    run_socket(&mut socket, id, shared).await;
    shared.world.update(|world| world.close_connection(id));
}

async fn run_socket(socket: &mut WebSocketStream<TcpStream>, id: u64, shared: &FakeDiscordServer) {
    let interval = shared.heartbeat;
    let hello = json!({"op": 10, "s": null, "t": null, "d": {"heartbeat_interval": interval.as_millis()}});
    if send_json(socket, &hello).await.is_err() {
        return;
    }
    let patience = interval.saturating_add(interval / 2);
    let mut silence = shared.clock.sleep(patience);
    loop {
        let next = tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    let said: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
                    if said["op"] == 1 {
                        silence = shared.clock.sleep(patience);
                    }
                    let (replies, next) = shared.world.update(|world| world.handle_payload(id, &said));
                    for reply in replies {
                        if send_json(socket, &reply).await.is_err() {
                            return;
                        }
                    }
                    next
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => SocketStep::On,
            },
            order = shared.world.until(|world| world.take_outgoing(id)) => match perform_action(socket, order).await {
                Ok(next) => next,
                Err(()) => return,
            },
            () = &mut silence => SocketStep::Close(4009),
        };
        match next {
            SocketStep::On => {}
            SocketStep::Close(code) => return close(socket, code).await,
            SocketStep::Drop => return,
        }
    }
}

async fn perform_action(
    socket: &mut WebSocketStream<TcpStream>,
    order: DiscordSocketAction,
) -> Result<SocketStep, ()> {
    match order {
        DiscordSocketAction::Send(payload) => send_json(socket, &payload).await?,
        DiscordSocketAction::SendText(text) => socket.send(Message::text(text)).await.map_err(|_| ())?,
        DiscordSocketAction::Reconnect => {
            send_json(socket, &json!({"op": 7, "d": null, "s": null, "t": null})).await?;
        }
        DiscordSocketAction::Invalidate(resumable) => {
            send_json(
                socket,
                &json!({"op": 9, "d": resumable == SessionResumption::Yes, "s": null, "t": null}),
            )
            .await?;
        }
        DiscordSocketAction::Close(code) => return Ok(SocketStep::Close(code)),
        DiscordSocketAction::Drop => return Ok(SocketStep::Drop),
    }
    Ok(SocketStep::On)
}

async fn send_json(socket: &mut WebSocketStream<TcpStream>, payload: &Value) -> Result<(), ()> {
    socket.send(Message::text(payload.to_string())).await.map_err(|_| ())
}

async fn close(socket: &mut WebSocketStream<TcpStream>, code: u16) {
    let frame = CloseFrame { code: code.into(), reason: "".into() };
    socket.close(Some(frame)).await.ok();
    // The close frame is read before the connection ends, or the client may not see it. The wait is limited.
    let goodbye = async { while let Some(Ok(_)) = socket.next().await {} };
    tokio::time::timeout(Duration::from_secs(5), goodbye).await.ok();
}

impl FakeDiscordState {
    fn open_connection(&mut self) -> u64 {
        self.opened += 1;
        self.connections.insert(self.opened, FakeDiscordConnection::default());
        self.opened
    }

    fn close_connection(&mut self, id: u64) {
        self.connections.remove(&id);
        for session in self.sessions.values_mut() {
            session.listener = session.listener.filter(|(listener, _)| *listener != id);
        }
    }

    fn is_known(&self, id: u64) -> bool {
        self.sessions.values().any(|session| session.listener.is_some_and(|(listener, _)| listener == id))
    }

    /// Handles a client's payload; returns the responses.
    fn handle_payload(&mut self, id: u64, said: &Value) -> (Vec<Value>, SocketStep) {
        let data = &said["d"];
        match said["op"].as_u64() {
            Some(1) => {
                self.heartbeats.push(data.as_u64());
                let ack = json!({"op": 11, "d": null, "s": null, "t": null});
                (if self.ignore_heartbeats { vec![] } else { vec![ack] }, SocketStep::On)
            }
            Some(2 | 6) if self.is_known(id) => (vec![], SocketStep::Close(4005)),
            Some(2) => self.identify(id, data),
            Some(6) => self.resume(id, data),
            Some(3 | 4 | 8) if self.is_known(id) => (vec![], SocketStep::On),
            Some(3 | 4 | 8) => (vec![], SocketStep::Close(4003)),
            Some(_) => (vec![], SocketStep::Close(4001)),
            None => (vec![], SocketStep::Close(4002)),
        }
    }

    fn identify(&mut self, id: u64, data: &Value) -> (Vec<Value>, SocketStep) {
        let properties = &data["properties"];
        let complete = ["os", "browser", "device"].iter().all(|field| properties[*field].is_string());
        let Some(intents) = data["intents"].as_u64().filter(|_| complete) else {
            return (vec![], SocketStep::Close(4002));
        };
        if data["token"] != self.token.as_str() {
            return (vec![], SocketStep::Close(4004));
        }
        if intents >= 1 << 26 {
            return (vec![], SocketStep::Close(4013));
        }
        if intents & self.forbidden_intents != 0 {
            return (vec![], SocketStep::Close(4014));
        }
        self.identified += 1;
        let name = format!("session-{}", self.identified);
        let mut session =
            FakeDiscordSession { intents, listener: Some((id, 0)), ..FakeDiscordSession::default() };
        let unavailable =
            |id: &super::state::FakeDiscordId| json!({"id": id.to_string(), "unavailable": true});
        let ready = json!({
            "v": 10,
            "user": self.user_json(self.bot),
            "guilds": self.guilds.keys().map(unavailable).collect::<Vec<_>>(),
            "session_id": name,
            "resume_gateway_url": format!("ws://127.0.0.1:{}/resume", self.port),
            "application": {"id": self.application.to_string(), "flags": 0},
        });
        session.append("READY", &ready);
        for guild in self.guilds.keys() {
            session.append("GUILD_CREATE", &self.guild_json(*guild));
        }
        self.sessions.insert(name, session);
        (vec![], SocketStep::On)
    }

    fn resume(&mut self, id: u64, data: &Value) -> (Vec<Value>, SocketStep) {
        if data["token"] != self.token.as_str() {
            return (vec![], SocketStep::Close(4004));
        }
        let name = data["session_id"].as_str().unwrap_or_default();
        let Some(session) = self.sessions.get_mut(name) else {
            return (vec![json!({"op": 9, "d": false, "s": null, "t": null})], SocketStep::On);
        };
        let heard = data["seq"].as_u64().and_then(|seq| usize::try_from(seq).ok());
        let Some(heard) = heard.filter(|heard| *heard <= session.log.len()) else {
            return (vec![], SocketStep::Close(4007));
        };
        session.append("RESUMED", &json!({}));
        session.listener = Some((id, heard));
        self.resumed += 1;
        (vec![], SocketStep::On)
    }
}
