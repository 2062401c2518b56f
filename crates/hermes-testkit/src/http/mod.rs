//! A minimal HTTP/1.1, so that a script controls every byte on the wire.
//!
//! Reads requests and writes responses, with limits; knows nothing about models. Not meant for the open internet.

mod connection;
mod form;
mod parse;
mod send;

pub(crate) use connection::HttpConnection;
pub(crate) use form::{FormPart, parse_form};
pub(crate) use send::{DelayStrategy, SendResult, send};

/// A request with its complete body.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceivedRequest {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// The reason why no request could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestReadError {
    /// The client closed the connection between requests, or in the middle of one.
    #[error("the client closed the connection")]
    Closed,
    #[error("{1}")]
    Refused(u16, &'static str),
}
