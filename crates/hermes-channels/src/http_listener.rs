//! A small HTTP server for platforms that send webhooks.
//!
//! Serves HTTP/1 within the task of its caller, so that the handler may borrow from it. Bodies are limited in size
//! and time; connections beyond the limit wait to be accepted.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hermes_net::StatusCode;
use hermes_types::{BoxFuture, Cancel, Clock, PlatformRequest, PlatformResponse};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

const CONNECTIONS: usize = 256;
const HEADERS_TIMEOUT: Duration = Duration::from_secs(15);
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The delay after a connection could not be accepted.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Answers requests.
pub(crate) trait RequestHandler: Send + Sync {
    fn handle(&self, delivered: PlatformRequest) -> BoxFuture<'_, PlatformResponse>;
}

/// Serves requests until cancelled.
pub(crate) async fn serve(
    listener: TcpListener,
    largest: usize,
    clock: &dyn Clock,
    cancel: &Cancel,
    door: &dyn RequestHandler,
) {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => connections.push(serve_connection(stream, largest, clock, door)),
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    clock.sleep(AFTER_FAILURE).await;
                }
            },
            Some(()) = connections.next() => {}
        }
    }
}

async fn serve_connection(stream: TcpStream, largest: usize, clock: &dyn Clock, door: &dyn RequestHandler) {
    let service = service_fn(move |request: Request<Incoming>| async move {
        let answer = match read_request(request, largest, clock).await {
            Ok(delivered) => door.handle(delivered).await,
            Err(status) => PlatformResponse::status(status.as_u16()),
        };
        let mut response = Response::new(Full::<Bytes>::from(answer.body));
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
        Ok::<_, Infallible>(response)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn read_request(
    request: Request<Incoming>,
    largest: usize,
    clock: &dyn Clock,
) -> Result<PlatformRequest, StatusCode> {
    let (head, body) = request.into_parts();
    let whole = tokio::select! {
        whole = Limited::new(body, largest).collect() => whole,
        () = clock.sleep(BODY_TIMEOUT) => return Err(StatusCode::REQUEST_TIMEOUT),
    };
    let body = whole.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?.to_bytes();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Ok(PlatformRequest {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
        body: body.to_vec(),
    })
}
