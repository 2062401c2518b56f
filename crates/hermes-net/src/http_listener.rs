//! Accepting connections for HTTP servers.
//!
//! Holds what every server here does alike: waiting when the process has no descriptors left, the time limit for
//! headers, and letting a running response complete when the server stops. Does not decide how many connections are
//! open, or what is answered.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hermes_types::{Cancel, Clock, OUT_OF_DESCRIPTORS, is_out_of_descriptors};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

/// The delay before the next attempt when no connection can be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(100);
const HEADERS_TIMEOUT: Duration = Duration::from_secs(15);

/// A listening socket.
#[derive(Debug)]
pub struct HttpListener {
    listener: TcpListener,
    is_short: bool,
}

impl HttpListener {
    pub async fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, is_short: false })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Waits for the next connection.
    pub async fn accept(&mut self, clock: &dyn Clock) -> TcpStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    if std::mem::take(&mut self.is_short) {
                        tracing::info!(target: "hermes::life", "connections are accepted again");
                    }
                    return stream;
                }
                // Descriptors may become free in a moment. The shortage is logged once, however long it lasts.
                Err(error) if is_out_of_descriptors(&error) => {
                    if !std::mem::replace(&mut self.is_short, true) {
                        tracing::error!(target: "hermes::life", "connections wait: {OUT_OF_DESCRIPTORS}");
                    }
                }
                // The client closed the connection before it was accepted: the next one may succeed.
                Err(error) => tracing::warn!(%error, "a connection was not accepted"),
            }
            clock.sleep(AFTER_FAILURE).await;
        }
    }
}

/// Serves a connection until it closes. When the server stops, a running response is completed first.
pub async fn serve_connection<S>(stream: TcpStream, service: S, cancel: &Cancel)
where
    S: HttpService<Incoming, Error: Display + Into<Box<dyn std::error::Error + Send + Sync>>>,
    S::ResBody: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static,
{
    // Small frames must be sent without delay.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = cancel.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
