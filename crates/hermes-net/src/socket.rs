//! A WebSocket to a configured host: connect, send, receive, close.
//!
//! Connects directly, without proxies. The caller is responsible for reconnecting, heartbeats and the meaning of
//! messages.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hermes_types::{Cancel, Deadline};
use reqwest::header::HeaderMap;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, http};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use url::{Host, Url};

use crate::client::HttpClient;
use crate::error::{Error, TimeoutPhase};
use crate::failure;
use crate::request::host_of;
use crate::request_bounds::RequestBounds;
use crate::resolve::HostResolveError;

/// The size of the read and the write buffer. Small, because most sockets idle and both are allocated at once.
const BUFFER: usize = 8 * 1024;

/// A frame of a WebSocket. Pings are answered automatically and returned only so that a caller sees that the
/// connection is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketFrame {
    Text(String),
    Binary(Bytes),
    Ping(Bytes),
    Pong(Bytes),
    /// The peer closes the connection, with its code and reason if it sent them.
    Close(Option<(u16, String)>),
}

#[derive(Debug, Clone, Copy)]
pub struct SocketLimits {
    pub connect_timeout: Duration,
    /// The largest message that is accepted.
    pub max_message: usize,
}

impl Default for SocketLimits {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(30), max_message: 16 * 1024 * 1024 }
    }
}

pub(crate) trait SocketStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> SocketStream for T {}

/// An open WebSocket. Dropping it closes the connection without a close frame.
pub struct WebSocket {
    stream: WebSocketStream<Box<dyn SocketStream>>,
    host: String,
    bounds: RequestBounds,
    limit: usize,
    /// Set once the peer has sent a close frame: the end of the connection is then not an error.
    ending: bool,
}

impl HttpClient {
    /// Opens a WebSocket. The deadline and the token apply for the whole life of the socket.
    pub async fn connect(
        &self,
        url: &Url,
        headers: HeaderMap,
        limits: SocketLimits,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<WebSocket, Error> {
        let bounds = self.bounds(deadline, cancel);
        let host = host_of(url);
        let late = || Error::TimedOut { host: host.clone(), wait: TimeoutPhase::Connection };
        let open = self.open(url, &host, headers, limits.max_message);
        let stream = bounds.run(limits.connect_timeout, late, open).await?;
        Ok(WebSocket { stream, host, bounds, limit: limits.max_message, ending: false })
    }

    async fn open(
        &self,
        url: &Url,
        host: &str,
        headers: HeaderMap,
        limit: usize,
    ) -> Result<WebSocketStream<Box<dyn SocketStream>>, Error> {
        let port = url.port_or_known_default().ok_or(Error::InvalidUrl)?;
        let tcp = self.dial(url.host().ok_or(Error::InvalidUrl)?, port, host).await?;
        let wire: Box<dyn SocketStream> = match url.scheme() {
            "ws" => Box::new(tcp),
            "wss" => {
                let mut tls = self.tls();
                tls.alpn_protocols = vec![b"http/1.1".to_vec()];
                let name = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
                let name = ServerName::try_from(name).map_err(|_| Error::InvalidUrl)?;
                let connected = TlsConnector::from(Arc::new(tls)).connect(name, tcp).await;
                Box::new(connected.map_err(|error| tls_failure(host, &error))?)
            }
            _ => return Err(Error::InvalidUrl),
        };
        let uri: http::Uri = url.as_str().parse().map_err(|_| Error::InvalidUrl)?;
        let mut request = uri.into_client_request().map_err(|_| Error::InvalidUrl)?;
        request.headers_mut().extend(headers);
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER)
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit));
        let (stream, _) = client_async_with_config(request, wire, Some(config))
            .await
            .map_err(|error| socket_failure(host, limit, &error))?;
        Ok(stream)
    }

    /// Connects to the first address that answers; `label` names the host in errors.
    pub(crate) async fn dial(&self, host: Host<&str>, port: u16, label: &str) -> Result<TcpStream, Error> {
        let addresses = match host {
            Host::Ipv4(address) => vec![address.into()],
            Host::Ipv6(address) => vec![address.into()],
            Host::Domain(name) => self.resolver().addresses(name).await.map_err(|error| match error {
                HostResolveError::Denied(denied) => Error::Denied(denied),
                HostResolveError::Unresolved(unresolved) => Error::Connect {
                    host: label.to_owned(),
                    why: unresolved.to_string(),
                    retryable: unresolved.temporary,
                },
            })?,
        };
        let mut last = None;
        for address in addresses {
            match TcpStream::connect(SocketAddr::new(address, port)).await {
                Ok(stream) => {
                    // Messages are small and must not wait for one another; it is harmless if the platform does not
                    // support this.
                    stream.set_nodelay(true).ok();
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(failure::connect_error(label.to_owned(), last.as_ref()))
    }
}

impl WebSocket {
    /// Sends a frame, waiting at most `patience` for the network to accept it.
    pub async fn send(&mut self, frame: SocketFrame, patience: Duration) -> Result<(), Error> {
        let message = match frame {
            SocketFrame::Text(text) => Message::text(text),
            SocketFrame::Binary(bytes) => Message::Binary(bytes),
            SocketFrame::Ping(bytes) => Message::Ping(bytes),
            SocketFrame::Pong(bytes) => Message::Pong(bytes),
            SocketFrame::Close(_) => return self.close(patience).await,
        };
        let (host, limit) = (&self.host, self.limit);
        let stalled = || Error::Stalled { host: host.clone(), after: patience };
        let work =
            async { self.stream.send(message).await.map_err(|error| socket_failure(host, limit, &error)) };
        self.bounds.run(patience, stalled, work).await
    }

    /// Returns the next frame, or `None` once the connection has been closed properly. The future may be dropped
    /// and the method called again without losing data, so a caller can wait for other events at the same time.
    pub async fn recv(&mut self, patience: Duration) -> Result<Option<SocketFrame>, Error> {
        let (host, limit) = (&self.host, self.limit);
        let stalled = || Error::Stalled { host: host.clone(), after: patience };
        let work = async {
            loop {
                return match self.stream.next().await {
                    None | Some(Err(SocketError::ConnectionClosed | SocketError::AlreadyClosed)) => Ok(None),
                    Some(Err(SocketError::Io(_))) if self.ending => Ok(None),
                    Some(Err(error)) => Err(socket_failure(host, limit, &error)),
                    Some(Ok(Message::Text(text))) => Ok(Some(SocketFrame::Text(text.as_str().to_owned()))),
                    Some(Ok(Message::Binary(bytes))) => Ok(Some(SocketFrame::Binary(bytes))),
                    Some(Ok(Message::Ping(bytes))) => Ok(Some(SocketFrame::Ping(bytes))),
                    Some(Ok(Message::Pong(bytes))) => Ok(Some(SocketFrame::Pong(bytes))),
                    Some(Ok(Message::Close(frame))) => Ok(Some(SocketFrame::Close(
                        frame.map(|frame| (frame.code.into(), frame.reason.as_str().to_owned())),
                    ))),
                    Some(Ok(Message::Frame(_))) => continue,
                };
            }
        };
        let frame = self.bounds.run(patience, stalled, work).await?;
        self.ending |= matches!(frame, Some(SocketFrame::Close(_)));
        Ok(frame)
    }

    /// Sends a close frame. The peer's close frame can still be received.
    pub async fn close(&mut self, patience: Duration) -> Result<(), Error> {
        let (host, limit) = (&self.host, self.limit);
        let stalled = || Error::Stalled { host: host.clone(), after: patience };
        let work = async {
            match self.stream.close(None).await {
                Ok(()) | Err(SocketError::ConnectionClosed | SocketError::AlreadyClosed) => Ok(()),
                Err(error) => Err(socket_failure(host, limit, &error)),
            }
        };
        self.bounds.run(patience, stalled, work).await
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("host", &self.host).finish_non_exhaustive()
    }
}

pub(crate) fn tls_failure(host: &str, error: &io::Error) -> Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(tls) => Error::Tls { host: host.to_owned(), why: failure::describe_tls_error(tls) },
        None => Error::ConnectionLost { host: host.to_owned() },
    }
}

fn socket_failure(host: &str, limit: usize, error: &SocketError) -> Error {
    let host = host.to_owned();
    match error {
        SocketError::Capacity(_) | SocketError::WriteBufferFull(_) => Error::TooLarge { host, limit },
        SocketError::Http(response) => Error::Refused { host, status: response.status().as_u16() },
        SocketError::Io(_)
        | SocketError::ConnectionClosed
        | SocketError::AlreadyClosed
        | SocketError::Protocol(
            tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake
            | tokio_tungstenite::tungstenite::error::ProtocolError::HandshakeIncomplete,
        ) => Error::ConnectionLost { host },
        other => Error::Malformed { host, why: failure::sanitize_text(&other.to_string()) },
    }
}
