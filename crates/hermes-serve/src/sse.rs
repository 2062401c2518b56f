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
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::run::StopOnDrop;

/// Frames that may wait for a slow client; a turn never waits for one.
const QUEUE: usize = 1024;

/// Where frames are written.
#[derive(Debug, Clone)]
pub(crate) struct Frames(Sender<Bytes>);

/// Nobody reads any more.
#[derive(Debug)]
pub(crate) struct Gone;

impl Frames {
    pub(crate) async fn data(&self, value: &Value) -> Result<(), Gone> {
        self.raw(format!("data: {value}\n\n")).await
    }

    pub(crate) async fn named(&self, event: &str, value: &Value) -> Result<(), Gone> {
        self.raw(format!("event: {event}\ndata: {value}\n\n")).await
    }

    pub(crate) async fn done(&self) -> Result<(), Gone> {
        self.raw("data: [DONE]\n\n".to_owned()).await
    }

    pub(crate) async fn comment(&self, text: &str) -> Result<(), Gone> {
        self.raw(format!(": {text}\n\n")).await
    }

    async fn raw(&self, text: String) -> Result<(), Gone> {
        self.0.send(Bytes::from(text)).await.map_err(|_| Gone)
    }
}

/// A queue and the answer that reads from it. When the client leaves, `stop` is dropped with the answer.
pub(crate) fn stream(stop: StopOnDrop, headers: Vec<(HeaderName, HeaderValue)>) -> (Frames, Response) {
    let (sender, receiver) = channel(QUEUE);
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
    receiver: Receiver<Bytes>,
    _stop: StopOnDrop,
}

impl Stream for Reading {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context).map(|frame| frame.map(Ok))
    }
}
