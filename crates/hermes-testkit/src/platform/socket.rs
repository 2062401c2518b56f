//! WebSockets of emulated platforms.

use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

use super::PlatformServerState;
use crate::http::{HttpConnection, ReceivedRequest};

/// A platform with sockets: what it does with a frame, and what it sends.
pub(crate) trait EmulatedSocket: Sized {
    /// Handles a frame of a client.
    fn receive(&mut self, connection: u64, frame: &Value);

    /// Returns the next frame for a client; `Null` closes its connection.
    fn next_frame(&mut self, connection: u64) -> Option<Value>;

    /// Learns that a connection has ended.
    fn disconnected(&mut self, connection: u64);
}

/// Answers an upgrade request.
pub(crate) async fn accept_emulated_socket(
    mut connection: HttpConnection,
    request: &ReceivedRequest,
) -> Option<WebSocketStream<TcpStream>> {
    let key = request.header("sec-websocket-key")?;
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    connection.write(answer.as_bytes()).await.ok()?;
    let (stream, rest) = connection.into_parts();
    Some(WebSocketStream::from_partially_read(stream, rest, Role::Server, None).await)
}

/// Passes frames both ways until either side ends the connection.
pub(crate) async fn run_emulated_socket<P: EmulatedSocket + std::fmt::Debug>(
    mut socket: WebSocketStream<TcpStream>,
    connection: u64,
    shared: Arc<PlatformServerState<P>>,
) {
    loop {
        tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
                    shared.world.update(|world| world.receive(connection, &frame));
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
            frame = shared.world.until(|world| world.next_frame(connection)) => {
                if frame.is_null() || socket.send(Message::text(frame.to_string())).await.is_err() {
                    break;
                }
            }
        }
    }
    shared.world.update(|world| world.disconnected(connection));
}
