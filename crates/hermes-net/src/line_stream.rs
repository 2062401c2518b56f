//! A connection for protocols made of lines, such as IMAP and SMTP: plain, or with TLS from its start or from later on.
//!
//! Connects directly, without proxies. The meaning of the lines is the caller's. Invariant: nothing that arrived before
//! TLS began is read after it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hermes_types::{Cancel, Deadline};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use url::Host;

use crate::client::HttpClient;
use crate::error::{Error, TimeoutPhase};
use crate::request_bounds::RequestBounds;
use crate::socket::{SocketStream, tls_failure};

/// Bytes are read in pieces of this size. Small, because most of these connections idle.
const PIECE: usize = 8 * 1024;
/// What may be read ahead of the caller at most.
const READ_AHEAD: usize = 64 * 1024;

/// Says how a connection begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamSecurity {
    Tls,
    /// Without encryption; [`LineStream::start_tls`] can begin it.
    Plain,
}

/// An open connection. Dropping it closes it.
pub struct LineStream {
    wire: Box<dyn SocketStream>,
    host: String,
    tls: Arc<ClientConfig>,
    bounds: RequestBounds,
    received: Vec<u8>,
    is_encrypted: bool,
}

impl HttpClient {
    /// Opens a connection. The deadline and the token apply for its whole life.
    pub async fn open_lines(
        &self,
        host: &str,
        port: u16,
        security: StreamSecurity,
        patience: Duration,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<LineStream, Error> {
        let bounds = self.bounds(deadline, cancel);
        let label = format!("{host}:{port}");
        let late = || Error::TimedOut { host: label.clone(), wait: TimeoutPhase::Connection };
        let parsed = Host::parse(host).map_err(|_| Error::InvalidUrl)?;
        let named = match &parsed {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(address) => Host::Ipv4(*address),
            Host::Ipv6(address) => Host::Ipv6(*address),
        };
        let wire = bounds.run(patience, late, self.dial(named, port, &label)).await?;
        let mut tls = self.tls();
        // These protocols have no name that every server knows.
        tls.alpn_protocols = Vec::new();
        let stream = LineStream {
            wire: Box::new(wire),
            host: host.to_owned(),
            tls: Arc::new(tls),
            bounds,
            received: Vec::new(),
            is_encrypted: false,
        };
        match security {
            StreamSecurity::Tls => stream.start_tls(patience).await,
            StreamSecurity::Plain => Ok(stream),
        }
    }
}

impl LineStream {
    /// Tells whether nobody on the way can read what is sent.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Begins TLS. What arrived before and was not read yet is refused, because anybody could have put it there.
    pub async fn start_tls(self, patience: Duration) -> Result<Self, Error> {
        let Self { wire, host, tls, bounds, received, .. } = self;
        if !received.is_empty() {
            let why = "the server sent something before the encryption began".to_owned();
            return Err(Error::Malformed { host, why });
        }
        let name = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(|_| Error::InvalidUrl)?;
        let late = || Error::TimedOut { host: host.clone(), wait: TimeoutPhase::Connection };
        let connect = async {
            let connected = TlsConnector::from(tls.clone()).connect(name, wire).await;
            connected.map_err(|error| tls_failure(&host, &error))
        };
        let wire = bounds.run(patience, late, connect).await?;
        Ok(Self { wire: Box::new(wire), host, tls, bounds, received, is_encrypted: true })
    }

    /// Returns the next line without its end. The future may be dropped and the method called again without losing
    /// data.
    pub async fn read_line(&mut self, limit: usize, patience: Duration) -> Result<Vec<u8>, Error> {
        let mut searched = 0;
        loop {
            let unsearched = self.received.get(searched..).unwrap_or_default();
            if let Some(end) = unsearched.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.received.drain(..=searched + end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
            searched = self.received.len();
            if searched > limit {
                return Err(Error::TooLarge { host: self.host.clone(), limit });
            }
            self.fill(patience).await?;
        }
    }

    /// Returns exactly this many bytes; each piece of them may take as long as `patience`.
    pub async fn read_bytes(&mut self, count: usize, patience: Duration) -> Result<Vec<u8>, Error> {
        let mut bytes: Vec<u8> = self.received.drain(..count.min(self.received.len())).collect();
        while bytes.len() < count {
            self.fill(patience).await?;
            let wanted = (count - bytes.len()).min(self.received.len());
            bytes.extend(self.received.drain(..wanted));
        }
        if self.received.capacity() > READ_AHEAD {
            self.received.shrink_to(PIECE);
        }
        Ok(bytes)
    }

    /// Sends bytes, waiting at most `patience` for the network to accept each piece.
    pub async fn write(&mut self, bytes: &[u8], patience: Duration) -> Result<(), Error> {
        let Self { wire, host, bounds, .. } = self;
        let lost = |_| Error::ConnectionLost { host: host.clone() };
        for piece in bytes.chunks(PIECE) {
            let stalled = || Error::Stalled { host: host.clone(), after: patience };
            bounds.run(patience, stalled, async { wire.write_all(piece).await.map_err(lost) }).await?;
        }
        let stalled = || Error::Stalled { host: host.clone(), after: patience };
        bounds.run(patience, stalled, async { wire.flush().await.map_err(lost) }).await
    }

    /// Reads what has arrived, waiting for at least one byte.
    async fn fill(&mut self, patience: Duration) -> Result<(), Error> {
        let Self { wire, host, bounds, received, .. } = self;
        let stalled = || Error::Stalled { host: host.clone(), after: patience };
        let lost = || Error::ConnectionLost { host: host.clone() };
        received.reserve(PIECE);
        let read = async { wire.read_buf(received).await.map_err(|_| lost()) };
        match bounds.run(patience, stalled, read).await? {
            0 => Err(lost()),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for LineStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineStream").field("host", &self.host).finish_non_exhaustive()
    }
}
