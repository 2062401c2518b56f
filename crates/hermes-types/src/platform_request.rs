//! Requests that chat platforms send to the gateway's HTTP server.

use crate::BoxFuture;

/// A complete request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlatformRequest {
    /// The method in capital letters.
    pub method: String,
    pub path: String,
    /// The query without its question mark, as it was sent.
    pub query: String,
    /// The headers, with names in small letters.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl PlatformRequest {
    /// Returns the value of the first header of that name, written in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The response to a request of a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformResponse {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl PlatformResponse {
    /// Builds a response without a body.
    pub fn status(status: u16) -> Self {
        Self::text(status, "")
    }

    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into().into_bytes() }
    }
}

/// Passes the requests that arrive at a shared server to the platforms they are for.
pub trait PlatformRequests: Send + Sync {
    /// Returns the most bytes a body for this path may have, or `None` when no platform listens there.
    fn body_limit(&self, path: &str) -> Option<usize>;

    /// Answers a request. A platform is told that a message was taken only after it is on disk.
    fn answer(&self, request: PlatformRequest) -> BoxFuture<'_, PlatformResponse>;
}
