//! TLS over a connection that another protocol opened, such as one to a database that begins without encryption.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

pub use tokio_rustls::client::TlsStream;

use crate::client::HttpClient;
use crate::error::Error;
use crate::socket::tls_failure;

/// The client's part of TLS, with the certificates that the client it comes from trusts.
#[derive(Clone)]
pub struct TlsHandshake {
    config: Arc<ClientConfig>,
}

impl fmt::Debug for TlsHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsHandshake")
    }
}

impl HttpClient {
    /// Returns what begins TLS on connections of other protocols.
    pub fn tls_handshake(&self) -> TlsHandshake {
        let mut config = self.tls();
        // These protocols have no name that every server knows.
        config.alpn_protocols = Vec::new();
        TlsHandshake { config: Arc::new(config) }
    }
}

impl TlsHandshake {
    /// Begins TLS. The server's certificate must be for `host`.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> Result<TlsStream<S>, Error> {
        let name = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(|_| Error::InvalidUrl)?;
        let connected = TlsConnector::from(self.config.clone()).connect(name, stream).await;
        connected.map_err(|error| tls_failure(host, &error))
    }
}
