//! Sends server-sent events from a queue.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::run::StopOnDrop;

/// The unread bytes above which a writer should pause.
const MAX_UNREAD_BYTES: usize = 64 * 1024;

/// The sender of frames.
#[derive(Debug, Clone)]
pub(crate) struct SseSender {
    queue: UnboundedSender<Bytes>,
    unread: Arc<UnreadBytes>,
}

/// The number of bytes the client has not read yet.
#[derive(Debug, Default)]
struct UnreadBytes {
    bytes: AtomicUsize,
    fewer: Notify,
}

/// The error when the client has left.
#[derive(Debug)]
pub(crate) struct ClientGone;

impl SseSender {
    /// Waits until the client has read enough of what was sent. Never returns when the client has left.
    pub(crate) async fn wait_until_read(&self) {
        loop {
            let mut fewer = std::pin::pin!(self.unread.fewer.notified());
            // Enabled before the check, so that no wake-up is missed between the check and the wait.
            fewer.as_mut().enable();
            if self.unread.bytes.load(Ordering::Relaxed) < MAX_UNREAD_BYTES {
                return;
            }
            fewer.await;
        }
    }

    pub(crate) fn data(&self, value: &Value) -> Result<(), ClientGone> {
        self.text(&value.to_string())
    }

    /// Sends JSON that is already serialized.
    pub(crate) fn text(&self, json: &str) -> Result<(), ClientGone> {
        self.raw(format!("data: {json}\n\n"))
    }

    pub(crate) fn named(&self, event: &str, value: &Value) -> Result<(), ClientGone> {
        self.raw(format!("event: {event}\ndata: {value}\n\n"))
    }

    pub(crate) fn done(&self) -> Result<(), ClientGone> {
        self.raw("data: [DONE]\n\n".to_owned())
    }

    pub(crate) fn comment(&self, text: &str) -> Result<(), ClientGone> {
        self.raw(format!(": {text}\n\n"))
    }

    fn raw(&self, text: String) -> Result<(), ClientGone> {
        self.unread.bytes.fetch_add(text.len(), Ordering::Relaxed);
        self.queue.send(Bytes::from(text)).map_err(|_| ClientGone)
    }
}

/// Creates a queue and the response that reads from it. When the client leaves, `stop` is dropped with the
/// response.
pub(crate) fn stream(stop: StopOnDrop, headers: Vec<(HeaderName, HeaderValue)>) -> (SseSender, Response) {
    let (sender, receiver) = unbounded_channel();
    let unread = Arc::new(UnreadBytes::default());
    let body = Body::from_stream(SseStream { receiver, unread: unread.clone(), _stop: stop });
    let mut response = body.into_response();
    let all = response.headers_mut();
    all.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    all.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    all.insert("x-accel-buffering", HeaderValue::from_static("no"));
    all.extend(headers);
    (SseSender { queue: sender, unread }, response)
}

struct SseStream {
    receiver: UnboundedReceiver<Bytes>,
    unread: Arc<UnreadBytes>,
    _stop: StopOnDrop,
}

impl Stream for SseStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = self.receiver.poll_recv(context);
        if let Poll::Ready(Some(bytes)) = &frame {
            self.unread.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
            self.unread.fewer.notify_waiters();
        }
        frame.map(|frame| frame.map(Ok))
    }
}
