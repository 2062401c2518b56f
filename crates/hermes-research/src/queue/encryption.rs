//! How the connection to the queue is encrypted.
//!
//! Invariant: to another machine, nothing is sent without encryption unless the address says so, and an encrypted connection is only
//! made to a server whose certificate is for its name and signed by an authority that is trusted.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use hermes_net::{CertificateVerification, HttpClient, TlsHandshake, TlsStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, Socket};

use crate::error::Error;

/// An address, taken apart.
pub(super) struct QueueAddress {
    pub(super) config: Config,
    /// Set where the connection is encrypted.
    pub(super) tls: Option<QueueTls>,
}

/// The modes that demand a certificate. Here, every encrypted connection does.
const VERIFIED: [&str; 2] = ["verify-ca", "verify-full"];

impl QueueAddress {
    /// Reads an address. What it contains beside its faults may be a password, so that errors do not repeat it.
    pub(super) fn parse(address: &str, net: &HttpClient) -> Result<Self, Error> {
        let mut bundle = None;
        let mut known = address.to_owned();
        for mode in VERIFIED {
            known = known.replace(&format!("sslmode={mode}"), "sslmode=require");
        }
        if let Some((from, to, path)) = find_root_certificate(&known) {
            bundle = Some(PathBuf::from(path));
            known.replace_range(from..to, "");
            let rest = known.get(from..).unwrap_or_default().trim_start_matches(['&', ' ']).to_owned();
            let before = known.get(..from).unwrap_or_default().to_owned();
            known = if rest.is_empty() {
                before.trim_end_matches(['&', '?', ' ']).to_owned()
            } else {
                before + &rest
            };
        }
        let config: Config = known.parse().map_err(|_| {
            Error::Unusable("--queue is not an address such as postgresql://user@host/database".to_owned())
        })?;
        let is_near = config.get_hosts().iter().all(|host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
        });
        let is_encrypted = match config.get_ssl_mode() {
            SslMode::Disable => false,
            SslMode::Prefer => !is_near,
            _ => true,
        };
        let mut config = config;
        if !is_encrypted {
            config.ssl_mode(SslMode::Disable);
            return Ok(Self { config, tls: None });
        }
        config.ssl_mode(SslMode::Require);
        let net = match bundle {
            Some(path) => net.with_verification(Some(path), CertificateVerification::Required),
            None => Ok(net.clone()),
        };
        let net = net.map_err(|error| Error::Unusable(format!("sslrootcert: {error}")))?;
        Ok(Self { config, tls: Some(QueueTls(net.tls_handshake())) })
    }
}

/// Finds `sslrootcert=FILE` in an address: where it is, and the file.
fn find_root_certificate(address: &str) -> Option<(usize, usize, String)> {
    let from = address.find("sslrootcert=")?;
    let value = address.get(from..)?.split_once('=')?.1;
    let length = value.find(['&', ' ']).unwrap_or(value.len());
    let path = value.get(..length)?.replace("%2F", "/").replace("%2f", "/");
    Some((from, from + "sslrootcert=".len() + length, path))
}

/// Begins TLS on connections of the database client.
#[derive(Clone)]
pub(super) struct QueueTls(TlsHandshake);

pub(super) struct QueueTlsHost {
    handshake: TlsHandshake,
    host: String,
}

/// An encrypted connection.
pub(super) struct QueueStream(TlsStream<Socket>);

impl MakeTlsConnect<Socket> for QueueTls {
    type Stream = QueueStream;
    type TlsConnect = QueueTlsHost;
    type Error = hermes_net::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Self::TlsConnect, Self::Error> {
        Ok(QueueTlsHost { handshake: self.0.clone(), host: domain.to_owned() })
    }
}

impl TlsConnect<Socket> for QueueTlsHost {
    type Stream = QueueStream;
    type Error = hermes_net::Error;
    type Future = Pin<Box<dyn Future<Output = Result<QueueStream, hermes_net::Error>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move { Ok(QueueStream(self.handshake.connect(&self.host, stream).await?)) })
    }
}

impl tokio_postgres::tls::TlsStream for QueueStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for QueueStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for QueueStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
