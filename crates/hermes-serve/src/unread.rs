//! Closes connections after a request whose body was not read.
//!
//! The rest of such a body would be parsed as the next request, so the connection has to close; a client that
//! reuses connections is told so. Invariant: a connection that stays open has no unread body in it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

/// Adds `Connection: close` to the response where a body was left unread.
pub(crate) async fn close_unread(request: Request, next: Next) -> Response {
    let is_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let noted = is_read.clone();
    let request = request.map(|body| Body::new(WatchedBody { body, is_read: noted }));
    let mut response = next.run(request).await;
    if !is_read.load(Ordering::Acquire) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A body that records when it was read to its end.
struct WatchedBody {
    body: Body,
    is_read: Arc<AtomicBool>,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.is_read.store(true, Ordering::Release);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
