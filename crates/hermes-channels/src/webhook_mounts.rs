//! Requests that platforms send: at the gateway's server, or at a port of the platform's own.
//!
//! Invariant: a path answers only while its platform listens; a request that waits when the platform stops is
//! answered with 503, so that the platform sends it again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hermes_net::HttpListener;
use hermes_types::{
    BoxFuture, Cancel, ChannelError, Clock, PlatformRequest, PlatformRequests, PlatformResponse,
};
use tokio::sync::{mpsc, oneshot};

use crate::http_listener::{RequestHandler, serve};
use crate::options::Options;

/// Limits the requests of a platform that wait or are being handled.
const MAX_WAITING: usize = 256;

/// A request, and where its response goes.
type PendingRequest = (PlatformRequest, oneshot::Sender<PlatformResponse>);

/// The paths at which platforms receive requests on the gateway's server. Clones are the same table.
#[derive(Debug, Clone, Default)]
pub struct WebhookMounts(Arc<MountTable>);

#[derive(Debug, Default)]
struct MountTable {
    /// True once a server passes requests on.
    served: AtomicBool,
    paths: Mutex<BTreeMap<String, MountedPath>>,
}

#[derive(Debug)]
struct MountedPath {
    body_limit: usize,
    requests: mpsc::Sender<PendingRequest>,
}

/// Says where a platform's requests arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestSource {
    /// At the gateway's server.
    Shared,
    /// At this address, `host:port`.
    Own(String),
}

impl RequestSource {
    /// Reads the port and host of a listener of its own; without a port, requests arrive at the shared server.
    pub(crate) fn read(options: &Options, port: &str, host: &str) -> Result<Self, String> {
        let Some(text) = options.text(port) else { return Ok(Self::Shared) };
        let number: u16 = text.parse().map_err(|_| format!("{port} is {text}; it must be a port number"))?;
        Ok(Self::Own(format!("{}:{number}", options.text(host).unwrap_or("0.0.0.0"))))
    }
}

/// The requests a platform handles.
#[derive(Clone, Copy)]
pub(crate) struct RequestEntrance<'a> {
    pub(crate) source: &'a RequestSource,
    pub(crate) path: &'a str,
    pub(crate) body_limit: usize,
    pub(crate) handler: &'a dyn RequestHandler,
}

impl WebhookMounts {
    /// Records that a server passes requests on from now.
    pub fn set_served(&self) {
        self.0.served.store(true, Ordering::Relaxed);
    }

    /// Handles the requests of a platform until cancelled. `ready` is called once they can arrive.
    pub(crate) async fn receive(
        &self,
        entrance: RequestEntrance<'_>,
        clock: &dyn Clock,
        cancel: &Cancel,
        ready: impl FnOnce(),
    ) -> Result<(), ChannelError> {
        match entrance.source {
            RequestSource::Own(address) => {
                let listener = HttpListener::bind(address).await.map_err(|error| ChannelError::Retry {
                    after: None,
                    reason: format!("cannot listen on {address}: {error}"),
                })?;
                ready();
                let handler = OwnServer { path: entrance.path, handler: entrance.handler };
                serve(listener, entrance.body_limit, clock, cancel, &handler).await;
                Ok(())
            }
            RequestSource::Shared => self.receive_shared(entrance, cancel, ready).await,
        }
    }

    async fn receive_shared(
        &self,
        entrance: RequestEntrance<'_>,
        cancel: &Cancel,
        ready: impl FnOnce(),
    ) -> Result<(), ChannelError> {
        if !self.0.served.load(Ordering::Relaxed) {
            return Err(ChannelError::Retry {
                after: None,
                reason: "the gateway's server for webhooks does not run (WEBHOOK_PORT may be in use)"
                    .to_owned(),
            });
        }
        let (sender, mut requests) = mpsc::channel(MAX_WAITING);
        let mounted = MountedPath { body_limit: entrance.body_limit, requests: sender };
        self.paths().insert(entrance.path.to_owned(), mounted);
        // Also when this future is dropped.
        let _unmount = Unmount { mounts: self, path: entrance.path };
        ready();
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                request = requests.recv(), if running.len() < MAX_WAITING => {
                    let Some((request, response)) = request else { return Ok(()) };
                    let handler = entrance.handler;
                    running.push(async move {
                        // Whoever sent the request may have gone.
                        response.send(handler.handle(request).await).ok();
                    });
                }
                Some(()) = running.next() => {}
            }
        }
    }

    fn paths(&self) -> MutexGuard<'_, BTreeMap<String, MountedPath>> {
        self.0.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PlatformRequests for WebhookMounts {
    fn body_limit(&self, path: &str) -> Option<usize> {
        self.paths().get(path).map(|mounted| mounted.body_limit)
    }

    fn answer(&self, request: PlatformRequest) -> BoxFuture<'_, PlatformResponse> {
        Box::pin(async move {
            let requests = self.paths().get(&request.path).map(|mounted| mounted.requests.clone());
            let Some(requests) = requests else { return PlatformResponse::status(404) };
            let (sender, response) = oneshot::channel();
            if requests.try_send((request, sender)).is_err() {
                return PlatformResponse::status(503);
            }
            response.await.unwrap_or_else(|_| PlatformResponse::status(503))
        })
    }
}

/// Removes a path when dropped.
struct Unmount<'a> {
    mounts: &'a WebhookMounts,
    path: &'a str,
}

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        self.mounts.paths().remove(self.path);
    }
}

/// A server for one path, and a health check.
struct OwnServer<'a> {
    path: &'a str,
    handler: &'a dyn RequestHandler,
}

impl RequestHandler for OwnServer<'_> {
    fn handle(&self, delivered: PlatformRequest) -> BoxFuture<'_, PlatformResponse> {
        if delivered.path == self.path {
            return self.handler.handle(delivered);
        }
        let is_health = delivered.path == "/health" && delivered.method == "GET";
        let answer =
            if is_health { PlatformResponse::text(200, "ok") } else { PlatformResponse::status(404) };
        Box::pin(std::future::ready(answer))
    }
}
