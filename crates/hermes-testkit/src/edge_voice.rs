//! The read-aloud service of Microsoft Edge, emulated from its wire format.
//!
//! "Sound" is the text in the markup. It accepts what a client of the service sends, and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};

use crate::Error;
use crate::http::HttpConnection;
use crate::server_thread::ServerThread;
use crate::task::start_in;
use crate::watched_value::WatchedValue;

/// How the service behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EdgeVoiceMood {
    #[default]
    Speaks,
    /// It refuses the connection.
    Refuses,
    /// It ends a turn without a sound.
    Silent,
}

/// The emulated service, until it is dropped.
#[derive(Debug)]
pub struct EdgeVoice {
    address: SocketAddr,
    state: Arc<WatchedValue<EdgeVoiceState>>,
    _thread: ServerThread,
}

#[derive(Debug, Default)]
struct EdgeVoiceState {
    mood: EdgeVoiceMood,
    spoken: Vec<String>,
}

impl EdgeVoice {
    pub fn start() -> Result<Self, Error> {
        let state = Arc::new(WatchedValue::new(EdgeVoiceState::default()));
        let shared = state.clone();
        let (address, thread) = ServerThread::start("edge voice", 0, |listener| serve(listener, shared))?;
        Ok(Self { address, state, _thread: thread })
    }

    /// Returns the address of the service.
    pub fn url(&self) -> String {
        format!("ws://{}/readaloud/edge/v1", self.address)
    }

    pub fn set_mood(&self, mood: EdgeVoiceMood) {
        self.state.update(|state| state.mood = mood);
    }

    /// Returns the markup of every request.
    pub fn spoken(&self) -> Vec<String> {
        self.state.read(|state| state.spoken.clone())
    }
}

async fn serve(listener: TcpListener, state: Arc<WatchedValue<EdgeVoiceState>>) {
    let mut work = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                start_in(&mut work, accept_socket(stream, state.clone()));
            },
            Some(_) = work.join_next() => {}
        }
    }
}

async fn accept_socket(stream: TcpStream, state: Arc<WatchedValue<EdgeVoiceState>>) {
    let mut connection = HttpConnection::new(stream);
    let Ok(request) = connection.read().await else { return };
    let Some(key) = request.header("sec-websocket-key") else { return };
    let is_accepted = is_client(&request.target) && state.read(|state| state.mood) != EdgeVoiceMood::Refuses;
    if !is_accepted {
        // The client sees what it gets.
        let _ = connection.write(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
        return;
    }
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: {}\r\n\r\n",
        derive_accept_key(key.as_bytes())
    );
    if connection.write(answer.as_bytes()).await.is_err() {
        return;
    }
    let (stream, rest) = connection.into_parts();
    let mut socket = WebSocketStream::from_partially_read(stream, rest, Role::Server, None).await;
    // The client may leave at any time.
    let _ = talk(&mut socket, &state).await;
}

/// Tells whether the address carries what a client of the service sends.
fn is_client(target: &str) -> bool {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let value = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
            .unwrap_or_default()
            .to_owned()
    };
    let is_hexadecimal = |text: &str, length: usize| {
        text.len() == length && text.chars().all(|c| c.is_ascii_digit() || ('A'..='F').contains(&c))
    };
    is_hexadecimal(&value("TrustedClientToken"), 32)
        && is_hexadecimal(&value("Sec-MS-GEC"), 64)
        && value("Sec-MS-GEC-Version").starts_with("1-")
        && !value("ConnectionId").is_empty()
}

async fn talk(
    socket: &mut WebSocketStream<TcpStream>,
    state: &WatchedValue<EdgeVoiceState>,
) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    let mut is_configured = false;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let (headers, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
        if headers.contains("Path:speech.config") {
            is_configured = body.contains("audio-24khz-48kbitrate-mono-mp3");
            continue;
        }
        let is_markup = body.starts_with("<speak ") && body.ends_with("</speak>") && body.len() <= 4_096;
        if !is_configured || !headers.contains("Path:ssml") || !is_markup {
            return socket.close(None).await;
        }
        let mood = state.update(|state| {
            state.spoken.push(body.to_owned());
            state.mood
        });
        let words = body.rsplit_once("</prosody>").and_then(|(before, _)| before.rsplit_once('>'));
        let words = words.map_or("", |(_, words)| words);
        let id = "X-RequestId:1\r\nPath:";
        socket.send(Message::text(format!("{id}turn.start\r\n\r\n{{}}"))).await?;
        socket.send(Message::text(format!("{id}response\r\n\r\n{{}}"))).await?;
        if mood == EdgeVoiceMood::Speaks {
            let (first, second) = words.split_at(words.floor_char_boundary(words.len() / 2));
            for part in [first, second, ""] {
                let headers = "X-RequestId:1\r\nContent-Type:audio/mpeg\r\nPath:audio\r\n";
                let length = u16::try_from(headers.len()).unwrap_or_default().to_be_bytes();
                let frame = [&length[..], headers.as_bytes(), part.as_bytes()].concat();
                socket.send(Message::Binary(frame.into())).await?;
            }
        }
        socket.send(Message::text(format!("{id}turn.end\r\n\r\n{{}}"))).await?;
    }
    Ok(())
}
