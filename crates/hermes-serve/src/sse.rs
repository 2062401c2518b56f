//! Server-sent events out of a queue.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::run::StopOnDrop;

/// Where frames are written. A turn never waits for a slow client: what waits for one is at most its answer.
#[derive(Debug, Clone)]
pub(crate) struct Frames(UnboundedSender<Bytes>);

/// Nobody reads any more.
#[derive(Debug)]
pub(crate) struct Gone;

impl Frames {
    pub(crate) fn data(&self, value: &Value) -> Result<(), Gone> {
        self.text(&value.to_string())
    }

    /// JSON that is text already.
    pub(crate) fn text(&self, json: &str) -> Result<(), Gone> {
        self.raw(format!("data: {json}\n\n"))
    }

    pub(crate) fn named(&self, event: &str, value: &Value) -> Result<(), Gone> {
        self.raw(format!("event: {event}\ndata: {value}\n\n"))
    }

    pub(crate) fn done(&self) -> Result<(), Gone> {
        self.raw("data: [DONE]\n\n".to_owned())
    }

    pub(crate) fn comment(&self, text: &str) -> Result<(), Gone> {
        self.raw(format!(": {text}\n\n"))
    }

    fn raw(&self, text: String) -> Result<(), Gone> {
        self.0.send(Bytes::from(text)).map_err(|_| Gone)
    }
}

/// A queue and the answer that reads from it. When the client leaves, `stop` is dropped with the answer.
pub(crate) fn stream(stop: StopOnDrop, headers: Vec<(HeaderName, HeaderValue)>) -> (Frames, Response) {
    let (sender, receiver) = unbounded_channel();
    let body = Body::from_stream(Reading { receiver, _stop: stop });
    let mut response = body.into_response();
    let all = response.headers_mut();
    all.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    all.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    all.insert("x-accel-buffering", HeaderValue::from_static("no"));
    all.extend(headers);
    (Frames(sender), response)
}

struct Reading {
    receiver: UnboundedReceiver<Bytes>,
    _stop: StopOnDrop,
}

impl Stream for Reading {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context).map(|frame| frame.map(Ok))
    }
}
