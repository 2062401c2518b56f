//! A response whose body is read as it arrives.
//!
//! Dropping it closes the connection if the body was not read to its end. Every read observes the request's
//! deadline, cancel token and stall timeout.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::de::DeserializeOwned;
use url::Url;

use crate::error::Error;
use crate::failure;
use crate::request::host_of;
use crate::request_bounds::RequestBounds;

pub struct HttpResponse {
    pub(crate) inner: reqwest::Response,
    pub(crate) url: Url,
    pub(crate) bounds: RequestBounds,
    pub(crate) stall_timeout: Duration,
    pub(crate) body_limit: Option<usize>,
    pub(crate) read: usize,
}

impl HttpResponse {
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// Returns the URL that the response came from, after redirects.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the next piece of the body as it arrived, or `None` at its end. The future may be dropped and the
    /// method called again without losing data.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let host = host_of(&self.url);
        let stalled = || Error::Stalled { host: host.clone(), after: self.stall_timeout };
        let work = async { self.inner.chunk().await.map_err(|error| failure::body_error(&host, &error)) };
        let chunk = self.bounds.run(self.stall_timeout, stalled, work).await?;
        if let Some(chunk) = &chunk {
            self.read = self.read.saturating_add(chunk.len());
            if let Some(limit) = self.body_limit.filter(|cap| self.read > *cap) {
                return Err(Error::TooLarge { host, limit });
            }
        }
        Ok(chunk)
    }

    /// Returns the whole body, if it has at most `cap` bytes.
    pub async fn bytes(mut self, cap: usize) -> Result<Bytes, Error> {
        let limit = self.body_limit.map_or(cap, |own| own.min(cap));
        let too_large = |host: &Url| Error::TooLarge { host: host_of(host), limit };
        let announced = self.inner.content_length().and_then(|length| usize::try_from(length).ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large(&self.url));
        }
        // The first chunk is returned without copying: most bodies have no second.
        let Some(first) = self.next_chunk().await? else { return Ok(Bytes::new()) };
        if first.len() > limit {
            return Err(too_large(&self.url));
        }
        let Some(second) = self.next_chunk().await? else { return Ok(first) };
        let mut body = BytesMut::from(first);
        let mut chunk = Some(second);
        while let Some(piece) = chunk {
            if body.len() + piece.len() > limit {
                return Err(too_large(&self.url));
            }
            body.extend_from_slice(&piece);
            chunk = self.next_chunk().await?;
        }
        Ok(body.freeze())
    }

    /// Returns the body as text; bytes that are not UTF-8 become U+FFFD.
    pub async fn text(self, cap: usize) -> Result<String, Error> {
        let bytes = self.bytes(cap).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub async fn json<T: DeserializeOwned>(self, cap: usize) -> Result<T, Error> {
        let host = host_of(&self.url);
        let bytes = self.bytes(cap).await?;
        // The parser's own message quotes the body, which may contain secrets.
        serde_json::from_slice(&bytes).map_err(|error| {
            let what = if error.is_data() { "it has other fields" } else { "it is not JSON" };
            Error::Malformed {
                host,
                why: format!("{what} (line {}, column {})", error.line(), error.column()),
            }
        })
    }
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status().as_u16())
            .field("host", &host_of(&self.url))
            .finish_non_exhaustive()
    }
}
