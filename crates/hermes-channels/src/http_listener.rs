//! A small HTTP server for platforms that send webhooks.
//!
//! Serves HTTP/1 within the task of its caller, so that the handler may borrow from it. Bodies are limited in size
//! and time; connections beyond the limit wait to be accepted.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hermes_net::{HttpListener, StatusCode, serve_connection};
use hermes_types::{BoxFuture, Cancel, Clock, PlatformRequest, PlatformResponse};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};

const CONNECTIONS: usize = 256;
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers requests.
pub(crate) trait RequestHandler: Send + Sync {
    fn handle(&self, delivered: PlatformRequest) -> BoxFuture<'_, PlatformResponse>;
}

/// Serves requests until cancelled.
pub(crate) async fn serve(
    mut listener: HttpListener,
    largest: usize,
    clock: &dyn Clock,
    cancel: &Cancel,
    door: &dyn RequestHandler,
) {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            stream = listener.accept(clock), if connections.len() < CONNECTIONS => {
                let service = service_fn(move |request| answer(request, largest, clock, door));
                connections.push(serve_connection(stream, service, cancel));
            }
            Some(()) = connections.next() => {}
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    largest: usize,
    clock: &dyn Clock,
    door: &dyn RequestHandler,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = match read_request(request, largest, clock).await {
        Ok(delivered) => door.handle(delivered).await,
        Err(status) => PlatformResponse::status(status.as_u16()),
    };
    let mut response = Response::new(Full::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    Ok(response)
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
